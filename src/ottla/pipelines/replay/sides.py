"""The rows of a sink's output, of production or of a replay, as keys and values that can be compared.

The key of a record of a topic is its own, or columns of its JSON value; that of a row of a table is columns. Keys and
values made of columns are JSON with sorted names, so that the order of columns says nothing.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ottla.client.consumer import Consumer
from ottla.client.consumer_record import ConsumerRecord
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.replay.difference import Row
from ottla.pipelines.replay.replayed import ReplayError
from ottla.pipelines.topic_range import edges, read_range

if TYPE_CHECKING:
    from ottla.pipelines.spec.model import TableSink

_BATCH_ROWS = 8_192


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
    """The rows of a table as it is now. `path` is where it lies. Raises ReplayError, OSError."""
    if not key:
        raise ReplayError(f"sink {sink.name} is a table: say with --key which columns tell its rows apart")
    dataset = _dataset(sink, path)
    missing = [name for name in key if name not in dataset.schema.names]
    if missing:
        raise ReplayError(f"{path} has no column {missing[0]}: it has {', '.join(dataset.schema.names)}")
    for batch in dataset.to_batches(batch_size=_BATCH_ROWS):
        yield [_table_row(row, key) for row in batch.to_pylist()]


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
