"""The rows of a sink's output, of production or of a replay, as keys and values that can be compared.

The key of a record of a topic is its own, or columns of its JSON value; that of a row of a table is columns. Keys and
values made of columns are JSON with sorted names, so that the order of columns says nothing.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.offsets import NO_OFFSET
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.replay.difference import Row
from ottla.pipelines.replay.replayed import ReplayError
from ottla.pipelines.topic_range import edges, read_range

if TYPE_CHECKING:
    from ottla.pipelines.spec.model import TableSink

_BATCH_ROWS = 8_192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_CYCLE_DAYS = 146_097
"""Of 400 years, after which the calendar repeats."""
_BEFORE_1970_DAYS = 719_162
"""From the first day of the year 1 on."""


async def cut_partitions(consumer: Consumer, topic: str, *, since_ms: int | None = None) -> dict[TopicPartition, int]:
    """The start offsets of partitions whose first records were deleted. Partitions with a
    record before `since_ms` are left out: all later records are there. Raises ClientError.
    """
    starts, _ = await edges(consumer, topic)
    cut = {place: start for place, start in starts.items() if start > 0}
    if since_ms is None or not cut:
        return cut
    found = await consumer.list_offsets(dict.fromkeys(cut, since_ms))
    return {place: start for place, start in cut.items() if found[place].offset in (start, NO_OFFSET)}


async def topic_rows(
    consumer: Consumer, topic: str, key: Sequence[str], *, since_ms: int | None = None, until_ms: int | None = None
) -> AsyncIterator[list[Row]]:
    """The committed records of a topic, from a time on and before another one by the time of the record.

    The consumer reads committed records and is of no group. Raises ReplayError where a value has no such key,
    ClientError.
    """
    starts, ends = await edges(consumer, topic)
    if since_ms is not None:
        found = await consumer.list_offsets(dict.fromkeys(starts, since_ms))
        starts = {place: at.offset if at.offset >= 0 else ends[place] for place, at in found.items()}
    async for records in read_range(consumer, starts, ends):
        yield [_row(record, key) for record in records if _is_between(record, since_ms, until_ms)]


def table_rows(sink: "TableSink", path: str, key: Sequence[str]) -> Iterator[list[Row]]:
    """The current rows of the table at `path`. Raises ReplayError, OSError."""
    if not key:
        raise ReplayError(f"sink {sink.name} is a table: say with --key which columns tell its rows apart")
    dataset = _dataset(sink, path)
    missing = [name for name in key if name not in dataset.schema.names]
    if missing:
        raise ReplayError(f"{path} has no column {missing[0]}: it has {', '.join(dataset.schema.names)}")
    for batch in dataset.to_batches(batch_size=_BATCH_ROWS):
        columns = [_values(batch.column(name)) for name in batch.schema.names]
        rows = (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))
        yield [_table_row(row, key) for row in rows]


def _values(column: Any) -> list[Any]:
    """The values of a column. Times go through numbers, as Python knows none after the year 9999."""
    if column.type == _numbered(column.type):
        found: list[Any] = column.to_pylist()
        return found
    return [_timed(value, column.type) for value in column.cast(_numbered(column.type)).to_pylist()]


def _numbered(kind: Any) -> Any:
    """A type with numbers in place of dates and times, at any depth."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(kind) or types.is_date64(kind) or types.is_duration(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_struct(kind):
        return pa.struct(
            [kind.field(number).with_type(_numbered(kind.field(number).type)) for number in range(len(kind))]
        )
    if types.is_map(kind):
        return pa.map_(_numbered(kind.key_type), kind.item_field.with_type(_numbered(kind.item_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_numbered(kind.value_type)))
    return pa.list_(kind.value_field.with_type(_numbered(kind.value_type))) if types.is_list(kind) else kind


def _timed(value: Any, kind: Any) -> Any:
    """The value with texts in place of those numbers: ISO 8601, in UTC, the year with as many digits as it needs."""
    import pyarrow as pa

    types = pa.types
    if value is None:
        return None
    if types.is_timestamp(kind):
        return _time_text(value, kind.unit) + ("" if kind.tz is None else "+00:00")
    if types.is_date32(kind):
        return _date_text(value)
    if types.is_struct(kind):
        return {field.name: _timed(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        return [(_timed(key, kind.key_type), _timed(item, kind.item_type)) for key, item in value]
    if types.is_list(kind) or types.is_large_list(kind):
        return [_timed(each, kind.value_type) for each in value]
    return value


def _time_text(value: int, unit: str) -> str:
    """Of a number of units since 1970.

    >>> [_time_text(value, "s") for value in (0, 253_402_300_800, -62_135_596_801)]
    ['1970-01-01T00:00:00', '10000-01-01T00:00:00', '0000-12-31T23:59:59']
    """
    value_us = value // 1000 if unit == "ns" else value * {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    days, within_us = divmod(value_us, _DAY_US)
    return f"{_date_text(days)}T{(_EPOCH + timedelta(microseconds=within_us)).time().isoformat()}"


def _date_text(days: int) -> str:
    """Of a number of days since 1970."""
    cycles, within = divmod(days + _BEFORE_1970_DAYS, _CYCLE_DAYS)
    found = date.fromordinal(within + 1)
    return f"{found.year + 400 * cycles:04d}-{found.month:02d}-{found.day:02d}"


def _dataset(sink: "TableSink", path: str) -> Any:
    import pyarrow.dataset as ds

    if sink.format == "delta":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(path).to_pyarrow_dataset()
        except TableNotFoundError:
            raise ReplayError(f"{path}: there is no table here") from None
    from ottla.pipelines.tables.parquet_table import ParquetTable
    from ottla.pipelines.tables.table_sink import TableError

    try:
        files = ParquetTable.open(path).files()
    except TableError as error:
        raise ReplayError(str(error)) from error
    return ds.dataset([str(each) for each in files], format="parquet", partitioning="hive")


def _is_between(record: ConsumerRecord, since_ms: int | None, until_ms: int | None) -> bool:
    """By the record's own time: what lies behind an older record is behind the offset of a time, too."""
    at = record.timestamp_ms
    return (since_ms is None or at >= since_ms) and (until_ms is None or at < until_ms)


def _row(record: ConsumerRecord, key: Sequence[str]) -> Row:
    if not key:
        return record.key, record.value
    place = f"{TopicPartition(record.topic, record.partition)}@{record.offset}"
    if record.value is None:
        raise ReplayError(f"{place}: a tombstone has no value, which --key takes its columns from: leave it out")
    try:
        columns = json.loads(record.value)
    except ValueError:
        columns = None
    if not isinstance(columns, dict):
        raise ReplayError(f"{place}: the value is not a JSON object, which --key takes its columns from")
    missing = [name for name in key if name not in columns]
    if missing:
        # Spark leaves out what is null.
        columns |= dict.fromkeys(missing)
    return _json({name: columns[name] for name in key}), _json(columns)


def _table_row(row: Mapping[str, Any], key: Sequence[str]) -> Row:
    return _json({name: row[name] for name in key}), _json(row)


def _json(columns: Mapping[str, Any]) -> bytes:
    return json.dumps(columns, sort_keys=True, ensure_ascii=False, default=_plain).encode()


def _plain(value: object) -> object:
    """What JSON has no type for, as text that is equal for equal values."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)
