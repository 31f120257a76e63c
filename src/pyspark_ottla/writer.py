"""`df.write.format("ottla")` and `df.writeStream.format("ottla")`.

```
 driver, for every batch      executors                          driver
 __getstate__: plan  -------> write, in each task  ------------> commit, or abort
 the topic exists;            at least once: appended            nothing is left to do
 exactly once: the lease      exactly once: in the transaction   the transaction is committed with the batch's number
```

Spark creates a new writer for each of them, and pickles the planned one for the tasks.
"""

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.errors import ClientError
from pyspark_ottla.clients import client_for, ledger_for, producer_for
from pyspark_ottla.delivery import Delivered, Delivery, Refused, partition_count
from pyspark_ottla.options import OptionError
from pyspark_ottla.plain_errors import plain_errors
from pyspark_ottla.sink_commit import Skipped, TransactionPart, abort, commit
from pyspark_ottla.sink_lease import Lease, take_lease
from pyspark_ottla.sink_ledger import SinkLedger
from pyspark_ottla.sink_task import Batch, TransactionTask
from pyspark_ottla.spark_process import SparkTask, driver_id, new_name
from pyspark_ottla.worker_heap import leave_modules_alone
from pyspark_ottla.worker_socket import send_and_acknowledge_at_once
from pyspark_ottla.write_columns import WriteColumns
from pyspark_ottla.write_options import Mode, WriteOptions

logger = logging.getLogger("pyspark_ottla")


class PlanError(OptionError, pickle.PickleError):
    """A write that cannot succeed, found before any task started.

    Spark pickles what is planned, and passes on only such errors as they are.
    """


@dataclass(frozen=True, slots=True)
class Plan:
    """What the driver looked up for the tasks of a batch."""

    run: str
    """Names this plan, for a write that Spark does not name."""
    lease: Lease | None


def plan(options: WriteOptions, driver: str) -> Plan:
    """Look up the topic and take the lease. Raises OptionError and ClientError."""
    client = client_for(options.connection)
    if options.topic is not None:
        partition_count(client, options.topic)
    if options.mode is Mode.AT_LEAST_ONCE:
        return Plan(new_name(), None)
    assert options.transactional_id is not None
    transactions = client.transactions(options.transactional_id)
    with ledger_for(options.connection, options.transactional_id) as ledger:
        return Plan(new_name(), take_lease(ledger, transactions, driver, options.transaction_timeout_ms))


class _Writer:
    """What both writers share: planning, the rows of a task, and the end."""

    def __init__(
        self,
        options: WriteOptions,
        columns: WriteColumns,
        *,
        driver: Callable[[], str] = driver_id,
        task: Callable[[], SparkTask] = SparkTask.current,
        step: Callable[[str], None] | None = None,
    ) -> None:
        self._options = options
        self._columns = columns
        self._plan: Plan | None = None
        self._driver, self._task, self._step = driver, task, step

    @plain_errors()
    def __getstate__(self) -> dict[str, Any]:
        """What the tasks get; Spark asks more than once."""
        if self._plan is None:
            leave_modules_alone("plan")
            try:
                self._plan = plan(self._options, self._driver())
            except (OptionError, ClientError) as error:
                raise PlanError(str(error)) from error
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy for a task, as its worker unpickles it."""
        send_and_acknowledge_at_once()
        self.__dict__.update(state)

    def _write(self, rows: Iterator[Any], *, streaming: bool) -> WriterCommitMessage:
        leave_modules_alone("write")
        options = self._options
        client = client_for(options.connection)
        if options.mode is Mode.EXACTLY_ONCE:
            task = self._task()
            assert self._plan is not None
            assert self._plan.lease is not None
            batch = self._batch(task, self._plan, streaming=streaming)
            part = TransactionTask(options, self._columns, self._plan.lease, batch, task.index, task.attempt)
            if self._step is not None:
                part = replace(part, step=self._step)
            return part.write(client, rows)
        producer = producer_for(options.connection)
        try:
            return Delivered(Delivery(client, producer, options, self._columns).send(rows))
        except (OptionError, ValueError) as error:
            producer.abandon()
            return Refused(str(error))
        except BaseException:
            producer.abandon()
            raise

    def _batch(self, task: SparkTask, plan: Plan, *, streaming: bool) -> Batch:
        run = task.run or plan.run
        if self._options.batch is not None:
            return Batch(self._options.batch.query_id, self._options.batch.batch_id, run)
        if not streaming:
            return Batch(None, 0, run)
        if task.query_id is None or task.batch_id is None:
            raise OptionError("Spark does not say which batch this is: mode=exactly-once needs that")
        return Batch(task.query_id, task.batch_id, run)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        leave_modules_alone("commit")
        send_and_acknowledge_at_once()
        refusals = [each.reason for each in messages if isinstance(each, Refused)]
        if refusals:
            self._abort(messages)
            raise OptionError(refusals[0])
        parts = [each for each in messages if isinstance(each, TransactionPart)]
        if parts:
            assert batch_id is None or parts[0].batch_id == batch_id
            lease, client = parts[0].lease, client_for(self._options.connection)
            producer = client.producer(transactional_id=lease.transactional_id, identity=lease.identity)
            ledger = SinkLedger(client, lease.transactional_id)
            commit(messages, ledger, client.transactions(lease.transactional_id), producer)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for part in messages:
            if isinstance(part, TransactionPart):
                client = client_for(self._options.connection)
                abort(messages, client.transactions(part.lease.transactional_id))
                return

    @property
    def _kept(self) -> str:
        return ", which stay written" if self._options.mode is Mode.AT_LEAST_ONCE else ""


class OttlaWriter(_Writer, DataSourceArrowWriter):
    """Writes the rows of a batch: at least once, where what a failed job had written stays, or all of them or none."""

    @plain_errors()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """One task's rows, on an executor; returns when all are acknowledged."""
        return self._write(iterator, streaming=False)

    @plain_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task has ended well, as far as Spark knows."""
        self._commit(messages, None)
        logger.info("wrote %d records%s", _total(messages), _skipped(messages))

    @plain_errors()
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort: a task failed."""
        self._abort(messages)
        logger.warning("the write failed after %d records%s", _total(messages), self._kept)


class OttlaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch: at least once, as Spark repeats one that did not end, or exactly once."""

    @plain_errors()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """One task's rows, on an executor; returns when all are acknowledged."""
        return self._write(iterator, streaming=True)

    @plain_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Every task has ended well, as far as Spark knows."""
        self._commit(messages, batchId)
        logger.info("micro-batch %d: wrote %d records%s", batchId, _total(messages), _skipped(messages))

    @plain_errors()
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Some task failed, or the commit did; Spark will try the micro-batch again when the query is started again."""
        self._abort(messages)
        logger.warning("micro-batch %d failed after %d records%s", batchId, _total(messages), self._kept)


def _total(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(each.records for each in messages if isinstance(each, Delivered | TransactionPart))


def _skipped(messages: Sequence[WriterCommitMessage | None]) -> str:
    committed = any(isinstance(each, Skipped) and each.is_committed for each in messages)
    return ": it was committed before" if committed else ""
