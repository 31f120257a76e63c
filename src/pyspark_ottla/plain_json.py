"""Decodes plain JSON of a flat schema with Arrow, faster than `json_values` and with equal results.

Plain JSON is one object on one line, with each field of the schema at most once, as a value of its JSON type.
`json_values` reads everything else: it knows more forms, and reports errors:

```
 schema  flight string, at timestamp, delay_min int            data
 {"flight":"UA1","at":"2013-01-01T10:15:00Z","x":[1]}          {UA1, 2013-01-01 10:15:00, null}
 {"flight":"UA1","at":"2013-01-01 11:15:00+01:00"}             null: it may be read
 {"flight":1}                                                  null
 {"Flight":"UA1"}                                              null
```
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_ottla.json_values import DEPTH_MAX, MICROSECONDS, UNIT_US
from pyspark_ottla.options import OptionError

NOT_PLAIN: Final = "not plain JSON of this schema: valueFormat=json may read it, or say why not"
"""The text of `error` for a value that is not plain."""
ATTEMPTS_MAX: Final = 64
"""How often a record batch is split to find plain values between others; the rest then counts as not plain."""

_TYPES: Final[dict[str, type[DataType]]] = {
    "string": StringType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "double": DoubleType,
    "boolean": BooleanType,
    "timestamp": TimestampType,
    "date": DateType,
}
_FIELD: Final = re.compile(r"\s*([A-Za-z_]\w*)(?:\s*:\s*|\s+)([A-Za-z]+)\s*", re.ASCII)
_TIMES: Final[dict[type[DataType], str]] = {
    TimestampType: r"^[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$",
    DateType: r"^[12]\d{3}-\d\d-\d\d$",
}
"""The one form of each that is plain."""
_OPENING: Final = r"[\[{]"
_ESCAPED: Final = r"\\u00[3-7]"
"""The escapes of letters and digits. Names may be written with them, where no pattern finds them."""
_CONTROL: Final = r"[\n\r\x00]"
"""What Arrow takes for the end of a value."""
_NO_NUMBER: Final = r"[:,\[]\s*-?(NaN|Inf)"
"""What stands for a number and is none; readers of JSON differ in which of these they know."""

_SUSPICIOUS: Final = r"[\n\r\x00]|NaN|Inf|\\u00[3-7]"
"""Where any of the three may be. To search once for all of them costs a fraction, and few values have one."""


@dataclass(frozen=True, slots=True)
class PlainJson:
    """The fields, each with the name of its type. A value that can be pickled and hashed: it goes to the executors."""

    fields: tuple[tuple[str, str], ...]
    unit: str | None = None
    """The unit of a number in a `timestamp`, counted from 1970. With a unit, a time as text is not plain."""

    registry: None = None
    """Plain JSON has no schema registry."""

    @classmethod
    def of(cls, schema: str, unit: str | None = None) -> "PlainJson | None":
        """The fields of a flat schema such as `id bigint, name string`; None if it has other types."""
        fields = []
        for part in schema.split(","):
            field = _FIELD.fullmatch(part)
            if field is None or field[2].lower() not in _TYPES:
                return None
            fields.append((field[1], field[2].lower()))
        if len({name.lower() for name, _ in fields}) < len(fields):
            return None
        return cls(tuple(fields), unit)

    @classmethod
    def required(cls, schema: str | None) -> "PlainJson":
        """The same from the option `valueSchema`. Raises OptionError."""
        found = None if schema is None else cls.of(schema)
        if found is None:
            raise OptionError(
                "option valueFormat: plain-json needs option valueSchema with fields and their types, such as"
                f" 'id bigint, name string, at timestamp'; types are {', '.join(sorted(_TYPES))}. Anything else Spark"
                " decodes itself: from_json(cast(value as string), 'id long, tags array<string>')"
            )
        return found

    def columns(self) -> list[StructField]:
        """The added columns: the decoded struct, and the error."""
        return [StructField("data", self.data_type()), StructField("error", StringType())]

    def data_type(self) -> StructType:
        """The type of `data`."""
        return StructType([StructField(name, _TYPES[kind]()) for name, kind in self.fields])

    def adder(self, schema: Any) -> "PlainJsonColumns":
        """An object that adds the columns to record batches; the result has this schema."""
        return PlainJsonColumns(self, schema)


class PlainJsonColumns:
    """Adds the two columns to record batches."""

    needs_headers = False

    def __init__(self, plain: PlainJson, schema: Any) -> None:
        import pyarrow as pa
        import pyarrow.json

        self._schema = schema
        self._type = schema.field("data").type
        # Times come as text or as numbers: which of them are plain is for us to say.
        self._unit_us = None if plain.unit is None else UNIT_US[plain.unit]
        read_as = [(each.name, self._read_as(each.type)) for each in self._type]
        self._parse = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(read_as), newlines_in_values=False, unexpected_field_behavior="ignore"
        )
        self._other_case = _other_case([name for name, _ in plain.fields])
        self._times = {name: _TIMES[_TYPES[kind]] for name, kind in plain.fields if _TYPES[kind] in _TIMES}

    def _read_as(self, kind: Any) -> Any:
        import pyarrow as pa

        if pa.types.is_timestamp(kind) and self._unit_us is not None:
            return pa.int64()
        return pa.string() if _is_time(kind) else kind

    def add(self, batch: Any) -> Any:
        """The batch with the columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        data = self.decode(batch.column("value"))
        error = pa.nulls(batch.num_rows, pa.string())
        if data.null_count:
            wrong = pc.and_(data.is_null(), batch.column("value").is_valid())
            error = pc.if_else(wrong, pa.scalar(NOT_PLAIN), error)
        columns = {name: batch.column(name) for name in batch.schema.names} | {"data": data, "error": error}
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def decode(self, values: Any) -> Any:
        """A struct for each value; null for one that is not plain."""
        import pyarrow as pa
        import pyarrow.compute as pc

        candidates = _candidates(values)
        found: list[Any] = []
        places: list[Any] = []
        attempts = ATTEMPTS_MAX
        ways = [(0, len(candidates))]
        while ways and attempts:
            start, end = ways.pop()
            attempts -= 1
            table, bad = self._parsed(values.take(candidates.slice(start, end - start)), end - start)
            if table is not None:
                found.append(table)
                places.append(candidates.slice(start, end - start))
                continue
            if end - start > 1:
                # The good ones before a bad one, that one, and the rest; or halves where nobody says which is bad.
                cuts = [bad, bad + 1] if bad is not None else [(end - start) // 2]
                bounds = [start, *(start + cut for cut in cuts), end]
                ways += [(low, high) for low, high in pairwise(bounds) if low < high]
        if not found:
            return pa.nulls(len(values), self._type)
        table = pa.concat_tables(found).combine_chunks()
        place = pa.concat_arrays(places)
        columns, plain = self._converted(table)
        named = self._named(values, place, table)
        if named is not None:
            plain = named if plain is None else pc.and_(plain, named)
        if len(place) == len(values) and plain is None and len(found) == 1:
            return pa.StructArray.from_arrays(columns, fields=list(self._type))
        index = _positions(place, plain, len(values))
        taken = [column.take(index) for column in columns]
        return pa.StructArray.from_arrays(taken, fields=list(self._type), mask=index.is_null())

    def _parsed(self, values: Any, count: int) -> tuple[Any, int | None]:
        """The values as a table of so many rows; or None, and which of them is bad if that can be told."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.json

        if not count:
            return self._parse.explicit_schema.empty_table(), None
        lines = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
        text = pc.binary_join(lines, b"\n")[0].as_buffer()
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1)
        try:
            table = pyarrow.json.read_json(pa.BufferReader(text), reading, self._parse)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            said = re.search(r"in row (\d+)$", str(error))
            bad = None if said is None else int(said[1])
            return None, bad if bad is not None and bad < count else None
        # A value may have been two objects, one after the other.
        return (table, None) if table.num_rows == count else (None, None)

    def _named(self, values: Any, place: Any, table: Any) -> Any:
        """Which rows have no name of the schema in another case; None where all have none, as far as it matters.

        Such a name beside the field itself is another field, so only rows that lack a field are looked at.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        lacking = None
        for name in table.column_names:
            if table[name].null_count:
                missing = table[name].is_null()
                lacking = missing if lacking is None else pc.or_(lacking, missing)
        if lacking is None:
            return None
        rows = pc.indices_nonzero(lacking)
        text = values.take(place.take(rows)).cast(pa.string())
        wrong = rows.filter(pc.match_substring_regex(text, self._other_case))
        if not len(wrong):
            return None
        return pc.invert(pc.is_in(pa.array(range(len(place)), pa.uint64()), wrong))

    def _converted(self, table: Any) -> tuple[list[Any], Any]:
        """The columns in their types, and which rows of them are plain; None where all are."""
        import pyarrow as pa
        import pyarrow.compute as pc

        plain, columns = None, []
        for field in self._type:
            column = table[field.name].combine_chunks()
            form = self._times.get(field.name)
            if form is not None:
                if pa.types.is_integer(column.type):
                    assert self._unit_us is not None
                    column, fits = _counted(column, self._unit_us, field.type)
                else:
                    column, fits = _times(column, form, field.type)
                if fits is not None:
                    plain = fits if plain is None else pc.and_(plain, fits)
            if pa.types.is_floating(field.type) and column.null_count < len(column):
                # Digits without an end are an infinite number to Arrow.
                finite = pc.fill_null(pc.is_finite(column), True)
                if not pc.all(finite).as_py():
                    plain = finite if plain is None else pc.and_(plain, finite)
            columns.append(column)
        return columns, plain


def _other_case(names: list[str]) -> str:
    """What finds one of these names in another case: one letter of it in the other case, the rest in any.

    >>> print(_other_case(["id"]))
    "(?:I(?i:d)|iD(?i:))"\\s*:
    """
    found = []
    for name in names:
        for at, letter in enumerate(name):
            if letter.isalpha():
                found.append(f"{name[:at]}{letter.swapcase()}(?i:{name[at + 1 :]})")
    return rf'"(?:{"|".join(found)})"\s*:'


def _is_time(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _candidates(values: Any) -> Any:
    """The indexes of values that may be one object on one line, in UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        text = values.cast(pa.string())
    except pa.ArrowInvalid:
        text = pa.array([_text(value) for value in values.to_pylist()], pa.string())
    fits = pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))
    if pc.any(pc.match_substring_regex(text, _SUSPICIOUS)).as_py():
        for pattern in (_CONTROL, _NO_NUMBER, _ESCAPED):
            fits = pc.and_(fits, pc.invert(pc.match_substring_regex(text, pattern)))
    # Arrow reads what is nested however deep; a short value is not.
    if (pc.max(pc.binary_length(text)).as_py() or 0) > DEPTH_MAX:
        fits = pc.and_(fits, pc.less_equal(pc.count_substring_regex(text, _OPENING), DEPTH_MAX))
    return pc.indices_nonzero(pc.fill_null(fits, False)).cast(pa.int64())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _times(column: Any, form: str, kind: Any) -> tuple[Any, Any]:
    """Text as times, null where it is none; and where it is one, or null already. None where that is everywhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.fill_null(pc.match_substring_regex(column, form), True)
    if not pc.all(fits).as_py():
        column = pc.if_else(fits, column, pa.scalar(None, pa.string()))
    try:
        return column.cast(kind), None if pc.all(fits).as_py() else fits
    except pa.ArrowInvalid:
        # Of the form of a time, and none: a 30th of February.
        read = date.fromisoformat if pa.types.is_date(kind) else datetime.fromisoformat
        there = pa.array([_is_read(read, each) for each in column.to_pylist()], pa.bool_())
        return pc.if_else(there, column, pa.scalar(None, pa.string())).cast(kind), pc.and_(fits, there)


def _counted(column: Any, unit_us: int, kind: Any) -> tuple[Any, Any]:
    """Numbers as times, null where they are beyond them; and where they are not, or null already. None where that is
    everywhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first, last = -(-MICROSECONDS[0] // unit_us), MICROSECONDS[-1] // unit_us
    fits = pc.fill_null(pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last)), True)
    everywhere = pc.all(fits).as_py()
    if not everywhere:
        column = pc.if_else(fits, column, pa.scalar(None, pa.int64()))
    return pc.multiply(column, unit_us).cast(kind), None if everywhere else fits


def _is_read(read: Any, text: str | None) -> bool:
    try:
        return text is None or read(text) is not None
    except ValueError:
        return False


def _positions(place: Any, plain: Any, count: int) -> Any:
    """For each value the row of the table that it is in; null where it is in none, or in one that is not plain."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.array(range(len(place)), pa.int64())
    if plain is not None:
        rows = pc.if_else(plain, rows, pa.scalar(None, pa.int64()))
    positions: list[int | None] = [None] * count
    for index, row in zip(place.to_pylist(), rows.to_pylist(), strict=True):
        positions[index] = row
    return pa.array(positions, pa.int64())
