"""Pipelines on Spark over a running broker: what their files say is what happens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import structs

from ottla.pipelines.compiler.sources import batch, decode, reading_options
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.live_view import JsonLines
from ottla.pipelines.runner.running import Outcome, RunOptions, supervise
from ottla.pipelines.session import Session
from ottla.pipelines.spec import PipelineSpec, read
from ottla.pipelines.spec.model import Json, Source
from ottla.pipelines.tables import ParquetTable
from ottla.pipelines.testing import run_tests
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.committed_records import committed_records, wait_until_ended
from tests.json_values import NOT_PLAIN, PLAIN, SCHEMA
from tests.system.spark_session import pipeline_session

_names = count()

FLIGHTS = """
name = "flights"
checkpoints = "checkpoints"

[sources.events]
topics = ["P.events"]
group = "P"
format = "json"
schema = "flight string, carrier string, delay int, at timestamp"

[sources.gates]
topics = ["P.gates"]
format = "json"
schema = "Flight string, gate string, open timestamp"

[sources.airlines]
topics = ["P.airlines"]
table = true
format = "json"
key = "code"
schema = "name string"

[[steps]]
name = "decoded"
input = "events"
sql = "select flight, carrier, delay, at from events where flight != 'test'"

[[steps]]
name = "sane"
expect = [
  { name = "possible", check = "delay > -60", on_fail = "dlq" },
  { name = "short", check = "delay < 600", on_fail = "drop" },
  { name = "early", check = "delay <= 0" },
]

[[steps]]
name = "once"
deduplicate = { by = ["flight"], within = "1 day", time = "at" }

[[steps]]
name = "named"
join = { with = "airlines", on = "once.carrier = airlines.code", how = "left" }

[[steps]]
name = "enriched"
python = "enrich:shout"

[[steps]]
name = "hourly"
input = "sane"
window = { time = "AT", every = "1 hour", by = ["carrier"], aggregate = { n = "count(*)", longest = "max(delay)" } }

[[steps]]
name = "gated"
input = "decoded"
join = { with = "gates", on = "decoded.flight = gates.flight", within = "1 hour", time = "at", with_time = "open" }

[[steps]]
name = "totals"
input = "decoded"
state = { python = "enrich:Totals", by = ["carrier"], schema = "carrier string, flights int", mode = "update" }

[[sinks]]
name = "out"
input = "enriched"
topic = "P.out"
key = "flight"

[[sinks]]
name = "lake"
input = "hourly"
parquet = "lake"

[[sinks]]
name = "at_gates"
input = "gated"
topic = "P.gated"
value = "concat(flight, ' at ', gate)"

[[sinks]]
name = "per_carrier"
input = "totals"
topic = "P.totals"
key = "carrier"
output = "update"

[dead_letters]
topic = "P.dead"

[[tests]]
name = "a late flight is named"
given.events = [{ flight = "UA1", carrier = "UA", delay = 5, at = "2013-01-01T10:00:00Z" }, "nonsense"]
given.airlines = [{ code = "UA", name = "United" }]
expect.enriched = [{ flight = "UA1", name = "UNITED" }]
expect.hourly = [{ window_start = "2013-01-01T10:00:00Z", carrier = "UA", n = 1 }]
dead_letters = [{ step = "events", value = "nonsense" }]

[[tests]]
name = "a wrong one"
given.events = [{ flight = "UA1", carrier = "UA", delay = 5, at = "2013-01-01T10:00:00Z" }]
expect.hourly = [{ carrier = "UA", n = 2 }]
"""
ENRICH = """
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql import Row


def shout(rows):
    return rows.withColumn("name", f.upper("name"))


class Totals(StatefulProcessor):
    def init(self, handle):
        self._count = handle.getValueState("count", "n int")

    def handleInputRows(self, key, rows, timerValues):
        total = (self._count.get()[0] if self._count.exists() else 0) + sum(1 for _ in rows)
        self._count.update((total,))
        yield Row(carrier=key[0], flights=total)

    def close(self):
        pass
"""
HOUR = "2013-01-01T1{}:00:00Z"
EVENTS: list[bytes | None] = [
    *(
        json.dumps(row).encode()
        for row in (
            {"flight": "UA1", "carrier": "UA", "delay": 5, "at": HOUR.format(0)},
            {"flight": "UA1", "carrier": "UA", "delay": 5, "at": HOUR.format(0)},
            {"flight": "DL2", "carrier": "DL", "delay": 0, "at": HOUR.format(0)},
            {"flight": "UA3", "carrier": "UA", "delay": -100, "at": HOUR.format(0)},
            {"flight": "UA4", "carrier": "UA", "delay": 900, "at": HOUR.format(0)},
            {"flight": "test", "carrier": "UA", "delay": 1, "at": HOUR.format(0)},
        )
    ),
    b"nonsense",
    None,
]
LATER = json.dumps({"flight": "XX9", "carrier": "XX", "delay": 1, "at": "2013-01-02T23:00:00Z"}).encode()


class Broker:
    """A broker seen by confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(self, *topics: str) -> None:
        made = [NewTopic(topic, 2, 1, config={"retention.ms": "-1"}) for topic in topics]
        for creation in self._admin.create_topics(made).values():
            creation.result()

    def produce(self, topic: str, values: Sequence[bytes | None], keys: list[str] | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 2})
        for number, value in enumerate(values):
            producer.produce(topic, value, keys[number] if keys else None, partition=0)
        assert producer.flush(60) == 0

    def abort(self, topic: str, value: bytes | None) -> None:
        """A record of a transaction that is aborted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": topic})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush()
        producer.abort_transaction()
        wait_until_ended(self.bootstrap, topic)

    def consume(self, topic: str) -> list[Any]:
        """What is committed."""
        return committed_records(self.bootstrap, topic)

    def values(self, topic: str) -> list[str]:
        return sorted(message.value().decode() for message in self.consume(topic))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture
def flights(broker: BrokerProcess, tmp_path: Path) -> tuple[PipelineSpec, Broker, str]:
    """A pipeline of every kind of step, its topics filled."""
    prefix = f"flights{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(*(f"{prefix}.{name}" for name in ("events", "gates", "airlines", "out", "gated", "totals", "dead")))
    there.produce(f"{prefix}.events", EVENTS)
    there.produce(f"{prefix}.gates", [json.dumps({"Flight": "DL2", "gate": "B7", "open": HOUR.format(0)}).encode()])
    there.produce(
        f"{prefix}.airlines", [b'{"name":"Old"}', b'{"name":"United"}', b'{"name":"Delta"}'], ["UA", "UA", "DL"]
    )
    there.abort(f"{prefix}.events", EVENTS[0])
    (tmp_path / "enrich.py").write_text(ENRICH)
    file = tmp_path / "flights.toml"
    file.write_text(FLIGHTS.replace('"P', f'"{prefix}'))
    return read(file), there, prefix


def run(session: Session, spec: PipelineSpec, there: Broker) -> tuple[Outcome, list[dict[str, Any]]]:
    lines: list[str] = []
    options = RunOptions({spec.name: there.bootstrap}, until_caught_up=True)
    outcome = supervise(session.spark, [spec], options, JsonLines(lines.append))
    return outcome, [json.loads(line) for line in lines]


def test_what_the_jvm_logs_and_what_it_says_are_in_one_file(session):
    java = session.spark._jvm
    java.org.apache.logging.log4j.LogManager.getLogger("tests").warn("logged")
    java.java.lang.System.err.println("said")

    def found() -> list[str]:
        """The two lines, among those of others that may be at work."""
        lines = session._options.log.read_text().splitlines()
        return [line for line in lines if line == "said" or line.endswith(" WARN  tests: logged")]

    wait_until(lambda: "said" in found(), "its log")
    assert [line.split()[-1] for line in found()] == ["logged", "said"]


def test_a_pipeline_of_every_kind_of_step_gives_exactly_its_rows(session, flights):
    spec, there, prefix = flights
    outcome, events = run(session, spec, there)
    assert outcome.failed == []
    assert {event["query"] for event in events if event["event"] == "finished"} == {
        "flights.out",
        "flights.lake",
        "flights.at_gates",
        "flights.per_carrier",
    }
    out = {message.key().decode(): json.loads(message.value()) for message in there.consume(f"{prefix}.out")}
    assert {key: row["name"] for key, row in out.items()} == {"UA1": "UNITED", "DL2": "DELTA"}
    letters = {message.value(): dict(message.headers()) for message in there.consume(f"{prefix}.dead")}
    assert {letter_of(headers.items()).step for headers in letters.values()} == {"events", "sane"}
    assert len(letters) == len(there.consume(f"{prefix}.dead")) == 3
    assert letters[b"nonsense"]["__ottla.errors.message"].startswith(b"the value is not JSON: ")
    refused = [letter for headers in letters.values() if (letter := letter_of(headers.items())).step == "sane"]
    assert [(each.error_class, each.attempt) for each in refused] == [("possible", 1)]
    assert there.values(f"{prefix}.gated") == ["DL2 at B7"]
    totals = {message.key().decode(): json.loads(message.value()) for message in there.consume(f"{prefix}.totals")}
    assert {key: row["flights"] for key, row in totals.items()} == {"UA": 4, "DL": 1}
    first = next(event for event in events if event["event"] == "batch" and event["query"] == "flights.out")
    assert first["steps"]["events"]["rows_in"] == len(EVENTS)
    assert first["steps"]["sane"] == {"rows_in": 5, "rows_out": 3, "bad": {"possible": 1, "short": 1, "early": 2}}
    assert (first["bad_rows"], first["bad_reason"], first["warnings"]) == (4, "sane: short", 2)
    # The sink that does not write the dead letters counts them all the same.
    beside = next(event for event in events if event["event"] == "batch" and event["query"] == "flights.lake")
    assert beside["steps"]["events"] == {"rows_in": len(EVENTS), "rows_out": 6, "bad": {"does not decode": 2}}
    assert (beside["bad_rows"], beside["warnings"]) == (4, 2)
    # What is later closes the windows; nothing comes a second time.
    there.produce(f"{prefix}.events", [LATER])
    there.produce(f"{prefix}.airlines", [b'{"name":"Ten"}'], ["XX"])
    run(session, spec, there)
    run(session, spec, there)
    out = {message.key().decode(): json.loads(message.value()) for message in there.consume(f"{prefix}.out")}
    assert {key: row["name"] for key, row in out.items()} == {"UA1": "UNITED", "DL2": "DELTA", "XX9": "TEN"}
    assert len(there.consume(f"{prefix}.out")) == 3
    assert len(there.consume(f"{prefix}.dead")) == 3
    rows = [row for file in ParquetTable.open(spec.path("lake")).files() for row in pq.read_table(file).to_pylist()]
    assert {(row["carrier"], row["n"], row["longest"]) for row in rows} == {("UA", 2, 5), ("DL", 1, 0)}


def test_an_expectation_that_fails_ends_its_query_and_names_the_record(session, broker, tmp_path):
    prefix = f"fails{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(f"{prefix}.in", f"{prefix}.out")
    there.produce(f"{prefix}.in", [b'{"a":1}', b'{"a":-1}'])
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
name = "{prefix}"
[sources.events]
topics = ["{prefix}.in"]
format = "json"
schema = "a int"
[[steps]]
name = "sane"
expect = [{{ name = "positive", check = "a > 0", on_fail = "fail" }}]
[[sinks]]
name = "out"
topic = "{prefix}.out"
"""
    )
    outcome, events = run(session, read(file), there)
    [(query, failure)] = outcome.failed
    assert query == f"{prefix}.out"
    assert failure.reason == (f"expectation failed: step sane: positive: not a > 0 for the record {prefix}.in-0@1")
    assert [event["event"] for event in events if event["event"] != "working"] == ["planning", "failed"]
    assert there.consume(f"{prefix}.out") == []


def test_json_is_read_as_it_is_written_or_as_spark_reads_it(session, broker):
    """Strict: what is not of the schema is refused by its field, alone. Lenient: what `from_json` gives."""
    topic = f"json{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(topic)
    values = [*(value for value, _ in PLAIN), *NOT_PLAIN]
    there.produce(topic, values)
    source = Source(name="events", topics=(topic,), format="json", schema=SCHEMA)
    spec = PipelineSpec(name="p", sources={"events": source}, sinks=())

    def judged(source: Source) -> tuple[dict[bytes, dict[str, Any]], dict[bytes, str]]:
        decoded = decode(source, batch(session.spark, reading_options(spec, source, broker.bootstrap)))
        good = [row.asDict() for row in decoded.good.collect()]
        bad = decoded.refused.collect()
        assert len(good) + len(bad) == len(values)
        return (
            {bytes(row.pop("_record")["value"]): row for row in good},
            {bytes(row["_record"]["value"]): row["_reason"] for row in bad},
        )

    good, bad = judged(source)
    assert {value for value, _ in PLAIN} <= good.keys()
    assert bad[b'{"a":1}'] == "field a: 1 is not a string"
    assert bad[b'{"a":"x"}{"a":"y"}'] == "something follows the object, at character 9"
    assert bad[b'{"i":3000000000}'] == "field i: 3000000000 is beyond int"
    good, bad = judged(structs.replace(source, json=Json(mode="lenient")))
    assert good[b'{"a":1}']["a"] == "1"
    assert good[b'{"a":"x"}{"a":"y"}']["a"] == "x"
    assert bad[b'{"i":3000000000}'].startswith("a field is of another type than the schema says")


def test_a_time_that_the_topic_of_a_sink_does_not_take_is_a_dead_letter(session, broker, tmp_path):
    """The broker refuses the whole transaction for one such record, each time that it is tried."""
    prefix = f"untimely{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(f"{prefix}.in", f"{prefix}.out", f"{prefix}.dead")
    times = ["2013-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2300-01-01T00:00:00Z", "60000-01-01T00:00:00Z", None]
    values = [json.dumps({"n": n, "at": at}).encode() for n, at in enumerate(times)]
    there.produce(f"{prefix}.in", values)
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
name = "{prefix}"
[sources.events]
topics = ["{prefix}.in"]
format = "json"
schema = "n int, at timestamp"
[[sinks]]
name = "out"
topic = "{prefix}.out"
timestamp = "at"
value = "cast(n as string)"
[dead_letters]
topic = "{prefix}.dead"
"""
    )
    outcome, _ = run(session, read(file), there)
    assert outcome.failed == []
    assert sorted(there.values(f"{prefix}.out")) == ["0", "4"]
    letters = {message.value(): letter_of(message.headers()) for message in there.consume(f"{prefix}.dead")}
    assert {value: letter.step for value, letter in letters.items()} == {
        values[1]: "out",
        values[2]: "out",
        values[3]: "events",
    }
    assert letters[values[1]].offset == 1
    assert (letters[values[1]].reason or "").startswith(
        "timestamp: 9999-12-31 23:59:59 is more than 3600000 ms after now"
    )
    assert (letters[values[3]].reason or "").startswith("field at: ")


def test_the_tests_of_a_file_run_on_its_rows(session, flights):
    spec, _, _ = flights
    good, bad = run_tests(spec, session.spark)
    assert (good.name, good.differences) == ("a late flight is named", ())
    assert bad.differences == ("hourly: 1 row missing, 1 too many", "  - carrier=UA n=2", "  + carrier=UA n=1")


def test_the_tests_of_the_demos_pipeline_hold(session):
    spec = read(Path(__file__).resolve().parents[2] / "examples" / "flights" / "pipeline.toml")
    assert [(each.name, each.differences) for each in run_tests(spec, session.spark)] == [
        (case.name, ()) for case in spec.tests
    ]


@pytest.mark.long
def test_a_driver_that_is_killed_between_micro_batches_costs_nothing_and_doubles_nothing(broker, tmp_path):
    prefix = f"killed{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(f"{prefix}.in", f"{prefix}.out", f"{prefix}.dead")
    there.produce(f"{prefix}.in", [b"bad" if n % 10 == 0 else json.dumps({"n": n}).encode() for n in range(1000)])
    file = tmp_path / "p.toml"
    file.write_text(
        f"""
name = "{prefix}"
[sources.events]
topics = ["{prefix}.in"]
format = "json"
schema = "n int"
max_records = 100
[[sinks]]
name = "out"
topic = "{prefix}.out"
[[sinks]]
name = "lake"
parquet = "lake"
[dead_letters]
topic = "{prefix}.dead"
"""
    )
    command = [sys.executable, "-m", "ottla.cli", "pipeline", "run", str(file), "--until-caught-up", "--json"]
    command += ["-b", broker.bootstrap, "--memory", "512m"]
    for stop_after in (1, 3, 2, None):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen += json.loads(line)["event"] == "batch"
            if seen == stop_after:
                process.kill()
                break
        process.stdout.close()
        code = process.wait()
    assert code == 0
    assert sorted(json.loads(value)["n"] for value in there.values(f"{prefix}.out")) == [
        n for n in range(1000) if n % 10
    ]
    assert len(there.consume(f"{prefix}.dead")) == 100
    rows = [
        row["n"]
        for each in ParquetTable.open(str(tmp_path / "lake")).files()
        for row in pq.read_table(each).to_pylist()
    ]
    assert sorted(rows) == [n for n in range(1000) if n % 10]
