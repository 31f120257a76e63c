"""What a source says of times, tombstones and metadata, and what of it makes no sense."""

from pathlib import Path

import pytest

from ottla.pipelines.spec.lineage import states_of, times_of
from ottla.pipelines.spec.reading import check_text

FILE = """
name = "p"
[sources.events]
topics = ["a"]
SOURCE
[[sinks]]
name = "out"
topic = "out"
"""
JSON = 'format = "json"\nschema = "id string, at timestamp"\n'


def said(source: str) -> list[str]:
    _, mistakes = check_text(FILE.replace("SOURCE", source).encode(), file="p.toml", directory=Path("/srv"))
    return [each.message for each in mistakes]


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        ('format = "text"\ntimestamps = "seconds"', "source events says what numbers count, and its format text"),
        (JSON + 'timestamps = "minutes"', "minutes"),
        (JSON + 'tombstones = "drop"', "drop"),
        (JSON + 'metadata = { At = "timestamp" }', "the column At of source events is there already"),
        (JSON + 'metadata = { sent = "time" }', "time"),
        (JSON + 'metadata = { "a b" = "offset" }', "'a b' of source events cannot name a column"),
        (JSON + 'metadata = { a = "offset", A = "headers" }', "the column A of source events is there already"),
        ('metadata = { offset = "offset" }', "the column offset of source events is there already"),
        (JSON + 'table = true\ntombstones = "row"', "source events is a table, in which a tombstone removes its key"),
    ],
)
def test_what_makes_no_sense_is_a_mistake(source, mistake):
    assert any(mistake in each for each in said(source))


@pytest.mark.parametrize(
    "source",
    [
        JSON + 'timestamps = "microseconds"',
        JSON + 'json.mode = "lenient"\ntimestamps = "seconds"\nahead = "2 hours"\nmetadata = { sent = "timestamp" }',
        'metadata = { more = "headers" }',
        'format = "text"\ntombstones = "dead-letter"',
    ],
)
def test_what_makes_sense_is_none(source):
    assert said(source) == []


def test_times_and_states_are_found_through_all_steps():
    steps = """
[sources.other]
topics = ["b"]
[[steps]]
name = "once"
input = "events"
deduplicate = { by = ["id"], within = "1 day", time = "AT" }
[[steps]]
name = "both"
join = { with = "other", on = "once.id = other.id", within = "1 day", time = "at", with_time = "timestamp" }
[[steps]]
name = "hourly"
window = { time = "seen", every = "1 hour", aggregate = { n = "count(*)" } }
"""
    text = FILE.replace("SOURCE", JSON).replace("[[sinks]]", steps + "[[sinks]]")
    spec, mistakes = check_text(text.encode(), file="p.toml", directory=Path("/srv"))
    assert spec is not None, mistakes
    assert times_of(spec, "events") == {"at", "seen"}
    assert times_of(spec, "other") == {"timestamp", "seen"}
    assert states_of(spec, "out") == (
        ("hourly", "stateStoreSave"),
        ("both", "symmetricHashJoin"),
        ("once", "dedupeWithinWatermark"),
    )
