"""One task's part of an exactly-once batch, on an executor."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.blocking import BlockingClient
from ottla.client.errors import BrokerError, ClientError
from ottla.model.error_code import ErrorCode
from pyspark_ottla.delivery import Delivery, Refused
from pyspark_ottla.options import OptionError
from pyspark_ottla.sink_commit import Skipped, TransactionPart
from pyspark_ottla.sink_lease import Lease
from pyspark_ottla.sink_ledger import Attempt, Closing, SinkLedger
from pyspark_ottla.write_columns import WriteColumns
from pyspark_ottla.write_options import WriteOptions

_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch of the task, in one run of a query. `query_id` is None for a batch write."""

    query_id: str | None
    batch_id: int
    run: str


@dataclass(frozen=True, slots=True)
class TransactionTask:
    """Writes rows with the producer of the lease. They are visible once the driver commits."""

    options: WriteOptions
    columns: WriteColumns
    lease: Lease
    batch: Batch
    index: int
    attempt: str
    """A name that is unique to this attempt."""
    step: Callable[[str], None] = lambda _: None
    """Called with the next step; tests stop a task there."""

    def write(self, client: BlockingClient, rows: Iterator[Any]) -> WriterCommitMessage:
        """All rows, appended when this returns.

        What goes wrong before the first record raises, and Spark may try the task again. Afterwards nothing of the
        batch can be kept: the driver is told why, and aborts it.
        """
        refusal = refusal_of(self.lease, self.batch)
        if refusal is not None:
            return Refused(refusal)
        if is_committed(self.lease, self.batch):
            for _ in rows:
                pass
            return Skipped(is_committed=True)
        first = next((each for each in rows if each.num_rows), None)
        if first is None:
            return Skipped()
        identity = self.lease.identity
        attempt = Attempt(identity.producer_id, identity.epoch, self.index, self.attempt)
        self.step("announce")
        refusal = self._announce(SinkLedger(client, self.lease.transactional_id), attempt)
        if refusal is not None:
            return Refused(refusal)
        self.step("produce")
        try:
            return self._deliver(client, attempt, chain([first], rows))
        except (OptionError, ValueError) as error:
            return Refused(str(error))
        except ClientError as error:
            return Refused(_reason(error, self.lease))

    def _deliver(self, client: BlockingClient, attempt: Attempt, rows: Iterable[Any]) -> TransactionPart:
        lease, batch = self.lease, self.batch
        producer = client.producer(transactional_id=lease.transactional_id, identity=lease.identity)
        # A task has one partition for rows without a key, as no other may write there; the next batch has another.
        delivery = Delivery(client, producer, self.options, self.columns, unkeyed=self.index + batch.batch_id)
        try:
            records = delivery.send(rows)
        except BaseException:
            producer.abandon()
            raise
        self.step("produced")
        return TransactionPart(
            lease, batch.query_id, batch.batch_id, batch.run, attempt, records, producer.last_sequences
        )

    def _announce(self, ledger: SinkLedger, attempt: Attempt) -> str | None:
        """Say that this attempt is about to write; why it must not, if so."""
        offset = ledger.append(attempt)
        for each in ledger.attempts(self.lease.ledger_end, offset):
            if (each.producer_id, each.producer_epoch) != self.lease.identity[:2]:
                continue
            if isinstance(each, Closing):
                return "an attempt at a task came after its batch had been closed"
            if each.task == self.index:
                return (
                    f"Spark tried task {self.index} again after an attempt that may have written: the batch is aborted,"
                    " and written again when the query is started again. (spark.speculation must be off.)"
                )
        return None


def is_committed(lease: Lease, batch: Batch) -> bool:
    """Whether this batch, or a later one of its query, is committed already."""
    state = lease.state
    return state is not None and state.query_id == batch.query_id is not None and state.batch_id >= batch.batch_id


def refusal_of(lease: Lease, batch: Batch) -> str | None:
    """Why this batch must not be written with this transactional id, if so."""
    state = lease.state
    if state is None or state.query_id is None:
        return None
    if state.query_id != batch.query_id:
        return (
            f"transactionalId {lease.transactional_id!r} is that of query {state.query_id}, which committed batch "
            f"{state.batch_id}, and this is {f'query {batch.query_id}' if batch.query_id else 'a write on its own'}: "
            "go on with that query's checkpoint, or choose another transactionalId"
        )
    if state.batch_id == batch.batch_id and state.run == batch.run:
        return (
            f"batch {batch.batch_id} was already written with transactionalId {lease.transactional_id!r} in this run: "
            "each write of a batch needs a transactionalId of its own"
        )
    return None


def _reason(error: ClientError, lease: Lease) -> str:
    code = error.code if isinstance(error, BrokerError) else None
    if code in _FENCED:
        return (
            f"fenced: another driver took over transactionalId {lease.transactional_id!r}, or the batch took longer"
            f" than kafka.transaction.timeout.ms: nothing of it was committed ({error})"
        )
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return (
            f"two tasks wrote to one partition, and in one transaction a partition is one task's: write "
            f"frame.coalesce(1), or pyspark_ottla.by_partition(frame, ...) ({error})"
        )
    return str(error)
