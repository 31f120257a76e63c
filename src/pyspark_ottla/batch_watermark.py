"""The watermark by which Spark calls rows late, as a column: within a query Spark has no expression for it.

Rows of micro-batch N are late by the watermark at the start of micro-batch N-1. Spark writes it into the checkpoint
before either begins. So a micro-batch that runs again finds the same late rows.

```
 offsets/7      {"batchWatermarkMs": 1370080800000, ...}
 micro-batch 8  rows up to 2013-06-01T10:00:00Z are late
```
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

BATCH: Final = "streaming.sql.batchId"
"""The local property in which Spark keeps the number of the micro-batch."""


def watermark_ms(spark: "SparkSession", checkpoint: str) -> "Column":
    """Milliseconds since 1970, 0 before there is one; read by one task for each micro-batch.

    `checkpoint` is a directory that all tasks can read.
    """
    return spark.range(1, numPartitions=1).mapInArrow(_Read(checkpoint), "watermark bigint").scalar()


def last_watermark_ms(checkpoint: Path, batch: int) -> int:
    """The watermark of micro-batch `batch`, ms since 1970: earlier rows are late. Raises OSError, ValueError."""
    if batch == 0:
        return 0
    file = checkpoint / "offsets" / str(batch - 1)
    lines = file.read_text().splitlines()
    try:
        return int(json.loads(lines[1])["batchWatermarkMs"])
    except (ValueError, IndexError, KeyError, TypeError):
        raise ValueError(f"{file} holds no watermark: this version of Spark writes it in another form") from None


class _Read:
    """What the task calls."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        for _ in batches:
            pass
        context = TaskContext.get()
        number = None if context is None else context.getLocalProperty(BATCH)
        if number is None:
            raise ValueError(f"Spark does not say {BATCH}")
        found = last_watermark_ms(Path(self._checkpoint), int(number))
        yield pa.RecordBatch.from_arrays([pa.array([found], pa.int64())], ["watermark"])
