"""What a good file says, in both formats."""

from pathlib import Path

import pytest
from msgspec import structs

from ottla.pipelines import spec
from ottla.pipelines.spec.mistake import SpecErrors
from ottla.pipelines.spec.model import (
    Compaction,
    Deduplicate,
    Expectation,
    Join,
    PipelineSpec,
    Python,
    Sql,
    State,
    TableSink,
    TopicSink,
    Window,
)
from tests.unit.pipelines.spec.pipeline_files import WHOLE, WHOLE_YAML

HOUR_MS = 3_600_000


def read(text: str, file: str = "p.toml", directory: Path = Path("/nowhere")) -> PipelineSpec:
    found, mistakes = spec.check_text(text.encode(), file=file, directory=directory)
    assert found is not None, "\n".join(map(str, mistakes))
    assert mistakes == []
    return found


def said(found: PipelineSpec) -> PipelineSpec:
    """What a file says, wherever in it that stands."""
    assert found.places
    return structs.replace(found, places={})


def test_every_part_of_a_file_is_in_the_values_it_gives() -> None:
    whole = read(WHOLE)
    assert (whole.name, whole.bootstrap, whole.trigger_ms) == ("flights", "127.0.0.1:9092", 2_000)
    events, airlines = whole.sources["events"], whole.sources["airlines"]
    assert (events.topics, events.group, events.max_records) == (("flights.events",), "flights", 200_000)
    assert events.options == {"kafka.fetch.max.bytes": "8388608"}
    assert (events.table, airlines.table, airlines.key) == (False, True, "code")
    flown, sane, once, named, hourly = whole.steps
    assert flown.action == Sql(sql="select * from events where flight is not null")
    assert sane.action.expect == (Expectation(name="delay", check="delay_min between -120 and 2000", on_fail="dlq"),)
    assert once.action == Deduplicate(by=("flight",), within_ms=24 * HOUR_MS, time="scheduled_at")
    assert named.action == Join(other="airlines", on="once.carrier = airlines.code", how="left")
    assert hourly.action == Window(
        time="scheduled_at",
        every_ms=HOUR_MS,
        late_ms=6 * HOUR_MS,
        by=("carrier",),
        aggregate={"n": "count(*)", "delay": "avg(delay_min)"},
    )
    delays, lake = whole.sinks
    assert delays == TopicSink(
        name="delays", input="hourly", topic="flights.delays", key="carrier", transactional_id="flights.delays"
    )
    assert lake == TableSink(
        name="lake",
        input="named",
        format="parquet",
        path="lake/delays",
        partition_by=("carrier",),
        compact=Compaction(every_ms=HOUR_MS, target_bytes=128 * 1024 * 1024),
    )
    (test,) = whole.tests
    assert test.given == {"events": ({"flight": "UA1", "carrier": "UA", "delay_min": 5}, "no json")}
    assert (test.expect, test.dead_letters) == ({"hourly": ({"carrier": "UA", "n": 1},)}, ())


def test_a_step_reads_the_step_before_it_and_the_first_one_the_only_stream() -> None:
    assert [step.inputs for step in read(WHOLE).steps] == [
        ("events",),
        ("flown",),
        ("sane",),
        ("once", "airlines"),
        ("named",),
    ]


def test_the_same_file_in_yaml_gives_the_same_pipeline() -> None:
    assert said(read(WHOLE_YAML, "p.yaml")) == said(read(WHOLE)) == said(read(WHOLE.replace("\n", "\r\n")))


def test_what_steps_and_sinks_do_has_a_place_for_messages_of_spark() -> None:
    whole = read(WHOLE)
    lines = WHOLE.splitlines()
    for name, begins in (("flown", "sql ="), ("sane", "expect ="), ("hourly", "[steps.window]"), ("lake", "[[sinks]]")):
        file, line = whole.places[name].split(":")
        assert (file, lines[int(line) - 1].startswith(begins)) == ("p.toml", True), name
    assert whole.at("flown") == f"{whole.places['flown']}: "
    assert whole.at("nobody") == ""


def test_words_that_old_yaml_takes_for_truth_and_time_stay_texts() -> None:
    row = 'given.events = [{ a = "no", b = "12:30", c = "2013-06-01T00:00:00Z", d = 1, e = true, f = "010" }]'
    text = WHOLE.replace('given.events = [{ flight = "UA1", carrier = "UA", delay_min = 5 }, "no json"]', row)
    toml = read(text.replace('"2013-06-01T00:00:00Z"', "2013-06-01T00:00:00Z"))
    rows = "events: [{ a: no, b: 12:30, c: 2013-06-01T00:00:00Z, d: 1, e: true, f: 010 }]"
    yaml = read(WHOLE_YAML.replace("events: [{ flight: UA1, carrier: UA, delay_min: 5 }, no json]", rows), "p.yml")
    assert said(toml) == said(yaml) == said(read(text))


def test_a_query_reads_the_sources_and_steps_it_names_wherever_they_stand_in_it() -> None:
    query = "with late as (select * from EVENTS) select * from late join flown on true where x in (select y from sane)"
    text = WHOLE.replace("[[sinks]]", f'[[steps]]\nname = "odd"\nsql = "{query}"\n\n[[sinks]]', 1)
    assert read(
        text.replace('input = "hourly"', 'input = "odd"').replace('"named"\nparquet', '"hourly"\nparquet')
    ).steps[-1].inputs == ("events", "flown", "sane")


def test_functions_beside_the_file_are_found_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "enrich.py").write_text("raise SystemExit('this was run')\ndef enrich(rows, other): return rows\n")
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "by_key.py").write_text("class Sessions: ...\n")
    steps = """
[[steps]]
name = "enriched"
input = ["hourly", "flown"]
python = "enrich:enrich"
[[steps]]
name = "sessions"
state = { python = "sessions.by_key:Sessions", by = ["carrier"], schema = "n int", mode = "update" }
[[sinks]]"""
    text = WHOLE.replace("[[sinks]]", steps, 1).replace('input = "hourly"\ntopic', 'input = "sessions"\ntopic')
    enriched, sessions = read(text, directory=tmp_path).steps[-2:]
    assert (enriched.inputs, enriched.action) == (("hourly", "flown"), Python(python="enrich:enrich"))
    assert sessions.action == State(python="sessions.by_key:Sessions", by=("carrier",), schema="n int", mode="update")


def test_a_file_is_read_from_disk_and_its_directory_is_where_paths_begin(tmp_path: Path) -> None:
    (tmp_path / "flights.toml").write_text(WHOLE)
    (tmp_path / "flights.yaml").write_text(WHOLE_YAML)
    found = spec.read(tmp_path / "flights.toml")
    assert said(found) == said(spec.read(str(tmp_path / "flights.yaml")))
    assert found.path("lake/delays") == str(tmp_path / "lake/delays")
    assert (found.path("s3://lake/x"), found.path("/lake")) == ("s3://lake/x", "/lake")
    (tmp_path / "bad.toml").write_text(WHOLE.replace("topics", "topic"))
    with pytest.raises(
        SpecErrors, match=r"bad\.toml:6:1: unknown key topic in source events \(did you mean topics\?\)"
    ):
        spec.read(tmp_path / "bad.toml")
    with pytest.raises(FileNotFoundError):
        spec.read(tmp_path / "none.toml")
