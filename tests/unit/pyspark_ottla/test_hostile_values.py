"""One record can only become a dead letter: whatever its bytes are, those beside it are decoded."""

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_ottla.value_columns import ValueColumns
from pyspark_ottla.value_format import ValueFormat

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "K"}}},
    ],
}
AVRO_FORMAT = ValueFormat("avro", str(AVRO).replace("'", '"').encode(), "", None)


def zigzag(number: int) -> bytes:
    """A number as Avro writes it."""
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def avro(n=b"\0", kind=b"\0", at=b"\0", day=b"\0", price=b"\2\1", tags=b"\0") -> bytes:
    """A record with fields as these bytes."""
    return b"\x0e" + n + kind + at + day + price + tags


def decoded(value_format: ValueFormat, values: list[bytes | None]) -> list[dict[str, Any]]:
    """Data and error of a batch of these values."""
    schema = to_arrow_schema(StructType(value_format.columns()), timezone="UTC")
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
    found: list[dict[str, Any]] = ValueColumns(value_format, schema).add(batch).to_pylist()
    return found


def only_the_middle_one(value_format: ValueFormat, good: bytes, value: bytes) -> str | None:
    """Why the value is refused, between two good ones that come through."""
    first, found, last = decoded(value_format, [good, value, good])
    assert first == last
    assert first["data"] is not None
    assert (found["data"] is None) == (found["error"] is not None)
    reason: str | None = found["error"]
    return reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (avro(kind=zigzag(-1)), "the enum of field kind has the index -1"),
        (avro(kind=zigzag(-2)), "index -2"),
        (avro(kind=zigzag(2)), "the enum of field kind has the index 2, and there are 2"),
        (avro(n=zigzag(2)), "the union of field n has the index 2"),
        (avro(n=zigzag(-1) + b"\2"), "index -1"),
        (avro(n=zigzag(-2)), "the union of field n has the index -2"),
        (avro(n=b"\2" + zigzag(2**40)), "field n: "),
        (avro(at=b"\2" + zigzag(253402300800000)), "field at: 253402300800000 is a timestamp-millis outside"),
        (avro(at=b"\2" + zigzag(-(2**62))), "field at: "),
        (avro(day=zigzag(2**31 - 1)), "field day: 2147483647 is a date outside"),
        (avro(price=zigzag(40) + b"\x7f" * 40), "field price: "),
        (avro(price=zigzag(-1)), "field price: the value ends before"),
        (avro(tags=b"\2\2x\2" + zigzag(-1) + b"\0\0"), "index -1"),
        (avro(tags=zigzag(2**50)), "field tags: the value ends before"),
        (avro(tags=b"\2\4\xff\xfe\0\0"), "field tags: the text is not UTF-8"),
        (avro()[:-1], "field tags: the value ends before the record does"),
        (b"", "field id: the value ends before"),
        (avro() + b"\0", "1 bytes are left"),
    ],
)
def test_an_avro_value_that_no_column_holds_is_refused_alone(value, reason):
    assert reason in (only_the_middle_one(AVRO_FORMAT, avro(), value) or "it was read")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.lists(st.integers(-(2**63), 2**63 - 1).map(zigzag), max_size=9).map(b"".join))
def test_any_bytes_for_avro_are_refused_alone(value):
    only_the_middle_one(AVRO_FORMAT, avro(), value)


@settings(max_examples=50, deadline=None)
@given(st.integers(-3, 3), st.integers(-3, 3))
def test_avro_indexes_are_those_of_the_schema_or_refused(kind, branch):
    reason = only_the_middle_one(AVRO_FORMAT, avro(), avro(kind=zigzag(kind), n=zigzag(branch) + b"\2" * branch))
    assert (reason is None) == (kind in (0, 1) and branch in (0, 1))


@pytest.fixture(scope="module")
def message() -> tuple[ValueFormat, Any]:
    """A message with most types, and what makes one."""
    file = descriptor_pb2.FileDescriptorProto(
        name="m.proto", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    of = descriptor_pb2.FieldDescriptorProto
    inner = file.message_type.add(name="Inner")
    outer = file.message_type.add(name="Outer")
    at = ".google.protobuf.Timestamp"
    inner.field.add(name="at", number=1, type=of.TYPE_MESSAGE, label=of.LABEL_OPTIONAL, type_name=at)
    for number, (name, kind_of, label, type_name) in enumerate(
        [
            ("id", of.TYPE_INT64, of.LABEL_OPTIONAL, ""),
            ("big", of.TYPE_UINT64, of.LABEL_OPTIONAL, ""),
            ("at", of.TYPE_MESSAGE, of.LABEL_OPTIONAL, at),
            ("kind", of.TYPE_ENUM, of.LABEL_OPTIONAL, ".Kind"),
            ("text", of.TYPE_STRING, of.LABEL_OPTIONAL, ""),
            ("lines", of.TYPE_MESSAGE, of.LABEL_REPEATED, ".Inner"),
        ],
        start=1,
    ):
        outer.field.add(name=name, number=number, type=kind_of, label=label, type_name=type_name or None)
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    made = GetMessageClass(pool.FindMessageTypeByName("Outer"))
    return ValueFormat("protobuf", files.SerializeToString(), "Outer", None), made


@settings(max_examples=150, deadline=None)
@given(
    seconds=st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([-62135596801, -62135596800, 253402300799, 253402300800]),
    nanos=st.integers(-(2**31), 2**31 - 1) | st.just(999_999_999),
    kind=st.integers(-(2**31), 2**31 - 1),
    big=st.integers(0, 2**64 - 1),
    nested=st.booleans(),
)
def test_a_protobuf_time_that_is_none_is_refused_alone_and_by_its_name(message, seconds, nanos, kind, big, nested):
    value_format, make = message
    value = make(id=1, big=big, kind=kind)
    at = value.lines.add().at if nested else value.at
    at.seconds, at.nanos = seconds, nanos
    reason = only_the_middle_one(value_format, make(id=7).SerializeToString(), value.SerializeToString())
    if -62135596800 <= seconds < 253402300800 and 0 <= nanos < 10**9:
        assert reason is None
    else:
        assert reason is not None
        assert reason.startswith("field lines.at: " if nested else "field at: ")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.integers(1, 20_000).map(lambda depth: b"\x32\x7f" * depth))
def test_any_bytes_for_protobuf_are_refused_alone(message, value):
    value_format, make = message
    only_the_middle_one(value_format, make(id=7).SerializeToString(), value)
