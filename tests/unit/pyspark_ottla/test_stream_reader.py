"""`spark.readStream`: what Spark asks, in the order in which it asks."""

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import ManualClock
from pyspark_ottla import DefaultSource, lag
from pyspark_ottla.data_loss import DataLossError
from pyspark_ottla.options import OptionError
from pyspark_ottla.read_options import ReadOptions
from pyspark_ottla.stream_reader import OttlaStreamReader
from tests.unit.pyspark_ottla.model_log import record

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "startingOffsets": "earliest"}
T0 = TopicPartition("t", 0)
EVERYTHING = ReadAllAvailable()


def reader(clock: ManualClock | None = None, **given: str) -> OttlaStreamReader:
    return OttlaStreamReader(ReadOptions.of({**BASE, **given}, streaming=True), clock)


class Query:
    """Drives a reader as Spark does, with offsets that go through JSON."""

    def __init__(self, made: OttlaStreamReader, start: Any = None) -> None:
        self.reader = made
        self.position = start if start is not None else self.through_json(made.initialOffset())

    def batch(self, limit: Any = None) -> list[tuple[str, int, int]] | None:
        end = self.through_json(self.reader.latestOffset(self.position, limit or self.reader.getDefaultReadLimit()))
        if json.dumps(end) == json.dumps(self.position):
            return None
        rows = self.rows(self.position, end)
        self.position = end
        return rows

    def rows(self, start: Any, end: Any) -> list[tuple[str, int, int]]:
        task = pickle.loads(pickle.dumps(self.reader))
        return sorted(
            (row["topic"], row["partition"], row["offset"])
            for partition in self.reader.partitions(start, end)
            for batch in task.read(pickle.loads(pickle.dumps(partition)))
            for row in batch.to_pylist()
        )

    @staticmethod
    def through_json(offset: Any) -> Any:
        return json.loads(json.dumps(offset))


def places(topic: str, partition: int, start: int, end: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for offset in range(start, end)]


def test_a_stream_reads_what_is_there_and_then_what_comes(log):
    [partition] = log.create("t", records=5)
    query = Query(reader())
    assert query.batch() == places("t", 0, 0, 5)
    assert query.batch() is None
    partition.append(record(5), record(6))
    assert query.batch() == places("t", 0, 5, 7)


def test_by_default_a_stream_starts_at_the_end(log):
    [partition] = log.create("t", records=5)
    made = OttlaStreamReader(ReadOptions.of({k: v for k, v in BASE.items() if k != "startingOffsets"}, streaming=True))
    query = Query(made)
    assert query.batch() is None
    partition.append(record(5))
    assert query.batch() == places("t", 0, 5, 6)


def test_a_limit_cuts_the_log_into_batches_that_together_are_everything(log):
    log.create("t", 2, records=50)
    query = Query(reader(maxOffsetsPerTrigger="30"))
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(30)
    batches = [query.batch() for _ in range(4)]
    assert [len(batch or ()) for batch in batches] == [30, 30, 30, 10]
    assert sorted(row for batch in batches for row in batch) == places("t", 0, 0, 50) + places("t", 1, 0, 50)
    assert query.batch() is None


def test_a_limit_of_the_trigger_goes_before_the_option(log):
    log.create("t", records=50)
    assert len(Query(reader(maxOffsetsPerTrigger="30")).batch(EVERYTHING) or ()) == 50


def test_a_run_over_what_is_available_now_does_not_see_what_comes_later_and_ends(log):
    [partition] = log.create("t", records=50)
    query = Query(reader(maxOffsetsPerTrigger="30"))
    query.reader.prepareForTriggerAvailableNow()
    assert len(query.batch() or ()) == 30
    partition.append(*(record(number) for number in range(50, 90)))
    assert len(query.batch() or ()) == 20
    assert query.batch() is None


def test_a_new_run_goes_on_where_the_last_one_ended(log):
    [partition] = log.create("t", records=50)
    first = Query(reader())
    first.batch()
    partition.append(record(50))
    second = Query(reader(), start=first.position)
    second.reader.prepareForTriggerAvailableNow()
    assert second.batch() == places("t", 0, 50, 51)
    assert second.batch() is None


def test_a_batch_planned_again_after_a_restart_has_the_same_records(log):
    [partition] = log.create("t", records=50)
    query = Query(reader(maxOffsetsPerTrigger="30"))
    start = query.position
    rows = query.batch()
    partition.append(record(50))
    assert Query(reader(), start).rows(start, query.position) == rows


def test_too_few_records_are_waited_for_but_not_for_ever(log):
    [partition] = log.create("t", records=5)
    clock = ManualClock()
    query = Query(reader(clock, minOffsetsPerTrigger="10", maxTriggerDelay="1m"))
    assert query.reader.getDefaultReadLimit() == ReadMinRows(10)
    assert query.batch() is None
    partition.append(*(record(number) for number in range(5, 12)))
    assert len(query.batch() or ()) == 12
    partition.append(record(12))
    clock.advance(59_999)
    assert query.batch() is None
    clock.advance(1)
    assert len(query.batch() or ()) == 1


def test_a_run_over_what_is_available_now_waits_for_nothing(log):
    log.create("t", records=5)
    query = Query(reader(minOffsetsPerTrigger="10"))
    query.reader.prepareForTriggerAvailableNow()
    assert len(query.batch() or ()) == 5


def test_new_partitions_and_new_topics_are_read_from_their_first_record(log):
    log.create("t-a", records=5)
    given = {key: value for key, value in BASE.items() if key != "subscribe"}
    query = Query(OttlaStreamReader(ReadOptions.of({**given, "subscribePattern": "t-.*"}, streaming=True)))
    query.batch()
    log.create("t-b", records=3)
    assert query.batch() == places("t-b", 0, 0, 3)
    log.partitions["t-b"] += log.create("other", records=2)
    assert query.batch() == places("t-b", 1, 0, 2)


def test_the_progress_tells_the_lag(log):
    [partition] = log.create("t", records=50)
    query = Query(reader(maxOffsetsPerTrigger="30"))
    query.batch()
    partition.append(record(50))
    latest = query.reader.reportLatestOffset()
    assert latest == {"t": {"0": 51}}
    assert list(lag({"endOffset": query.position, "latestOffset": latest}).values()) == [21]


class TestDataLoss:
    """What is gone fails the stream with what, why and how to go on; or is left out with a warning."""

    def lost(self, query: Query, match: str) -> None:
        with pytest.raises(DataLossError, match=match):
            query.batch()

    def going_on(self, query: Query) -> Query:
        return Query(reader(failOnDataLoss="false"), query.position)

    def read_ten(self, log) -> Query:
        log.create("t", 2, records=10)
        query = Query(reader())
        query.batch()
        return query

    def test_records_deleted_before_they_were_read(self, log, caplog):
        query = self.read_ten(log)
        partition = log.partitions["t"][0]
        partition.append(*(record(number) for number in range(10, 20)))
        partition.start = 15
        self.lost(query, r"t-0: offsets 10 to 14 were deleted .* retention.ms .* set option failOnDataLoss to false")
        assert self.going_on(query).batch() == places("t", 0, 15, 20)
        assert "offsets 10 to 14 were deleted" in caplog.text

    def test_a_topic_created_again_with_more_records_than_were_read(self, log, caplog):
        query = self.read_ten(log)
        log.create("t", 2, records=25)
        self.lost(query, "t-0 had been read up to offset 10, but topic 't' was deleted and created again")
        assert self.going_on(query).batch() == places("t", 0, 0, 25) + places("t", 1, 0, 25)
        assert "deleted and created again" in caplog.text

    def test_a_topic_created_again_while_a_batch_was_waiting_to_be_run_again(self, log):
        log.create("t", records=10)
        query = Query(reader())
        start = query.position
        query.batch()
        log.create("t", records=25)
        with pytest.raises(DataLossError, match="deleted and created again"):
            query.reader.partitions(start, query.position)
        again = Query(reader(failOnDataLoss="false"), start)
        assert again.rows(start, query.position) == []

    def test_a_topic_that_is_gone(self, log, caplog):
        query = self.read_ten(log)
        log.delete("t")
        self.lost(query, r"t-0 does not exist any more; it had been read up to offset 10 \(and 1 more partitions")
        assert self.going_on(query).batch() == []
        assert "t-1 does not exist any more" in caplog.text

    def test_a_log_that_ends_before_what_was_read(self, log):
        query = self.read_ten(log)
        log.partitions["t"][1].batches.clear()
        log.partitions["t"][1].end = 4
        self.lost(query, "t-1 ends at offset 4, before offset 10 that was to be read: the broker lost records")
        again = self.going_on(query)
        assert again.batch() == []
        log.partitions["t"][1].append(record(4))
        assert again.batch() == places("t", 1, 4, 5)


def test_a_missing_topic_is_named_before_anything_is_read(log):
    with pytest.raises(OptionError, match="'t' does not exist on the broker"):
        reader().initialOffset()


class TestGroup:
    """The progress as a consumer group's: of what has been processed, the last micro-batch too."""

    def test_what_a_micro_batch_has_read_is_committed_when_spark_asks_for_the_next(self, log):
        log.create("t", records=50)
        query = Query(reader(groupId="g", maxOffsetsPerTrigger="30"))
        seen = []
        while query.batch() is not None:
            seen.append(log.committed["g"][T0])
        assert seen == [0, 30]
        assert log.committed["g"] == {T0: 50}

    def test_a_query_begins_where_the_group_was_and_elsewhere_at_the_first_record(self, log):
        log.create("t", 2, records=50)
        log.commit_offsets("g", {T0: 40})
        query = Query(reader(groupId="g", startingOffsets="group"))
        assert query.batch() == places("t", 0, 40, 50) + places("t", 1, 0, 50)

    def test_or_at_the_end_or_not_at_all(self, log):
        log.create("t", 2, records=50)
        log.commit_offsets("g", {T0: 40})
        given = {**BASE, "groupId": "g", "startingOffsets": "group"}

        def starting(reset: str) -> OttlaStreamReader:
            return OttlaStreamReader(ReadOptions.of({**given, "kafka.auto.offset.reset": reset}, streaming=True))

        with pytest.raises(OptionError, match="group 'g' has committed no offset for t-1; set kafka"):
            starting("none").initialOffset()
        assert Query(starting("latest")).batch() == places("t", 0, 40, 50)

    def test_a_group_that_has_members_is_refused_before_anything_is_read(self, log):
        log.create("t", records=50)
        log.refuses_commits = ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(OptionError, match="group 'g' has members that consume with it"):
            Query(reader(groupId="g")).batch()

    def test_a_commit_that_fails_later_stops_nothing_and_is_told(self, log, caplog):
        log.create("t", records=50)
        query = Query(reader(groupId="g", maxOffsetsPerTrigger="30"))
        query.batch()
        log.refuses_commits = ErrorCode.UNKNOWN_MEMBER_ID
        assert query.batch() == places("t", 0, 30, 50)
        assert "could not commit the offsets of group 'g'" in caplog.text

    def test_beginning_from_a_group_needs_its_name(self):
        with pytest.raises(OptionError, match="startingOffsets: group needs option groupId"):
            reader(startingOffsets="group")


class TestEnd:
    """A stream with an end reads up to it and then nothing, however the log grows."""

    def test_it_ends_before_the_first_record_of_that_time_or_later_also_when_that_comes_later(self, log):
        [partition] = log.create("t", records=5)
        query = Query(reader(endingTimestamp="7000"))
        assert query.batch() == places("t", 0, 0, 5)
        partition.append(*(record(number) for number in range(5, 9)))
        assert query.batch() == places("t", 0, 5, 7)
        partition.append(record(1))
        assert query.batch() is None
        assert list(lag({"endOffset": query.position, "latestOffset": query.reader.reportLatestOffset()}).values()) == [
            0
        ]

    def test_the_latest_is_that_of_the_moment_when_it_started(self, log):
        [partition] = log.create("t", records=5)
        query = Query(reader(endingOffsets="latest", maxOffsetsPerTrigger="3"))
        query.batch()
        partition.append(record(5))
        assert query.batch() == places("t", 0, 3, 5)
        assert query.batch() is None

    def test_given_offsets_end_each_partition_and_an_end_before_the_beginning_is_nothing_to_read(self, log):
        log.create("t", 2, records=10)
        query = Query(
            reader(endingOffsets='{"t": {"0": 4, "1": 9}}', startingOffsets='{"t": {"0": 6, "1": 6}}'),
        )
        assert query.batch() == places("t", 1, 6, 9)
        assert query.batch() is None

    def test_times_for_some_partitions_end_those_and_the_others_are_not_read(self, log):
        log.create("t", 2, records=10)
        query = Query(reader(endingOffsetsByTimestamp='{"t": {"1": 3000}}'))
        assert query.batch() == places("t", 1, 0, 3)


def test_a_limit_in_bytes_takes_about_so_many_bytes_of_the_log(log):
    [partition] = log.create("t")
    for first in range(0, 1000, 10):
        partition.append(*((0, None, bytes(1000), ()) for _ in range(first, first + 10)))
    query = Query(reader(maxBytesPerTrigger="200000"))
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(200_000)
    batches = [len(query.batch() or ()) for _ in range(6)]
    assert batches[:5] == pytest.approx([200] * 5, abs=10)
    assert sum(batches) == 1000
    assert len(Query(reader(maxBytesPerTrigger="200000", maxOffsetsPerTrigger="50")).batch() or ()) == 50
    assert len(Query(reader(maxBytesPerTrigger="20000", maxOffsetsPerTrigger="50")).batch() or ()) < 25
    assert len(Query(reader(maxBytesPerTrigger="1")).batch() or ()) == 1


def test_the_source_gives_a_stream_reader_for_its_own_columns_only():
    source = DefaultSource(BASE)
    assert isinstance(source.streamReader(source.schema()), OttlaStreamReader)
    with pytest.raises(OptionError, match="the columns of this source are fixed"):
        source.streamReader(DefaultSource({**BASE, "includeHeaders": "true"}).schema())
