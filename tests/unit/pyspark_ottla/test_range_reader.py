"""A range is read as exactly its records, whatever lies around them in the log."""

from typing import Any

import pytest

from ottla.client.consuming.fetch import AbortedTransaction
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from pyspark_ottla.data_loss import DataLossError
from pyspark_ottla.offset_range import OffsetRange
from pyspark_ottla.range_reader import RangeReader
from pyspark_ottla.read_options import FetchOptions
from pyspark_ottla.record_columns import arrow_schema
from tests.unit.pyspark_ottla.model_log import ModelLog, record

PLACE = TopicPartition("t", 0)


def read(log: ModelLog, start: int, end: int, **options) -> list:
    return list(RangeReader(log, FetchOptions(**options)).read(OffsetRange(PLACE, start, end)))


def column(batches: list, name: str) -> list:
    return [cell for batch in batches for cell in batch.column(name).to_pylist()]


def test_a_range_that_cuts_through_batches_has_its_records_and_no_others(log):
    log.create("t", records=100, in_one_batch=10)
    batches = read(log, 13, 37)
    assert column(batches, "offset") == list(range(13, 37))
    assert column(batches, "value") == [b"%d" % number for number in range(13, 37)]


def test_every_batch_has_exactly_the_schema_that_spark_was_told(log):
    log.create("t", records=10)
    log.partitions["t"][0].append((1500, b"k", None, [("a", b"1"), ("b", None)]))
    for include_headers in (False, True):
        for batch in read(log, 0, 11, include_headers=include_headers):
            assert batch.schema.equals(arrow_schema(include_headers=include_headers))
    [last] = [batch.slice(batch.num_rows - 1).to_pylist()[0] for batch in read(log, 10, 11, include_headers=True)]
    assert (last["key"], last["value"], last["topic"], last["partition"]) == (b"k", None, "t", 0)
    assert last["timestamp"].timestamp() == 1.5
    assert last["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]


def test_offsets_that_compaction_removed_are_skipped(log):
    log.create("t")
    kept = bytes(build_batch([record(3), record(7)], base_offset=0, offsets=[3, 7]))
    log.partitions["t"][0].batches.append((0, 7, kept))
    log.partitions["t"][0].end = 8
    log.partitions["t"][0].append(record(8))
    assert column(read(log, 0, 9), "offset") == [3, 7, 8]
    assert column(read(log, 4, 7), "offset") == []


def test_control_batches_are_no_records(log):
    log.create("t", records=2)
    partition = log.partitions["t"][0]
    marker = build_batch(
        [(0, b"\0\0\0\1", b"\0\0\0\0\0\0", ())],
        base_offset=2,
        is_control=True,
        is_transactional=True,
        producer_id=1,
        producer_epoch=0,
    )
    partition.batches.append((2, 2, bytes(marker)))
    partition.end = 3
    assert column(read(log, 0, 3), "offset") == [0, 1]


def test_records_of_an_aborted_transaction_are_left_out_when_the_broker_names_it(log):
    log.create("t", records=2)
    partition = log.partitions["t"][0]
    fields: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    partition.batches.append((2, 2, bytes(build_batch([record(2)], base_offset=2, **fields))))
    partition.end = 3
    assert column(read(log, 0, 3), "offset") == [0, 1, 2]
    log.aborted = (AbortedTransaction(producer_id=1, first_offset=2),)
    assert column(read(log, 0, 3), "offset") == [0, 1]


def test_many_small_answers_give_the_same_as_one_large(log):
    log.create("t", records=500, in_one_batch=7)
    assert column(read(log, 5, 499, max_bytes=300), "offset") == list(range(5, 499))
    assert len(log.fetches) > 20


def test_little_more_is_fetched_than_the_range_has(log):
    log.create("t", records=60_000, in_one_batch=1_000)
    read(log, 0, 30_000)
    assert sum(max_bytes for *_, max_bytes in log.fetches) < 30_000 * 20 + 2 * 256 * 1024


def test_no_batch_has_more_rows_or_many_more_bytes_than_the_options_say(log):
    log.create("t", records=1_000, in_one_batch=1_000)
    assert [batch.num_rows for batch in read(log, 0, 1_000, batch_rows=400)] == [400, 400, 200]
    assert max(batch.nbytes for batch in read(log, 0, 1_000, batch_bytes=10_000)) < 12_000


def test_compressed_batches_that_expand_beyond_the_limit_together_are_decoded_one_by_one(log):
    log.create("t")
    for _ in range(5):
        log.partitions["t"][0].append((0, None, bytes(40_000), ()), codec=4)
    assert column(read(log, 0, 5, batch_bytes=100_000), "offset") == [0, 1, 2, 3, 4]


def test_one_batch_that_expands_beyond_the_limit_alone_names_the_option_to_raise(log):
    log.create("t")
    log.partitions["t"][0].append((0, None, bytes(400_000), ()), codec=4)
    with pytest.raises(RuntimeError, match="t-0: one batch at offset 0 expands to more than maxBatchBytes"):
        read(log, 0, 1, batch_bytes=100_000)


def test_records_deleted_meanwhile_fail_the_read_with_what_was_lost(log):
    log.create("t", records=100)
    log.partitions["t"][0].start = 50
    with pytest.raises(DataLossError, match=r"t-0: offsets 10 to 49 were deleted .* failOnDataLoss to false"):
        read(log, 10, 100)


def test_or_the_read_goes_on_with_what_is_left_and_says_so(log, caplog):
    log.create("t", records=100)
    log.partitions["t"][0].start = 50
    assert column(read(log, 10, 60, fail_on_data_loss=False), "offset") == list(range(50, 60))
    assert "offsets 10 to 49 were deleted" in caplog.text
    assert read(log, 10, 40, fail_on_data_loss=False) == []


def test_a_topic_deleted_meanwhile_ends_the_range(log, caplog):
    log.create("t", records=100)
    log.delete("t")
    assert read(log, 10, 40, fail_on_data_loss=False) == []
    assert "t-0 was deleted while it was read, from offset 10 on" in caplog.text
    with pytest.raises(DataLossError, match="was deleted while it was read"):
        read(log, 10, 40)


def test_a_log_that_became_shorter_ends_the_range(log):
    log.create("t", records=20)
    with pytest.raises(DataLossError, match="t-0 ends before offset 30"):
        read(log, 30, 40)


def test_a_broker_that_gives_nothing_is_not_asked_for_ever(log):
    log.create("t", records=20)
    log.partitions["t"][0].batches.clear()
    with pytest.raises(DataLossError, match="t-0: nothing comes from offset 5 on"):
        read(log, 5, 20)
