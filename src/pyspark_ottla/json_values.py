"""Decodes JSON values into a struct, whose schema is Spark's DDL or Spark's JSON form of a type.

A value is exactly one object. A value that is not of its column's type is refused, and no value is changed to fit:

```
 schema   id long, name string, price decimal(10,2)
 {"id":1,"name":"a","price":1.50}    {1, a, 1.50}
 {"id":"1"}                          field id: "1" is not a bigint
 {"id":1.0}                          field id: 1.0 is not a bigint: it is written with a point or an exponent
 {"name":{"a":1}}                    field name: an object is not a string
 {"price":1.005}                     field price: 1.005 has more digits than decimal(10,2) keeps
 {"ID":1}                            field ID: the schema has id, and names are compared letter by letter
 {"id":1,"id":2}                     field id: it is there twice
 {"id":1}{"id":2}                    something follows the object, at character 8
```

Missing fields are null, and fields that are not in the struct are ignored. Times are in the form of RFC 3339,
`timestamp` with an offset and `timestamp_ntz` without, or are numbers if a unit is set. `binary` is base64. A decimal
may be a number or a string.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final, NoReturn

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
from pyspark_ottla.refused_field import RefusedField
from pyspark_ottla.schema_registry import split_frame

DEPTH_MAX: Final = 500
"""Objects and arrays within each other. Python's reader takes about twice as many before it gives up."""
SHOWN_MAX: Final = 40
"""The maximum number of characters of a value, or of a name, that a reason quotes."""

_INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_INTEGER_DIGITS_MAX: Final = 20
"""More have no 64 bits, and take Python a time that grows with their square."""
_FLOAT_BOUND: Final = float.fromhex("0x1.ffffffp+127")
"""From here on numbers are infinite in 32 bits: half a step above the largest."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
UNIT_US: Final = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""The units of numbers in timestamps, in microseconds."""
MICROSECONDS: Final = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999."""
_SINCE: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is added where there is one
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_OF_DEPTH = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Times:
    """How times without an offset, and times that are numbers, are decoded."""

    local_zone: Any = None
    """The time zone of a `timestamp` without an offset; None refuses such timestamps."""
    unit: str | None = None
    """The unit of a number, counted from 1970; None refuses numbers."""


class _Integer(str):
    """A number without point and exponent, as it is written."""

    __slots__ = ()


class _Fraction(str):
    """Another number, as it is written."""

    __slots__ = ()


def json_struct(schema: bytes) -> StructType:
    """The struct of a schema: as in `id long, name string`, or in the JSON that `StructType.json()` gives.

    Raises OptionError.
    """
    text = schema.decode("utf-8", "replace").strip()
    try:
        found = StructType.fromJson(json.loads(text)) if text.startswith("{") else struct_of(text)
        _reader(found, Times())
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(f"option valueSchema: not the columns of a struct, nor a file of them: {error}") from None
    return found


class JsonDecoder:
    """Reads values into one struct; `framed` values have a schema id before them."""

    def __init__(self, schema: bytes, *, framed: bool, times: Times | None = None) -> None:
        self._read = _reader(json_struct(schema), times or Times())
        self._framed = framed
        # Objects become tuples of their pairs, so that they differ from arrays and a name may be there twice.
        self._parse = json.JSONDecoder(
            object_pairs_hook=tuple, parse_int=_Integer, parse_float=_Fraction, parse_constant=_no_constant
        ).decode

    def decode(self, value: bytes, schema_id: bytes | None) -> object:
        """See `ValueDecoder`."""
        if self._framed:
            _, value = split_frame(value, schema_id)
        if value.count(b"[") + value.count(b"{") > DEPTH_MAX:
            _check_depth(value)
        try:
            found = self._parse(value.decode())
        except UnicodeDecodeError:
            raise ValueError("the value is not UTF-8") from None
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":
                raise ValueError(f"something follows the object, at character {error.pos}") from None
            raise ValueError(f"the value is not JSON: {error.msg}, at character {error.pos}") from None
        if type(found) is not tuple:
            raise ValueError(f"the value is not a JSON object: it is {_shown(found)}")
        return self._read(found)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the value is not JSON: {name} is not a number in JSON")


def _check_depth(value: bytes) -> None:
    depth = 0
    for found in _OF_DEPTH.finditer(value):
        first = value[found.start()]
        depth += 1 if first in b"[{" else -1 if first in b"]}" else 0
        if depth > DEPTH_MAX:
            raise ValueError(f"more than {DEPTH_MAX} objects and arrays within each other")


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, tuple):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = value if isinstance(value, _Integer | _Fraction) else json.dumps(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _reader(of: DataType, times: Times) -> _Reader:
    """What makes of a value one that Arrow takes. What it makes raises ValueError."""
    if isinstance(of, StructType):
        return _struct_reader({each.name: _reader(each.dataType, times) for each in of.fields})
    if isinstance(of, ArrayType):
        return _array_reader(_reader(of.elementType, times))
    if isinstance(of, MapType) and isinstance(of.keyType, StringType):
        return _map_reader(_reader(of.valueType, times))
    kind = of.simpleString()
    if isinstance(of, DecimalType):
        return _decimal_reader(of.precision, of.scale, kind)
    bits = _INTEGER_BITS.get(type(of))
    if bits is not None:
        return _integer_reader(bits, kind)
    if isinstance(of, TimestampType):
        return lambda value: _timestamp(value, times)
    simple: dict[type[DataType], _Reader] = {
        BinaryType: _binary,
        BooleanType: _boolean,
        DateType: _date,
        DoubleType: lambda value: _float(value, float("inf"), kind),
        FloatType: lambda value: _float(value, _FLOAT_BOUND, kind),
        StringType: _string,
        TimestampNTZType: lambda value: _timestamp_ntz(value, times),
    }
    if type(of) not in simple:
        raise OptionError(f"option valueSchema: {kind} cannot be read from JSON")
    return simple[type(of)]


def _struct_reader(fields: dict[str, _Reader]) -> _Reader:
    names = {name.lower(): name for name in fields}

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not tuple:
            raise ValueError(f"{_shown(value)} is not an object")
        found: dict[str, Any] = {}
        others: list[str] = []
        for name, each in value:
            of = fields.get(name)
            if of is None:
                others.append(name)
            elif name in found:
                raise RefusedField(name, "it is there twice")
            elif each is None:
                found[name] = None
            else:
                try:
                    found[name] = of(each)
                except ValueError as error:
                    raise RefusedField.within(name, error) from None
        if len(found) < len(fields):
            for name in others:
                meant = names.get(name.lower()) if name.isascii() else None
                if meant is not None and meant not in found:
                    raise RefusedField(name, f"the schema has {meant}, and names are compared letter by letter")
            return {name: found.get(name) for name in fields}
        return found

    return read


def _array_reader(of: _Reader) -> _Reader:
    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise ValueError(f"{_shown(value)} is not an array")
        found = []
        for each in value:
            try:
                found.append(None if each is None else of(each))
            except ValueError as error:
                raise RefusedField.within(f"[{len(found)}]", error) from None
        return found

    return read


def _map_reader(of: _Reader) -> _Reader:
    def read(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not tuple:
            raise ValueError(f"{_shown(value)} is not an object")
        found: dict[str, Any] = {}
        for name, each in value:
            if name in found:
                raise RefusedField(name[:SHOWN_MAX], "it is there twice")
            try:
                found[_string(name)] = None if each is None else of(each)
            except ValueError as error:
                raise RefusedField.within(name[:SHOWN_MAX], error) from None
        return list(found.items())

    return read


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _integer_reader(bits: int, kind: str) -> _Reader:
    bounds = range(-(1 << bits - 1), 1 << bits - 1)

    def read(value: Any) -> int:
        if type(value) is not _Integer:
            why = ": it is written with a point or an exponent" if type(value) is _Fraction else ""
            raise ValueError(f"{_shown(value)} is not {_a(kind)}{why}")
        if len(value) > _INTEGER_DIGITS_MAX or int(value) not in bounds:
            raise ValueError(f"{_shown(value)} is beyond {kind}")
        return int(value)

    return read


def _float(value: Any, bound: float, kind: str) -> float:
    if type(value) is not _Integer and type(value) is not _Fraction:
        raise ValueError(f"{_shown(value)} is not {_a(kind)}")
    found = float(value)
    if abs(found) >= bound:
        raise ValueError(f"{_shown(value)} is beyond {kind}")
    return found


def _decimal_reader(precision: int, scale: int, kind: str) -> _Reader:
    step = Decimal(1).scaleb(-scale)

    def read(value: Any) -> Decimal:
        if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
            raise ValueError(f"{_shown(value)} is not {_a(kind)}")
        try:
            found = Decimal(value)
        except ArithmeticError:
            raise ValueError(f"{_shown(value)} is beyond {kind}") from None
        if not found:
            return Decimal(0).scaleb(-scale)
        if found.adjusted() >= precision - scale:
            raise ValueError(f"{_shown(value)} is beyond {kind}")
        _, digits, exponent = found.as_tuple()
        zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
        if exponent + zeros < -scale:  # type: ignore[operator]
            raise ValueError(f"{_shown(value)} has more digits than {kind} keeps")
        # Exact: what is cut are zeros.
        return found.quantize(step, context=Context(prec=max(80, len(digits) + scale)))

    return read


def _string(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is not a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{_shown(value)} has half of a surrogate pair, which is not a character") from None
    return value


def _boolean(value: Any) -> bool:
    if value is not True and value is not False:
        raise ValueError(f"{_shown(value)} is not a boolean")
    return value


def _binary(value: Any) -> bytes:
    try:
        if type(value) is str:
            return b64decode(value, validate=True)
    except ValueError:
        pass
    raise ValueError(f"{_shown(value)} is not base64")


def _date(value: Any) -> date:
    if type(value) is str and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError(f"{_shown(value)} is not a date as in 2026-01-31, of the years 1 to 9999")


def _timestamp(value: Any, times: Times) -> datetime:
    if type(value) is _Integer or type(value) is _Fraction:
        return _counted(value, times.unit).replace(tzinfo=UTC)
    found = _time(value)
    if found is None:
        raise ValueError(f"{_shown(value)} is not a time as in 2026-01-31T10:15:00Z, of the years 1 to 9999")
    if found.tzinfo is None:
        if times.local_zone is None:
            raise ValueError(f"{_shown(value)} is a time without an offset, such as Z or +01:00")
        found = found.replace(tzinfo=times.local_zone)
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{_shown(value)} lies outside of the years 1 to 9999") from None


def _timestamp_ntz(value: Any, times: Times) -> datetime:
    if type(value) is _Integer or type(value) is _Fraction:
        return _counted(value, times.unit)
    found = _time(value)
    if found is None or found.tzinfo is not None:
        raise ValueError(f"{_shown(value)} is not a time without an offset, as in 2026-01-31T10:15:00")
    return found


def _counted(value: str, unit: str | None) -> datetime:
    """The time of a number, exactly."""
    if unit is None:
        raise ValueError(
            f'{_shown(value)} is a number: say what it counts since 1970, with timestamps = "seconds",'
            ' "milliseconds" or "microseconds" in the source (as an option: valueTimestamps)'
        )
    try:
        number = Decimal(value)
    except ArithmeticError:
        raise ValueError(f"{_shown(value)} {unit} lie outside of the years 1 to 9999") from None
    if not number:
        return _SINCE
    if number.adjusted() < -6:
        raise ValueError(f"{_shown(value)} {unit} have a part below a microsecond")
    if number.adjusted() < _INTEGER_DIGITS_MAX:
        micros = Context(prec=len(value) + 7).multiply(number, Decimal(UNIT_US[unit]))
        if micros != int(micros):
            raise ValueError(f"{_shown(value)} {unit} have a part below a microsecond")
        if int(micros) in MICROSECONDS:
            return _SINCE + timedelta(microseconds=int(micros))
    raise ValueError(f"{_shown(value)} {unit} lie outside of the years 1 to 9999")


def _time(value: Any) -> datetime | None:
    if type(value) is not str or not _TIME.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        return None
