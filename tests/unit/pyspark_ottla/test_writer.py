"""`df.write` and `df.writeStream`: rows become records, where a Java client would put them."""

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from kafka.partitioner import murmur2
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.native import decode_records, walk_batches
from pyspark_ottla import DefaultSource
from pyspark_ottla.delivery import Delivered, Refused
from pyspark_ottla.options import OptionError
from tests.unit.pyspark_ottla.model_log import ModelLog

BASE = {"kafka.bootstrap.servers": "unused:1"}
TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "strings": ArrayType(StringType()),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def schema(columns: str) -> StructType:
    """Of `name type, name type`."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in (each.split() for each in columns.split(","))])


def write(columns: str, batches: Sequence[pa.RecordBatch], *, overwrite: bool = False, **given: str) -> Delivered:
    options = {**BASE, **{name.replace("__", "."): value for name, value in given.items()}}
    writer = DefaultSource(options).writer(schema(columns), overwrite)
    planned = pickle.loads(pickle.dumps(writer))
    message = planned.write(iter(batches))
    planned.commit([message])
    return message


def batch(**columns) -> pa.RecordBatch:
    return pa.record_batch(columns)


def records(log: ModelLog, topic: str, partition: int) -> list:
    return [
        (key, value, headers, at)
        for _, _, data in log.partitions[topic][partition].batches
        for _, at, key, value, headers in decode_records(data, max_decompressed_bytes=1 << 20)
    ]


def test_strings_and_binary_are_written_as_they_are(log):
    log.create("t")
    assert write("key binary, value string", [batch(key=[b"\xff", None], value=["é", "b"])], topic="t").records == 2
    assert [(key, value) for key, value, *_ in records(log, "t", 0)] == [(b"\xff", "é".encode()), (None, b"b")]


def test_a_key_lands_in_the_partition_that_a_java_client_would_choose(log):
    log.create("t", 7)
    keys = [f"key-{number}" for number in range(300)]
    write("key string, value string", [batch(key=keys, value=keys)], topic="t")
    for partition in range(7):
        expected = [key.encode() for key in keys if (murmur2(key.encode()) & 0x7FFFFFFF) % 7 == partition]
        assert log.values("t", partition) == expected


def test_a_partition_column_goes_before_the_key(log):
    log.create("t", 3)
    rows = batch(key=["a", "a", "a"], value=["x", "y", "z"], partition=pa.array([2, 0, 2], pa.int32()))
    write("key string, value string, partition int", [rows], topic="t")
    assert [log.values("t", partition) for partition in range(3)] == [[b"y"], [], [b"x", b"z"]]


def test_rows_without_a_key_are_spread(log):
    log.create("t", 2)
    for _ in range(20):
        write("value string", [batch(value=["x"]), batch(value=["y"])], topic="t")
    assert len(log.values("t", 0)) + len(log.values("t", 1)) == 40
    assert log.values("t", 0)
    assert log.values("t", 1)


def test_each_row_can_name_its_topic(log):
    log.create("a")
    log.create("b")
    rows = batch(topic=["a", "b", "a"], value=["1", "2", "3"])
    assert write("topic string, value string", [rows]).records == 3
    assert (log.values("a", 0), log.values("b", 0)) == ([b"1", b"3"], [b"2"])


def test_the_option_topic_goes_before_the_column(log):
    log.create("a")
    write("topic string, value string", [batch(topic=["nowhere"], value=["1"])], topic="a")
    assert log.values("a", 0) == [b"1"]


def test_headers_timestamps_and_tombstones_are_written(log):
    log.create("t")
    at = datetime(2013, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    rows = batch(
        value=pa.array([None, "x"], pa.string()),
        headers=pa.array([[{"key": "a", "value": b"1"}], None], HEADERS),
        timestamp=pa.array([at, at], pa.timestamp("us", "UTC")),
    )
    write("value string, headers headers, timestamp timestamp", [rows], topic="t")
    ms = round(at.timestamp() * 1000)
    assert records(log, "t", 0) == [(None, None, [("a", b"1")], ms), (None, b"x", [], ms)]


def test_batches_are_compressed_and_bounded_as_the_options_say(log):
    log.create("t")
    values = [f"{number:04}" * 25 for number in range(1000)]
    given: dict[str, Any] = {"kafka__compression__type": "zstd", "kafka__batch__size": "20000"}
    write("value string", [batch(value=values)], topic="t", **given)
    assert log.values("t", 0) == [value.encode() for value in values]
    infos = [walk_batches(data, check_crc=True)[0] for *_, data in log.produced]
    assert all(len(each) == 1 and each[0].codec == 4 for each in infos), (
        "a broker takes one batch of a partition at a time"
    )
    assert 5 < len(infos) < 10


def test_other_columns_are_left_out(log):
    log.create("t")
    write("value string, extra double", [batch(value=["x"], extra=[1.5])], topic="t")
    assert log.values("t", 0) == [b"x"]


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ("key string", {"topic": "t"}, "required column 'value' not found among key"),
        ("value string", {}, "topic option required when no 'topic' column is present"),
        ("value int", {"topic": "t"}, "column 'value' must be a string or binary, not int"),
        ("value string, key double", {"topic": "t"}, "column 'key' must be a string or binary, not double"),
        ("value string, partition bigint", {"topic": "t"}, "column 'partition' must be an int, not bigint"),
        ("value string, topic int", {}, "column 'topic' must be a string, not int"),
        ("value string, headers strings", {"topic": "t"}, "column 'headers' must be an array<struct<key: string"),
        ("value string, timestamp string", {"topic": "t"}, "column 'timestamp' must be a timestamp, not string"),
    ],
)
def test_columns_that_make_no_record_are_refused_before_anything_is_written(columns, given, message):
    with pytest.raises(OptionError, match=message):
        write(columns, [], **given)


def test_a_null_topic_is_refused(log):
    with pytest.raises(OptionError, match="null topic present in the data"):
        write("topic string, value string", [batch(topic=pa.array([None], pa.string()), value=["x"])])


def test_a_topic_that_does_not_exist_is_named_before_any_task_starts(log):
    writer = DefaultSource({**BASE, "topic": "nowhere"}).writer(schema("value string"), False)
    with pytest.raises(pickle.PickleError, match=r"^topic 'nowhere' does not exist on the broker"):
        CloudPickleSerializer().dumps(writer)


def test_a_topic_that_a_row_names_and_that_does_not_exist_fails_the_write_without_another_attempt(log):
    rows = [batch(topic=["nowhere"], value=["x"])]
    with pytest.raises(OptionError, match="topic 'nowhere' does not exist on the broker"):
        write("topic string, value string", rows)


def test_a_partition_that_does_not_exist_fails_the_write_without_another_attempt(log):
    log.create("t", 2)
    writer = DefaultSource({**BASE, "topic": "t"}).writer(schema("value string, partition int"), False)
    message = writer.write(iter([batch(value=["x"], partition=pa.array([7], pa.int32()))]))
    assert message == Refused("row 0: there is no partition 7, the topic has 2")
    with pytest.raises(OptionError, match="there is no partition 7, the topic has 2"):
        writer.commit([Delivered(3), message])


def test_a_log_cannot_be_overwritten():
    with pytest.raises(OptionError, match=r"a log can only be added to: write with mode\('append'\)"):
        write("value string", [], overwrite=True, topic="t")


def test_less_than_all_acknowledgements_are_refused():
    with pytest.raises(OptionError, match=r"kafka.acks: only all is supported, not '1'"):
        write("value string", [], topic="t", kafka__acks="1")


def test_a_stream_is_written_in_every_output_mode_and_says_how_much(log, caplog):
    log.create("t")
    source = DefaultSource({**BASE, "topic": "t", "checkpointLocation": "/x"})
    writer = source.streamWriter(schema("value string"), True)
    message = writer.write(iter([batch(value=["x", "y"])]))
    assert message == Delivered(2)
    with caplog.at_level("INFO", "pyspark_ottla"):
        writer.commit([message, message], 7)
        writer.abort([message, None], 8)
    assert "micro-batch 7: wrote 4 records" in caplog.text
    assert "micro-batch 8 failed after 2 records, which stay written" in caplog.text
