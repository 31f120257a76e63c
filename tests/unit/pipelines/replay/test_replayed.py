"""A replay reads exactly its range and writes nowhere that production writes."""

import json

import pytest
from msgspec import structs

from ottla.pipelines.replay.replayed import ReplayError, ReplayRange, replayed
from ottla.pipelines.spec.model import (
    Audit,
    Compaction,
    DeadLetters,
    PipelineSpec,
    Source,
    TableSink,
    TopicSink,
)

SPEC = PipelineSpec(
    name="flights",
    sources={
        "events": Source(
            name="events",
            pattern="flights[.].*",
            group="flights",
            options={"startingTimestamp": "1", "GroupId": "x", "kafka.fetch.max.bytes": "9"},
        ),
        "airlines": Source(name="airlines", topics=("airlines",), table=True, group="flights"),
    },
    sinks=(
        TopicSink(name="delays", input="events", topic="delays", transactional_id="flights.delays"),
        TableSink(name="lake", input="events", format="parquet", path="lake/delays/", compact=Compaction()),
    ),
    dead_letters=DeadLetters(topic="dead"),
    audit=Audit(topic="audit"),
)
RANGE = ReplayRange({"flights.b": {0: 5}, "flights.a": {0: 1, 1: 2}}, {"flights.b": {0: 5}, "flights.a": {0: 9, 1: 9}})


def test_the_range_is_read_and_every_output_is_another():
    side = replayed(SPEC, {"events": RANGE}, "v2")
    events = side.sources["events"]
    assert (events.topics, events.pattern, events.start, events.group) == (
        ("flights.a", "flights.b"),
        None,
        "earliest",
        "flights-v2",
    )
    assert events.options.keys() == {"kafka.fetch.max.bytes", "startingOffsets", "endingOffsets"}
    assert json.loads(events.options["startingOffsets"]) == {"flights.b": {"0": 5}, "flights.a": {"0": 1, "1": 2}}
    assert json.loads(events.options["endingOffsets"]) == {"flights.b": {"0": 5}, "flights.a": {"0": 9, "1": 9}}
    assert side.sources["airlines"] == SPEC.sources["airlines"]
    delays, lake = side.sinks
    assert isinstance(delays, TopicSink)
    assert (delays.name, delays.topic, delays.transactional_id) == ("delays", "delays.v2", "flights.delays.v2")
    assert isinstance(lake, TableSink)
    assert (lake.path, lake.compact) == ("lake/delays.v2", None)
    assert (side.name, side.dead_letters, side.audit) == (
        "flights-v2",
        DeadLetters(topic="dead.v2"),
        Audit(topic="audit.v2"),
    )


def test_a_pipeline_without_letters_audit_and_group_has_none_in_a_replay():
    bare = structs.replace(
        SPEC,
        sources={"events": structs.replace(SPEC.sources["events"], group=None)},
        dead_letters=None,
        audit=None,
    )
    side = replayed(bare, {"events": RANGE}, "v2")
    assert (side.dead_letters, side.audit, side.sources["events"].group) == (None, None, None)


@pytest.mark.parametrize("suffix", ["", "V2", "a/b", ".a", "a.", "x" * 41])
def test_a_suffix_that_no_topic_can_have_is_refused(suffix: str):
    with pytest.raises(ReplayError, match="cannot be part"):
        replayed(SPEC, {"events": RANGE}, suffix)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ({"a": {0: 1}}, {}, "in different topics"),
        ({"a": {0: 1}}, {"a": {1: 1}}, "in different partitions of a"),
        ({"a": {0: 3}}, {"a": {0: 2}}, "a-0: the range ends at 2, before it begins at 3"),
    ],
)
def test_a_range_that_is_none_is_refused(start: dict, end: dict, message: str):
    with pytest.raises(ReplayError, match=message):
        replayed(SPEC, {"events": ReplayRange(start, end)}, "v2")


def test_a_stream_without_a_range_is_refused():
    with pytest.raises(ReplayError, match="no range of source events"):
        replayed(SPEC, {}, "v2")
