"""`spark.read`: a batch reads what lies between two positions."""

import pickle

import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_ottla import DefaultSource
from pyspark_ottla.data_loss import DataLossError
from pyspark_ottla.options import OptionError

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}


def reader(**given: str):
    source = DefaultSource({**BASE, **given})
    return source.reader(source.schema())


def offsets(made) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for partition in made.partitions():
        for batch in pickle.loads(pickle.dumps(made)).read(pickle.loads(pickle.dumps(partition))):
            for row in batch.to_pylist():
                found.setdefault(row["partition"], []).append(row["offset"])
    return found


def test_without_positions_it_reads_everything(log):
    log.create("t", 3, records=25)
    assert offsets(reader()) == {number: list(range(25)) for number in range(3)}


def test_it_reads_between_offsets(log):
    log.create("t", 2, records=25)
    between = reader(startingOffsets='{"t":{"0":5,"1":-2}}', endingOffsets='{"t":{"0":9,"1":-1}}')
    assert offsets(between) == {0: list(range(5, 9)), 1: list(range(25))}


def test_it_reads_between_times(log):
    log.create("t", 1, records=25)
    assert offsets(reader(startingTimestamp="3000", endingTimestamp="7000")) == {0: [3, 4, 5, 6]}


def test_many_partitions_share_the_tasks_and_a_large_one_is_cut(log):
    log.create("t", 8, records=20)
    assert len(reader(tasks="2").partitions()) == 1
    log.create("t", 1, records=20_000, in_one_batch=5_000)
    assert len(reader(tasks="2").partitions()) == 2
    assert offsets(reader(tasks="4")) == {0: list(range(20_000))}


def test_min_partitions_goes_before_what_is_worth_a_task(log):
    log.create("t", 1, records=20)
    assert len(reader(minPartitions="4").partitions()) == 4
    assert sorted(offsets(reader(minPartitions="4"))[0]) == list(range(20))


def test_an_empty_log_is_an_empty_batch(log):
    log.create("t", 2)
    made = reader()
    assert made.partitions() == []
    assert list(made.read(InputPartition(None))) == []


def test_a_missing_topic_is_named(log):
    with pytest.raises(OptionError, match="'t' does not exist on the broker"):
        reader().partitions()


def test_a_start_after_the_end_is_refused(log):
    log.create("t", records=25)
    with pytest.raises(OptionError, match="the read of t-0 starts at offset 9, after its end at 5"):
        reader(startingOffsets='{"t":{"0":9}}', endingOffsets='{"t":{"0":5}}').partitions()


def test_offsets_outside_of_the_log_are_a_loss_that_fails_or_is_left_out(log):
    log.create("t", records=25)[0].start = 10
    given = {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":99}}'}
    with pytest.raises(DataLossError, match="t-0: offsets 5 to 9 were deleted"):
        reader(**given).partitions()
    assert offsets(reader(**given, failOnDataLoss="false")) == {0: list(range(10, 25))}


def test_what_is_for_streams_is_left_alone_as_sparks_own_source_does(log, caplog, monkeypatch):
    monkeypatch.setattr("pyspark_ottla.options._warned", set())
    log.create("t", records=5)
    assert offsets(reader(maxOffsetsPerTrigger="2")) == {0: [0, 1, 2, 3, 4]}
    assert "option maxOffsetsPerTrigger is ignored: it is for a stream" in caplog.text
