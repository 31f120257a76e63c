"""Commits or aborts an exactly-once batch, on the driver, from the reports of its tasks and the state of the brokers.

Nothing is committed if the two differ. The table lists what a transaction must not contain, and how it is detected:

| | |
|---|---|
| two tasks that wrote to one partition | both say so |
| rows of an attempt that Spark gave up | it announced itself in the ledger before its first record |
| rows of an attempt that announces itself later | it finds that the driver had begun to close, and writes nothing |
| rows that a task knows nothing of, or that are missing | the leaders' last numbers differ from the tasks' |
| a partition that no task speaks of | the coordinator lists it |
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.admin.transaction_admin import TransactionDescription
from ottla.client.errors import BrokerError, ClientError, ProducerFencedError
from ottla.client.producing.blocking_transactions import Written
from ottla.client.producing.producer_batch import Identity
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.delivery import BatchProducer
from pyspark_ottla.options import OptionError
from pyspark_ottla.sink_lease import Lease, SupersededError
from pyspark_ottla.sink_ledger import PARTITION, Attempt, Closing, SinkLedger, State

logger = logging.getLogger("pyspark_ottla")


@dataclass(frozen=True, slots=True)
class TransactionPart(WriterCommitMessage):
    """What one task wrote into the transaction of its batch."""

    lease: Lease
    query_id: str | None
    batch_id: int
    run: str
    attempt: Attempt
    records: int
    last_sequences: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped(WriterCommitMessage):
    """A task wrote nothing: it has no rows, or its batch is committed already."""

    is_committed: bool = False


class UncommittableError(OptionError):
    """The batch must not be committed; it is aborted, and written again when the query is started again."""


class TransactionEnd(Protocol):
    """The requests to coordinator and leaders, such as `BlockingTransactions`."""

    def describe(self) -> TransactionDescription | None:
        """The transaction as the coordinator knows it."""
        ...

    def written(self, partitions: Any, producer_id: int) -> dict[TopicPartition, Written]:
        """The state of the producer on the leaders of these partitions."""
        ...

    def end(self, identity: Identity, *, commit: bool) -> None:
        """Commit or abort the transaction. Returns when the outcome is known."""
        ...


def commit(
    messages: Sequence[WriterCommitMessage | None],
    ledger: SinkLedger,
    transactions: TransactionEnd,
    producer: BatchProducer,
) -> State:
    """Commit what the tasks wrote, with the batch's number. Raises UncommittableError, and SupersededError.

    `producer` writes to the same transaction. The transaction is aborted when it cannot be committed.
    """
    parts = [each for each in messages if isinstance(each, TransactionPart)]
    first = parts[0]
    try:
        _check_messages(messages, parts)
        _check_attempts(parts, ledger)
        _check_brokers(parts, transactions)
        records = sum(part.records for part in parts)
        identity = first.lease.identity
        state = State(first.query_id, first.batch_id, first.run, records, identity.producer_id, identity.epoch)
        producer.send(PARTITION, ledger.state_batch(state))
        producer.flush()
    except BaseException:
        abort(parts, transactions)
        raise
    try:
        transactions.end(identity, commit=True)
    except (BrokerError, ClientError) as error:
        # Perhaps the answer to an earlier request was lost, and another driver took over since.
        if ledger.read().state == state:
            return state
        if isinstance(error, ProducerFencedError):
            raise SupersededError(first.lease.transactional_id) from error
        raise
    return state


def abort(messages: Sequence[WriterCommitMessage | None], transactions: TransactionEnd) -> None:
    """Abort the transaction of the tasks, unless it is committed already."""
    identities = {part.lease.identity for part in messages if isinstance(part, TransactionPart)}
    for identity in identities:
        try:
            transactions.end(identity, commit=False)
        except (BrokerError, ClientError) as error:
            logger.info("no transaction to abort: %s", error)


def _check_messages(messages: Sequence[WriterCommitMessage | None], parts: Sequence[TransactionPart]) -> None:
    names = {(part.lease.identity, part.query_id, part.batch_id, part.run) for part in parts}
    if len(names) > 1:
        raise UncommittableError("the tasks of this batch wrote to different transactions: its transaction timed out")
    if any(isinstance(each, Skipped) and each.is_committed for each in messages):
        raise UncommittableError("some tasks of this batch found it committed, and others did not")
    writers: dict[TopicPartition, int] = {}
    for part in parts:
        for topic_partition in part.last_sequences:
            other = writers.setdefault(topic_partition, part.attempt.task)
            if other != part.attempt.task:
                raise UncommittableError(
                    f"tasks {other} and {part.attempt.task} both wrote to {topic_partition}, and in one transaction a "
                    "partition is one task's: write frame.coalesce(1), or pyspark_ottla.by_partition(frame, ...)"
                )


def _check_attempts(parts: Sequence[TransactionPart], ledger: SinkLedger) -> None:
    """Close the transaction to further attempts, and count those that there were."""
    identity = parts[0].lease.identity
    of_transaction = (identity.producer_id, identity.epoch)
    end = ledger.append(Closing(*of_transaction))
    announced = {
        each
        for each in ledger.attempts(parts[0].lease.ledger_end, end)
        if isinstance(each, Attempt) and (each.producer_id, each.producer_epoch) == of_transaction
    }
    successful = {part.attempt for part in parts}
    if announced != successful:
        tasks = sorted({each.task for each in announced - successful})
        raise UncommittableError(
            f"Spark tried task {', '.join(map(str, tasks))} of this batch again, after an attempt that may have "
            "written: the batch is aborted, and written again when the query is started again"
        )


def _check_brokers(parts: Sequence[TransactionPart], transactions: TransactionEnd) -> None:
    lease = parts[0].lease
    identity = lease.identity
    expected = {
        topic_partition: Written(identity.epoch, sequence)
        for part in parts
        for topic_partition, sequence in part.last_sequences.items()
    }
    described = transactions.describe()
    if described is None or (described.producer_id, described.producer_epoch) != identity[:2]:
        raise SupersededError(lease.transactional_id)
    written = transactions.written(expected, identity.producer_id)
    different = [each for each in expected if written.get(each) != expected[each]]
    different += [each for each in described.partitions if each not in expected]
    if different or set(described.partitions) != set(expected):
        named = ", ".join(map(str, sorted(different)[:5])) or "some partitions"
        raise UncommittableError(
            f"what the brokers have of this batch is not what its tasks wrote, in {named}: it is aborted, and written "
            "again when the query is started again"
        )
