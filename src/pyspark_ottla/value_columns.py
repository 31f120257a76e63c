"""The columns `data` and `error` of a batch of records whose values are decoded here."""

from typing import Any

import pyarrow as pa

from pyspark_ottla.options import OptionError
from pyspark_ottla.plain_json import PlainJsonColumns
from pyspark_ottla.schema_registry import SCHEMA_ID_HEADER, RegistryError
from pyspark_ottla.value_format import DATA, ValueDecoder, ValueFormat

REASON_MAX = 500
"""The maximum number of characters of a reason."""
_NOT_HELD = (pa.ArrowException, ValueError, TypeError, OverflowError)


class ValueColumns:
    """Adds the two columns. A record whose value cannot be decoded stays, with null and the reason."""

    def __init__(self, value_format: ValueFormat, schema: Any, plain: PlainJsonColumns | None = None) -> None:
        """`schema` is that of the batches with the columns, as Spark was told. `plain` decodes a part of the values,
        the same and faster.
        """
        self._plain = plain
        self._decoder: ValueDecoder = value_format.decoder()
        self._schema = schema
        self._type = schema.field(DATA).type
        self._by_header = value_format.registry is not None

    @property
    def needs_headers(self) -> bool:
        """Whether batches need the column `headers`, because the id of a schema may be in a header."""
        return self._by_header

    def add(self, batch: Any) -> Any:
        """The batch with the added columns, and without `headers` if Spark did not ask for it."""
        values = batch.column("value")
        plain = None if self._plain is None else self._plain.decode(values)
        if plain is not None:
            places = _places(plain.is_null(), values.is_valid())
            decoded, errors = self._columns(values.take(places).to_pylist(), [None] * len(places))
            decoded, errors = _merged(plain, places, decoded, errors)
        else:
            decoded, errors = self._columns(values.to_pylist(), self._schema_ids(batch))
        columns = {name: batch.column(name) for name in batch.schema.names} | {"data": decoded, "error": errors}
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def _columns(self, values: list[bytes | None], ids: list[bytes | None]) -> tuple[Any, Any]:
        found: list[object] = []
        errors: list[str | None] = []
        for value, schema_id in zip(values, ids, strict=True):
            data, error = self._decode(value, schema_id)
            found.append(data)
            errors.append(error)
        decoded = self._array(found, errors)
        return decoded, pa.array(errors, pa.string())

    def _decode(self, value: bytes | None, schema_id: bytes | None) -> tuple[object, str | None]:
        if value is None:
            return None, None
        try:
            return self._decoder.decode(value, schema_id), None
        except (RegistryError, OptionError, MemoryError):
            raise
        except Exception as error:
            # A library may fail in any way over a stranger's bytes; the records beside this one are none the worse.
            said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            return None, _printable(said)

    def _array(self, found: list[object], errors: list[str | None]) -> Any:
        try:
            return pa.array(found, self._type)
        except _NOT_HELD:
            # A value that its schema allows and no column holds, such as a decimal with more digits: find whose it is.
            for index, each in enumerate(found):
                try:
                    pa.array([each], self._type)
                except _NOT_HELD as error:
                    found[index], errors[index] = None, _printable(_not_held(each, self._type, error))
            return pa.array(found, self._type)

    def _schema_ids(self, batch: Any) -> list[bytes | None]:
        if not self._by_header:
            return [None] * batch.num_rows
        return [
            next((each["value"] for each in headers if each["key"] == SCHEMA_ID_HEADER), None) if headers else None
            for headers in batch.column("headers").to_pylist()
        ]


def _places(is_null: Any, has_value: Any) -> Any:
    """Of the values that are not plain those that are there."""
    import pyarrow.compute as pc

    return pc.indices_nonzero(pc.and_(is_null, has_value)).cast(pa.int64())


def _merged(plain: Any, places: Any, decoded: Any, errors: Any) -> tuple[Any, Any]:
    """The plain values with those decoded that are at these places, and the errors of all."""
    if not len(places):
        return plain, pa.nulls(len(plain), pa.string())
    index = list(range(len(plain)))
    of_error: list[int | None] = [None] * len(plain)
    for number, place in enumerate(places.to_pylist()):
        index[place], of_error[place] = len(plain) + number, number
    together = pa.concat_arrays([plain, decoded]).take(pa.array(index, pa.int64()))
    return together, errors.take(pa.array(of_error, pa.int64()))


def _printable(reason: str) -> str:
    """The reason as a column of text holds it."""
    return reason[:REASON_MAX].encode("utf-8", "backslashreplace").decode()


def _not_held(found: Any, kind: Any, error: Exception) -> str:
    """Which field it is that no column holds."""
    for field in kind if isinstance(found, dict) else ():
        try:
            pa.array([found.get(field.name)], field.type)
        except _NOT_HELD as inner:
            return f"field {field.name}: no column of type {field.type} holds it: {inner}"
    return f"no column holds it: {error}"
