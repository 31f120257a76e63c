"""What a command line says of a range is offsets of every partition, or a line that says what is wrong."""

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, OffsetAt
from ottla.client.io.cluster_metadata import PartitionMetadata, TopicMetadata
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.replay.ranges import FILE, Place, parse_place, remember, remembered, resolve
from ottla.pipelines.replay.replayed import ReplayError, ReplayRange
from ottla.pipelines.spec.model import PipelineSpec, Source, TopicSink

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Log:
    """Partitions that begin at 10 and end at 20, with a record a millisecond; two more are of an open transaction."""

    def topics(self) -> dict[str, TopicMetadata]:
        return {
            name: TopicMetadata(
                name,
                UUID(int=1),
                False,
                tuple(PartitionMetadata(number, 1, 0, (1,), (1,), ()) for number in range(count)),
            )
            for name, count in (("a", 2), ("b", 1))
        }

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        end = 20 if isolation is IsolationLevel.READ_COMMITTED else 22
        return {place: ListedOffset(self._offset(when, end), -1, -1) for place, when in at.items()}

    def _offset(self, when: int, end: int) -> int:
        if when in (OffsetAt.EARLIEST, OffsetAt.LATEST):
            return 10 if when == OffsetAt.EARLIEST else end
        return max(when, 10) if when < 20 else -1


def spec(*sources: Source) -> PipelineSpec:
    sink = TopicSink(name="s", input=sources[0].name, topic="t", transactional_id="p.s")
    return PipelineSpec(name="p", sources={each.name: each for each in sources}, sinks=(sink,))


ONE = spec(Source(name="one", topics=("a",)), Source(name="table", topics=("b",), table=True))
FIRST, END = Place(OffsetAt.EARLIEST), Place(OffsetAt.LATEST)


@pytest.mark.parametrize(
    ("texts", "place"),
    [
        ([], Place(OffsetAt.EARLIEST)),
        (["latest"], Place(OffsetAt.LATEST)),
        (["1370044800000"], Place(1_370_044_800_000)),
        (["2013-06-01T00:00:00Z"], Place(1_370_044_800_000)),
        (["2013-06-01"], Place(1_370_044_800_000)),
        (["a:0=1,1=2", "b:0=3"], Place(None, {A0: 1, A1: 2, B0: 3})),
        (["a:0=1", "latest"], Place(OffsetAt.LATEST, {A0: 1})),
    ],
)
def test_a_place_is_a_word_a_time_or_offsets(texts: list[str], place: Place):
    assert parse_place(texts, OffsetAt.EARLIEST) == place


def test_a_place_that_is_none_is_refused():
    with pytest.raises(ReplayError, match="'a:0' is not a place"):
        parse_place(["a:0"], OffsetAt.EARLIEST)
    with pytest.raises(ReplayError, match="a second time"):
        parse_place(["latest", "earliest"], OffsetAt.EARLIEST)


def test_a_range_has_every_partition_of_the_streams_and_none_of_a_table():
    assert resolve(ONE, FIRST, END, Log()) == {"one": ReplayRange({"a": {0: 10, 1: 10}}, {"a": {0: 20, 1: 20}})}
    found = resolve(ONE, Place(15), Place(OffsetAt.LATEST, {A1: 18}), Log())
    assert found == {"one": ReplayRange({"a": {0: 15, 1: 15}}, {"a": {0: 20, 1: 18}})}


def test_a_range_ends_where_its_source_ends_while_a_transaction_is_open():
    open_too = Source(name="one", topics=("a",), options={"Kafka.isolation.level": "READ_UNCOMMITTED"})
    assert resolve(spec(open_too), FIRST, END, Log())["one"].end == {"a": {0: 22, 1: 22}}
    assert resolve(ONE, FIRST, END, Log())["one"].end == {"a": {0: 20, 1: 20}}


def test_a_time_after_the_last_record_is_the_end_and_a_range_never_ends_before_it_begins():
    assert resolve(ONE, Place(99), Place(12), Log())["one"] == ReplayRange({"a": {0: 20, 1: 20}}, {"a": {0: 20, 1: 20}})


def test_the_topics_of_a_pattern_are_those_that_are_there():
    found = resolve(spec(Source(name="all", pattern="[ab]")), FIRST, END, Log())
    assert found["all"].start == {"a": {0: 10, 1: 10}, "b": {0: 10}}
    with pytest.raises(ReplayError, match="no topic matches"):
        resolve(spec(Source(name="all", pattern="c+")), FIRST, END, Log())


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (Place(None, {A0: 12}), "--from: no offset of a-1 is given"),
        (Place(OffsetAt.EARLIEST, {A0: 9}), "--from: a-0 has offsets 10 to 20, and not 9"),
        (Place(OffsetAt.EARLIEST, {A0: 21}), "--from: a-0 has offsets 10 to 20, and not 21"),
        (Place(OffsetAt.EARLIEST, {B0: 11}), "b-0 is not read by p"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(start: Place, message: str):
    with pytest.raises(ReplayError, match=message):
        resolve(ONE, start, END, Log())


def test_a_topic_that_is_not_there_is_named():
    with pytest.raises(ReplayError, match="source x: topic c does not exist"):
        resolve(spec(Source(name="x", topics=("c",))), FIRST, END, Log())


def test_a_range_is_remembered(tmp_path: Path):
    assert remembered(tmp_path / "p-v2") is None
    ranges = resolve(ONE, FIRST, END, Log())
    remember(tmp_path / "p-v2", ranges)
    assert remembered(tmp_path / "p-v2") == ranges
    (tmp_path / "p-v2" / FILE).write_text("[]")
    with pytest.raises(ReplayError, match="does not say a range"):
        remembered(tmp_path / "p-v2")
