"""`df.write.format("ottla")` and `df.writeStream.format("ottla")`."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_ottla.clients import client_for
from pyspark_ottla.delivery import Delivered, Delivery
from pyspark_ottla.write_columns import WriteColumns
from pyspark_ottla.write_options import WriteOptions

logger = logging.getLogger("pyspark_ottla")


class OttlaWriter(DataSourceArrowWriter):
    """Writes the rows of a batch. What a job that fails had written before stays: a log cannot take records back."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> Delivered:
        """One task's rows, on an executor; returns when all are acknowledged."""
        return Delivery(client_for(self._options.connection), self._options, self._columns).send(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every row is in the log already."""
        logger.info("wrote %d records", _total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Some task failed."""
        logger.warning("the write failed after %d records, which stay written", _total(messages))


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch: at least once, as Spark repeats a micro-batch that did not end."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> Delivered:
        """One task's rows, on an executor; returns when all are acknowledged."""
        return Delivery(client_for(self._options.connection), self._options, self._columns).send(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Every row is in the log already."""
        logger.info("micro-batch %d: wrote %d records", batchId, _total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Some task failed; Spark will try the micro-batch again."""
        logger.warning("micro-batch %d failed after %d records, which stay written", batchId, _total(messages))


def _total(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.records for message in messages if isinstance(message, Delivered))
