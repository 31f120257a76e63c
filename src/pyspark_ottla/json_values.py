"""JSON: values read into a struct that Spark's words or its JSON form of a type describe.

What is not of the type is refused, as with the other formats: a number is no string, and 3000000000 no int. Fields that
are missing are null, others than those of the struct are left out. Times are written as in RFC 3339, `timestamp` with
an offset and `timestamp_ntz` without; `binary` is base64; a decimal may be a number or a string.
"""

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ottla.ddl import struct_of
from pyspark_ottla.options import OptionError
from pyspark_ottla.schema_registry import split_frame

_INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_TYPES: dict[type[DataType], Any] = {
    BinaryType: bytes,
    BooleanType: bool,
    DateType: date,
    DecimalType: Decimal,
    DoubleType: float,
    FloatType: float,
    StringType: str,
    TimestampNTZType: Annotated[datetime, msgspec.Meta(tz=False)],
    TimestampType: Annotated[datetime, msgspec.Meta(tz=True)],
}
_Convert = Callable[[Any], Any]


def json_struct(schema: bytes) -> StructType:
    """The struct of a schema: as in `id long, name string`, or in the JSON that `StructType.json()` gives.

    Raises OptionError.
    """
    text = schema.decode("utf-8", "replace").strip()
    try:
        found = StructType.fromJson(json.loads(text)) if text.startswith("{") else struct_of(text)
        _python_type(found)
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(f"option valueSchema: not the columns of a struct, nor a file of them: {error}") from None
    return found


class JsonDecoder:
    """Reads values into one struct; `framed` values have a schema id before them."""

    def __init__(self, schema: bytes, *, framed: bool) -> None:
        struct = json_struct(schema)
        self._read: Callable[[bytes], Any] = msgspec.json.Decoder(_python_type(struct)).decode
        self._convert = _converter(struct)
        self._framed = framed

    def decode(self, value: bytes, schema_id: bytes | None) -> object:
        """See `ValueDecoder`."""
        if self._framed:
            _, value = split_frame(value, schema_id)
        try:
            found = self._read(value)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"not of this schema: {error}") from None
        return found if self._convert is None else self._convert(found)


def _python_type(of: DataType) -> Any:
    """What msgspec checks values by."""
    if isinstance(of, StructType):
        return TypedDict("Struct", {each.name: _python_type(each.dataType) | None for each in of.fields}, total=False)  # type: ignore[operator]
    if isinstance(of, ArrayType):
        return list[_python_type(of.elementType) | None]  # type: ignore[misc]
    if isinstance(of, MapType) and isinstance(of.keyType, StringType):
        return dict[str, _python_type(of.valueType) | None]  # type: ignore[misc]
    bits = _INTEGER_BITS.get(type(of))
    if bits is not None:
        return Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    if type(of) not in _TYPES:
        raise OptionError(f"option valueSchema: {of.simpleString()} cannot be read from JSON")
    return _TYPES[type(of)]


def _converter(of: DataType) -> _Convert | None:
    """What makes of a value one that Arrow takes, where that is another: maps become lists of pairs."""
    if isinstance(of, MapType):
        of_value = _nullable(_converter(of.valueType))
        if of_value is None:
            return lambda value: list(value.items())
        return lambda value: [(key, of_value(each)) for key, each in value.items()]
    if isinstance(of, ArrayType):
        of_item = _nullable(_converter(of.elementType))
        return None if of_item is None else lambda value: [of_item(each) for each in value]
    if isinstance(of, StructType):
        found = {each.name: _nullable(_converter(each.dataType)) for each in of.fields}
        fields = {name: convert for name, convert in found.items() if convert is not None}
        if not fields:
            return None
        return lambda value: value | {name: convert(value.get(name)) for name, convert in fields.items()}
    return None


def _nullable(convert: _Convert | None) -> _Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)
