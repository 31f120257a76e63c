"""`valueFormat=plain-json`: values that are plain JSON of a flat schema, decoded by Arrow, faster than by Spark.

Plain is what Arrow and `from_json` read alike: one object on one line, in it each field of the schema at most once, as
a value of its JSON type. What is not is left for `from_json`, which knows more of what people write, and says why it
cannot:

```
 schema  flight string, at timestamp, delay_min int            data
 {"flight":"UA1","at":"2013-01-01T10:15:00Z","x":[1]}          {UA1, 2013-01-01 10:15:00, null}
 {"flight":"UA1","delay_min":2.0}                              null: from_json says 2, or that it is no int
 {"flight":1}                                                  null: from_json says "1"
 {"flight":"UA1","at":"soon"}                                  null
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

from pyspark_ottla.options import OptionError

NOT_PLAIN: Final = "not plain JSON of this schema: from_json may read it, or say why not"
"""What `error` says."""
ATTEMPTS_MAX: Final = 64
"""So often the good values around bad ones are looked for in a record batch; the rest is then taken for not plain."""

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
_NO_NUMBER: Final = r"[:,\[]\s*-?(NaN|Inf)"
"""What stands for a number and is none; readers of JSON differ in which of these they know."""


@dataclass(frozen=True, slots=True)
class PlainJson:
    """The fields, each with the name of its type. A value that can be pickled and hashed: it goes to the executors."""

    fields: tuple[tuple[str, str], ...]

    registry: None = None
    """Nobody is asked for the schema."""

    @classmethod
    def of(cls, schema: str) -> "PlainJson | None":
        """What a schema such as `id bigint, name string` says; None for one that is not of such fields alone."""
        fields = []
        for part in schema.split(","):
            field = _FIELD.fullmatch(part)
            if field is None or field[2].lower() not in _TYPES:
                return None
            fields.append((field[1], field[2].lower()))
        if len({name.lower() for name, _ in fields}) < len(fields):
            return None
        return cls(tuple(fields))

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
        """The columns that are added: what was decoded, or that it was not."""
        return [StructField("data", self.data_type()), StructField("error", StringType())]

    def data_type(self) -> StructType:
        """The type of `data`."""
        return StructType([StructField(name, _TYPES[kind]()) for name, kind in self.fields])

    def adder(self, schema: Any) -> "PlainJsonColumns":
        """What adds the columns in this process, to record batches that are then of this schema."""
        return PlainJsonColumns(self, schema)


class PlainJsonColumns:
    """Adds the two columns to record batches."""

    needs_headers = False

    def __init__(self, plain: PlainJson, schema: Any) -> None:
        import pyarrow as pa
        import pyarrow.json

        self._schema = schema
        self._type = schema.field("data").type
        # Times come as text: which of them are plain is for us to say.
        read_as = [(each.name, pa.string() if _is_time(each.type) else each.type) for each in self._type]
        self._parse = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(read_as), newlines_in_values=False, unexpected_field_behavior="ignore"
        )
        self._times = {name: _TIMES[_TYPES[kind]] for name, kind in plain.fields if _TYPES[kind] in _TIMES}

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

    def _converted(self, table: Any) -> tuple[list[Any], Any]:
        """The columns in their types, and which rows of them are plain; None where all are."""
        import pyarrow.compute as pc

        plain, columns = None, []
        for field in self._type:
            column = table[field.name].combine_chunks()
            form = self._times.get(field.name)
            if form is not None:
                column, fits = _times(column, form, field.type)
                if fits is not None:
                    plain = fits if plain is None else pc.and_(plain, fits)
            columns.append(column)
        return columns, plain


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
    for sign, is_pattern in (("\n", False), ("\r", False), (_NO_NUMBER, True)):
        matching = pc.match_substring_regex if is_pattern else pc.match_substring
        if not is_pattern or pc.any(pc.match_substring_regex(text, "NaN|Inf")).as_py():
            fits = pc.and_(fits, pc.invert(matching(text, sign)))
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
