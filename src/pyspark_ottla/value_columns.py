"""The columns `data` and `error` of a batch of records whose values are decoded here."""

from typing import Any

import pyarrow as pa

from pyspark_ottla.schema_registry import SCHEMA_ID_HEADER
from pyspark_ottla.value_format import DATA, ValueDecoder, ValueFormat

REASON_MAX = 500
"""Characters of a reason: what a stranger wrote is no reason to carry more."""


class ValueColumns:
    """Adds the two columns. A record whose value cannot be decoded stays, with null and the reason."""

    def __init__(self, value_format: ValueFormat, schema: Any) -> None:
        """`schema` is that of the batches with the columns, as Spark was told."""
        self._decoder: ValueDecoder = value_format.decoder()
        self._schema = schema
        self._type = schema.field(DATA).type
        self._by_header = value_format.registry is not None

    @property
    def needs_headers(self) -> bool:
        """Whether the batches must have the column `headers`, for the id of a schema may be in one."""
        return self._by_header

    def add(self, batch: Any) -> Any:
        """The batch with the columns, and without `headers` where Spark was not told of it."""
        ids = self._schema_ids(batch)
        found: list[object] = []
        errors: list[str | None] = []
        for value, schema_id in zip(batch.column("value").to_pylist(), ids, strict=True):
            data, error = self._decode(value, schema_id)
            found.append(data)
            errors.append(error)
        data_column = self._array(found, errors)
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns |= {"data": data_column, "error": pa.array(errors, pa.string())}
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def _decode(self, value: bytes | None, schema_id: bytes | None) -> tuple[object, str | None]:
        if value is None:
            return None, None
        try:
            return self._decoder.decode(value, schema_id), None
        except ValueError as error:
            return None, str(error)[:REASON_MAX]

    def _array(self, found: list[object], errors: list[str | None]) -> Any:
        try:
            return pa.array(found, self._type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            # A value that its schema allows and no column holds, such as a decimal with more digits: find whose it is.
            for index, each in enumerate(found):
                try:
                    pa.array([each], self._type)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    found[index], errors[index] = None, f"no column holds it: {error}"[:REASON_MAX]
            return pa.array(found, self._type)

    def _schema_ids(self, batch: Any) -> list[bytes | None]:
        if not self._by_header:
            return [None] * batch.num_rows
        return [
            next((each["value"] for each in headers if each["key"] == SCHEMA_ID_HEADER), None) if headers else None
            for headers in batch.column("headers").to_pylist()
        ]
