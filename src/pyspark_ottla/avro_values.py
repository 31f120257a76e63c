"""Avro: a schema as Spark's types, and values read into it.

Types are those of Spark's `from_avro`. A union of null and one type is that type. `time-millis` and other logical
types without a Spark type are read as their stored type. Unions of several types and recursive records are refused.
"""

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ottla.options import OptionError
from pyspark_ottla.refused_field import RefusedField
from pyspark_ottla.schema_registry import Registry, split_frame

_PRIMITIVES: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "bytes": BinaryType,
    "fixed": BinaryType,
    "enum": StringType,
}
_LOGICAL: dict[str, type[DataType]] = {
    "date": DateType,
    "timestamp-millis": TimestampType,
    "timestamp-micros": TimestampType,
    "local-timestamp-millis": TimestampNTZType,
    "local-timestamp-micros": TimestampNTZType,
}
_MEMBERS = ("type", "items", "values")
_Convert = Callable[[Any], Any]


def avro_struct(schema: bytes) -> StructType:
    """The record of an Avro schema as Spark's type. Raises OptionError for a schema that cannot be columns."""
    _, expanded = _parse(schema)
    found = _spark_type(expanded, "")
    if not isinstance(found, StructType):
        raise OptionError(f"option valueSchema: the schema of a value must be a record, not {found.simpleString()}")
    return found


class AvroDecoder:
    """Reads values, each by the schema that it was written with, into one schema (Avro's schema resolution)."""

    def __init__(self, schema: bytes, registry: Registry | None) -> None:
        from fastavro import schemaless_reader

        self._read: Callable[..., Any] = schemaless_reader
        self._schema, expanded = _parse(schema)
        self._convert = _converter(expanded)
        self._registry = registry
        self._own = None if registry is not None else writer_of(schema)
        self._writers: dict[bytes, Writer] = {}
        self._unknown: dict[bytes, str] = {}

    def decode(self, value: bytes, schema_id: bytes | None) -> object:
        """See `ValueDecoder`."""
        writer, resolve_into = self._own, None
        if self._registry is not None:
            named, value = split_frame(value, schema_id)
            writer, resolve_into = self._writer(named, self._registry), self._schema
        assert writer is not None
        stream = io.BytesIO(value)
        try:
            found = self._read(stream, writer.schema, resolve_into)
        except IndexOutOfRangeError as error:
            raise ValueError(f"not of this schema: {error}") from None
        except (EOFError, IndexError):
            raise writer.refused(value, "the value ends before the record does") from None
        except UnicodeDecodeError:
            raise writer.refused(value, "the text is not UTF-8") from None
        except Exception as error:
            # Unknown bytes make the reader fail in many ways, all of which mean that they are not of this schema.
            refused = writer.field_beyond_time(value)
            raise refused or writer.refused(value, f"not of this schema: {type(error).__name__}: {error}") from None
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes are left after the record")
        return found if self._convert is None else self._convert(found)

    def _writer(self, schema_id: bytes, registry: Registry) -> "Writer":
        if schema_id in self._unknown:
            raise ValueError(self._unknown[schema_id])
        if schema_id not in self._writers:
            try:
                self._writers[schema_id] = writer_of(registry.by_id(schema_id).encode())
            except (ValueError, OptionError) as error:
                # Once for all values of a task that name it.
                self._unknown[schema_id] = str(error)
                raise ValueError(str(error)) from None
        return self._writers[schema_id]


class IndexOutOfRangeError(IndexError):
    """The schema has no symbol of an enum, or no branch of a union, with this index. The message names the field."""


class Indexed(list[Any]):
    """The symbols of an enum or the branches of a union. An index that is not one of theirs, also a negative one, which
    in Python counts from the end, raises IndexOutOfRangeError.

    fastavro's compiled reader adds the length to a negative index by itself, unless there is none to add.
    """

    def __init__(self, of: Iterable[Any], what: str) -> None:
        super().__init__(of)
        self._what = what

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < list.__len__(self):
            raise IndexOutOfRangeError(f"{self._what} has the index {index}, and there are {list.__len__(self)}")
        return list.__getitem__(self, index)


@dataclass(frozen=True, slots=True)
class Writer:
    """The schema that values were written with."""

    schema: Any
    """The schema as fastavro reads with it."""
    times: Any
    """The same schema without types of times, so that times are read as numbers."""
    expanded: Any
    """The same schema, with each name of a type replaced by its definition."""

    def field_beyond_time(self, value: bytes) -> RefusedField | None:
        """Which field of a value that cannot be read is a time that no column holds, if that is why."""
        from fastavro import schemaless_reader

        try:
            found = schemaless_reader(io.BytesIO(value), self.times, None)
        except Exception:
            # It is something else, and its reason is known.
            return None
        return _beyond_time(self.expanded, found, "")

    def refused(self, value: bytes, reason: str) -> ValueError:
        """Why a value cannot be read, with the field of the outermost record that cannot, if it is one."""
        fields = self.schema.get("fields", []) if isinstance(self.schema, dict) else []
        # A record with fewer fields is a beginning of the same value.
        readable, count = 0, len(fields)
        while readable < count:
            middle = (readable + count) // 2
            if self._begins_with(value, fields[: middle + 1]):
                readable = middle + 1
            else:
                count = middle
        return ValueError(reason) if readable == len(fields) else RefusedField(fields[readable]["name"], reason)

    def _begins_with(self, value: bytes, fields: list[Any]) -> bool:
        from fastavro import schemaless_reader

        try:
            schemaless_reader(io.BytesIO(value), {**self.schema, "fields": fields}, None)
        except Exception:
            return False
        return True


_UNIT_US = {"date": 86_400_000_000, "millis": 1000, "micros": 1}
_MICROSECONDS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999."""


def _beyond_time(schema: Any, value: Any, path: str) -> RefusedField | None:
    if isinstance(schema, list):
        branches = [each for each in schema if each != "null"]
        return _beyond_time(branches[0], value, path) if len(branches) == 1 and value is not None else None
    if isinstance(schema, str):
        return None
    logical = schema.get("logicalType")
    if logical in _LOGICAL and isinstance(value, int):
        if value * _UNIT_US[logical.rpartition("-")[2]] in _MICROSECONDS:
            return None
        return RefusedField(path, f"{value} is a {logical} outside of the years 1 to 9999")
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _beyond_time(kind, value, path)
    inner: Iterable[tuple[Any, Any, str]] = ()
    if isinstance(value, dict) and kind in ("record", "error"):
        dot = "." if path else ""
        inner = ((each["type"], value.get(each["name"]), f"{path}{dot}{each['name']}") for each in schema["fields"])
    elif isinstance(value, list) and kind == "array":
        inner = ((schema["items"], each, path) for each in value)
    elif isinstance(value, dict) and kind == "map":
        inner = ((schema["values"], each, path) for each in value.values())
    return next((found for each in inner if (found := _beyond_time(*each)) is not None), None)


def writer_of(schema: bytes) -> Writer:
    """A schema for reading what was written with it. Raises OptionError."""
    parsed, expanded = _parse(schema)
    times, _ = _parse(json.dumps(_without_times(json.loads(schema))).encode())
    return Writer(_indexed(parsed, {}, "the value"), _indexed(times, {}, "the value"), expanded)


def _without_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_times(value) if key in (*_MEMBERS, "fields") else value
        for key, value in schema.items()
        if key != "logicalType" or value not in _LOGICAL
    }


def _indexed(schema: Any, seen: dict[int, Any], what: str) -> Any:
    """A parsed schema, with symbols and branches that are `Indexed`; `what` has this schema."""
    if id(schema) in seen:
        return seen[id(schema)]
    if isinstance(schema, list):
        return Indexed([_indexed(each, seen, what) for each in schema], f"the union of {what}")
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    seen[id(schema)] = found
    for key, value in schema.items():
        if key == "symbols":
            found[key] = Indexed(value, f"the enum of {what}")
        elif key == "fields":
            found[key] = [{**each, "type": _indexed(each["type"], seen, f"field {each['name']}")} for each in value]
        elif key == "__named_schemas":
            found[key] = {name: _indexed(each, seen, what) for name, each in value.items()}
        else:
            found[key] = _indexed(value, seen, what) if key in _MEMBERS else value
    return found


def _parse(schema: bytes) -> tuple[Any, Any]:
    """A schema for reading, and the same with each name in it replaced by what it stands for."""
    try:
        from fastavro import parse_schema
        from fastavro.schema import expand_schema
    except ImportError:
        raise OptionError(
            "option valueFormat: avro needs the package fastavro: pip install 'ottla[pipelines]'"
        ) from None

    try:
        plain = _without_unknown_logical_types(json.loads(schema))
        return parse_schema(plain), expand_schema(plain)
    except RecursionError:
        raise OptionError("option valueSchema: a record that contains itself cannot be columns") from None
    except Exception as error:
        raise OptionError(f"option valueSchema: not an Avro schema: {type(error).__name__}: {error}") from None


def _without_unknown_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_unknown_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    logical = schema.get("logicalType")
    kept = {key: value for key, value in schema.items() if key != "logicalType" or _is_known(logical)}
    for member in _MEMBERS:
        if member in kept:
            kept[member] = _without_unknown_logical_types(kept[member])
    if "fields" in kept:
        kept["fields"] = [_without_unknown_logical_types(each) for each in kept["fields"]]
    return kept


def _is_known(logical: Any) -> bool:
    return logical in _LOGICAL or logical == "decimal"


def _spark_type(schema: Any, where: str) -> DataType:
    if isinstance(schema, list):
        return _spark_type(_only_branch(schema, where), where)
    kind = schema if isinstance(schema, str) else schema["type"]
    if not isinstance(schema, str):
        logical = schema.get("logicalType")
        if logical in _LOGICAL:
            return _LOGICAL[logical]()
        if logical == "decimal":
            return DecimalType(schema["precision"], schema.get("scale", 0))
        if isinstance(kind, (dict, list)):
            return _spark_type(kind, where)
        if kind in ("record", "error"):
            fields = [(each["name"], each["type"]) for each in schema["fields"]]
            return StructType([StructField(name, _spark_type(of, f"{where}{name}.")) for name, of in fields])
        if kind == "array":
            return ArrayType(_spark_type(schema["items"], where))
        if kind == "map":
            return MapType(StringType(), _spark_type(schema["values"], where))
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]()
    raise OptionError(f"option valueSchema: {where[:-1] or 'the schema'} is {kind!r}, which cannot be a column")


def _only_branch(union: list[Any], where: str) -> Any:
    branches = [each for each in union if each != "null"]
    if len(branches) != 1:
        raise OptionError(
            f"option valueSchema: {where[:-1] or 'the schema'} is a union of {len(branches)} types besides null, which"
            " cannot be a column"
        )
    return branches[0]


def _converter(schema: Any) -> _Convert | None:
    """What makes of a value that was read one that Arrow takes, where that is another: maps become lists of pairs."""
    if isinstance(schema, list):
        inner = _converter(_only_branch(schema, ""))
        return None if inner is None else lambda value: None if value is None else inner(value)
    if isinstance(schema, str):
        return None
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _converter(kind)
    if kind == "map":
        of_value = _converter(schema["values"])
        if of_value is None:
            return lambda value: list(value.items())
        return lambda value: [(key, of_value(each)) for key, each in value.items()]
    if kind == "array":
        of_item = _converter(schema["items"])
        return None if of_item is None else lambda value: [of_item(each) for each in value]
    if kind in ("record", "error"):
        found = {each["name"]: _converter(each["type"]) for each in schema["fields"]}
        fields = {name: convert for name, convert in found.items() if convert is not None}
        if not fields:
            return None
        return lambda value: value | {name: convert(value[name]) for name, convert in fields.items()}
    return None
