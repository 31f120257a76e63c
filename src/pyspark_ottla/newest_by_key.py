"""A compacted topic as a table: the newest record of each key, without deleted keys.

The result equals that of a compaction, whether it has run or not:

```
 key  a  b  a  c  b        ──►  a  c
 value 1  2  3  4  null         3  4
```
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark_ottla.batch_reader import OttlaReader, read_task
from pyspark_ottla.offset_range import TaskRanges
from pyspark_ottla.plain_errors import plain_errors
from pyspark_ottla.read_options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUPERSEDED_MAX: Final = 100_000
"""The number of superseded rows, beside one per key, that are held in memory before they are dropped."""


def table(spark: "SparkSession", options: Mapping[str, str]) -> "DataFrame":
    """The newest record of each key, read by one task whenever it is evaluated; the columns are those of a batch read.

    A query that uses it twice evaluates it once, where Spark exchanges rows: two reads through the data source are two
    things to Spark, and so is all that is made of them.
    """
    from pyspark_ottla.source import OttlaDataSource

    return spark.range(1, numPartitions=1).mapInArrow(_Read(options), OttlaDataSource({**options}).schema())


class _Read:
    """What the task calls."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**options}

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        with plain_errors():
            options = ReadOptions.of(self._options, streaming=False)
            tasks = OttlaReader(options).partitions()
        ranges = [each for task in tasks if isinstance(task, TaskRanges) for each in task.ranges]
        # In the order of the offsets, as a partition may have been dealt out to several tasks.
        records = read_task(options, TaskRanges(sorted(ranges)))
        yield from NewestByKey(options.fetch.batch_rows).newest(records)


class NewestByKey:
    """Finds the newest row of each key in record batches that are added partition by partition, in order of offsets.

    In a partition that is the last of a key; where a key lies in several, as after partitions were added, the last in
    time, then by offset. Rows without a key count for nothing.
    """

    def __init__(self, batch_rows: int) -> None:
        self._batch_rows = batch_rows
        self._table: Any = None
        self._pending: list[Any] = []
        self._pending_rows = 0

    def newest(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The newest rows, as record batches of the same schema."""
        for batch in batches:
            self._pending.append(batch)
            self._pending_rows += batch.num_rows
            if self._pending_rows > SUPERSEDED_MAX + (0 if self._table is None else self._table.num_rows):
                self._supersede()
        self._supersede()
        if self._table is not None:
            chosen = self._table.take(self._across_partitions())
            yield from chosen.combine_chunks().to_batches(max_chunksize=self._batch_rows)

    def _supersede(self) -> None:
        """Keep of each key and partition the last row alone."""
        import pyarrow as pa

        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending)
        table = rows if self._table is None else pa.concat_tables([self._table, rows])
        places = zip(table["key"].to_pylist(), table["partition"].to_pylist(), table["topic"].to_pylist(), strict=True)
        last = {place: index for index, place in enumerate(places) if place[0] is not None}
        self._table, self._pending, self._pending_rows = table.take(sorted(last.values())), [], 0

    def _across_partitions(self) -> list[int]:
        table = self._table
        times = table["timestamp"].cast("int64").to_pylist()
        order = zip(times, table["offset"].to_pylist(), range(table.num_rows), strict=True)
        newest: dict[bytes, tuple[int, int, int]] = {}
        for key, place in zip(table["key"].to_pylist(), order, strict=True):
            if key not in newest or place > newest[key]:
                newest[key] = place
        has_value = table["value"].is_valid().to_pylist()
        return sorted(index for _, _, index in newest.values() if has_value[index])
