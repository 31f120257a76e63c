"""Protocol Buffers: a message as Spark's types, and values read into it.

Types are those of Spark's `from_protobuf`, except `google.protobuf.Duration` and other well-known messages, which are
structs of their fields here. A field without presence that is not set has its default; one with presence is null.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_ottla.options import OptionError
from pyspark_ottla.refused_field import RefusedField
from pyspark_ottla.schema_registry import split_frame

_TIMESTAMP = "google.protobuf.Timestamp"
_TIMESTAMP_SECONDS = range(-62_135_596_800, 253_402_300_800)
"""The years 1 to 9999, which are all that a Timestamp may be."""
_INDEXES_MAX = 64
"""Messages inside of messages, in the list that names one of them; more is no such list."""

_Convert = Callable[[Any], Any]


def protobuf_struct(descriptors: bytes, message: str) -> StructType:
    """A message as Spark's type. Raises OptionError."""
    return _struct(_descriptor(descriptors, message), ())


class ProtobufDecoder:
    """Reads values of one message; `framed` values have a schema id and the place of the message before them."""

    def __init__(self, descriptors: bytes, message: str, *, framed: bool) -> None:
        from google.protobuf.message_factory import GetMessageClass

        descriptor = _descriptor(descriptors, message)
        self._make: Callable[[], Any] = GetMessageClass(descriptor)
        self._convert = _message_converter(descriptor)
        self._framed = framed

    def decode(self, value: bytes, schema_id: bytes | None) -> object:
        """See `ValueDecoder`."""
        from google.protobuf.message import DecodeError

        if self._framed:
            value = _after_indexes(split_frame(value, schema_id)[1])
        message = self._make()
        try:
            message.ParseFromString(value)
        except DecodeError as error:
            raise ValueError(f"not of this message: {error}") from None
        return self._convert(message)


def _after_indexes(value: bytes) -> bytes:
    """A value without the indexes before it: their count and each of them as a zig-zag varint; a zero is the first."""
    count, at = _zigzag(value, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError("no message indexes after the schema id")
    for _ in range(count):
        _, at = _zigzag(value, at)
    return value[at:]


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise ValueError("the value ends within its message indexes")


def _descriptor(descriptors: bytes, message: str) -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError:
        raise OptionError(
            "option valueFormat: protobuf needs the package protobuf: pip install 'ottla[pipelines]'"
        ) from None
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        pool = descriptor_pool.DescriptorPool()
        for each in files.file:
            pool.Add(each)
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = ", ".join(f"{each.package}.{one.name}".lstrip(".") for each in files.file for one in each.message_type)
        raise OptionError(f"option valueMessage: no message {message!r} in valueSchema; it has {names}") from None
    except Exception as error:
        raise OptionError(f"option valueSchema: not a descriptor set of protoc: {error}") from None


def _struct(message: Any, around: tuple[str, ...]) -> StructType:
    if message.full_name in around:
        raise OptionError(f"option valueMessage: {message.full_name} contains itself, which cannot be columns")
    inside = (*around, message.full_name)
    return StructType([StructField(each.name, _spark_type(each, inside)) for each in message.fields])


def _spark_type(field: Any, around: tuple[str, ...]) -> DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return MapType(_single_type(key, around), _single_type(value, around))
    single = _single_type(field, around)
    return ArrayType(single) if field.is_repeated else single


def _single_type(field: Any, around: tuple[str, ...]) -> DataType:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return TimestampType() if field.message_type.full_name == _TIMESTAMP else _struct(field.message_type, around)
    if field.type == field.TYPE_BYTES:
        return BinaryType()
    types: dict[int, DataType] = {
        field.CPPTYPE_INT32: IntegerType(),
        field.CPPTYPE_INT64: LongType(),
        field.CPPTYPE_UINT32: LongType(),
        field.CPPTYPE_UINT64: DecimalType(20, 0),
        field.CPPTYPE_DOUBLE: DoubleType(),
        field.CPPTYPE_FLOAT: FloatType(),
        field.CPPTYPE_BOOL: BooleanType(),
        field.CPPTYPE_ENUM: StringType(),
        field.CPPTYPE_STRING: StringType(),
    }
    return types[field.cpp_type]


def _is_map(field: Any) -> bool:
    return bool(field.cpp_type == field.CPPTYPE_MESSAGE and field.message_type.GetOptions().map_entry)


def _message_converter(message: Any) -> _Convert:
    fields = [(each.name, _field_converter(each), each.has_presence) for each in message.fields]

    def convert(value: Any) -> dict[str, Any]:
        found = {}
        for name, of_field, has_presence in fields:
            try:
                found[name] = None if has_presence and not value.HasField(name) else of_field(getattr(value, name))
            except ValueError as error:
                raise RefusedField.within(name, error) from None
        return found

    return convert


def _field_converter(field: Any) -> _Convert:
    if _is_map(field):
        of_value = _single_converter(field.message_type.fields_by_name["value"])
        return lambda entries: [(key, of_value(entries[key])) for key in entries]
    single = _single_converter(field)
    return (lambda values: [single(each) for each in values]) if field.is_repeated else single


def _single_converter(field: Any) -> _Convert:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            return _microseconds
        return _message_converter(field.message_type)
    if field.cpp_type == field.CPPTYPE_ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return lambda value: value


def _microseconds(at: Any) -> int:
    """A Timestamp as Arrow takes it. Raises ValueError for one that no Timestamp may be."""
    if at.seconds not in _TIMESTAMP_SECONDS or not 0 <= at.nanos < 1_000_000_000:
        raise ValueError(
            f"no timestamp has {at.seconds} seconds and {at.nanos} nanoseconds: it lies in the years 1 to 9999"
        )
    found: int = at.seconds * 1_000_000 + at.nanos // 1000
    return found
