"""The transactions of one partition of `__transaction_state`: the state machine that the runtime drives."""

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct, field

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.transactions import record_format, transaction_config
from ottla.transactions.answers import AddAnswer, DescribeTransactionAnswer, EndAnswer, InitAnswer
from ottla.transactions.ending import check_end
from ottla.transactions.messages import WriteMarkers
from ottla.transactions.records import TransactionRecord
from ottla.transactions.requests import AddPartitions, EndTransaction, InitProducer
from ottla.transactions.timers import ExpiryTimer, LoadedTimer, MarkerTimer, TimedOutTimer
from ottla.transactions.transaction import EPOCH_BUMP_VERSION, EPOCH_MAX, NO_EPOCH, NO_PRODUCER_ID, Transaction
from ottla.transactions.transaction_config import TransactionConfig
from ottla.transactions.transaction_state import IDLE, PREPARED, TransactionState

logger = logging.getLogger(__name__)

SLICE_ITEMS_MAX: Final = 250
"""Transactions looked at in one turn of the loop: 1 to 3 ms when all of them change."""

SLICE_INTERVAL_MS: Final = 1
"""From one slice to the next: what came meanwhile goes first."""

MARKER_RETRY_MS_MIN: Final = 20
MARKER_RETRY_MS_MAX: Final = 1_000
"""Markers that could not be written are tried again after these times, doubling from one to the other."""

PARKED_MAX: Final = 64
"""Requests that wait for the markers of the transaction before theirs; a producer has a few in flight."""

NO_TIMEOUT_MS: Final = 2**31 - 1
"""The time-out of transactions that are decided elsewhere (KIP-939). Their producers get none here, but a log that
Apache Kafka wrote may have them.
"""

_NOTHING_OPEN: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_VERSION})
"""After these answers nothing of the transaction is open in the partition. That a later epoch of its producer has been
there says so too: no epoch is given out before the transaction of the one before it is complete everywhere.
"""


class _Writing(Struct):
    """Markers on their way: in memory only, they are all written again after a load."""

    marker: TransactionMarker
    left: set[TopicPartition]
    retry_ms: int = MARKER_RETRY_MS_MIN
    parked: list[tuple[AddPartitions, Waiter]] = field(default_factory=list)
    """Who wants to begin the next transaction, and waits for this one to be complete."""


class TransactionShard:
    """Transactional ids and what may be asked of them. Pure: see `CoordinatorShard`.

    Transactions change by replay alone. Once the record that decides one is committed, its markers are sent to its
    partitions, again and again until each of them has it or is gone; then the record that completes it is written.
    """

    __slots__ = (
        "_cluster_version",
        "_config",
        "_coordinator_epoch",
        "_expiry_walk",
        "_has_partition",
        "_loaded_walk",
        "_ongoing",
        "_open_partitions",
        "_timed_out_walk",
        "_transactions",
        "_walk_count",
        "_writing",
    )

    def __init__(
        self,
        config: TransactionConfig,
        *,
        coordinator_epoch: int,
        cluster_version: Callable[[], int],
        has_partition: Callable[[TopicPartition], bool],
    ) -> None:
        """`coordinator_epoch` is the leader epoch of the shard's partition, `cluster_version` gives the finalized
        level of `transaction.version`, `has_partition` says whether there is such a partition in the cluster now.
        """
        self._config = config
        self._coordinator_epoch = coordinator_epoch
        self._cluster_version = cluster_version
        self._has_partition = has_partition
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, int] = {}
        """What goes on, and after how many walks through it that began, or was loaded."""
        self._walk_count = 0
        self._open_partitions = 0
        self._writing: dict[str, _Writing] = {}
        self._loaded_walk: Iterator[str] = iter(())
        self._timed_out_walk: Iterator[str] | None = None
        self._expiry_walk: Iterator[str] | None = None

    def transactions(self) -> Iterator[tuple[str, Transaction]]:
        """The transactional ids and their transactions, to look at."""
        return iter(self._transactions.items())

    # Records

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        """The key and value of a record, in Kafka's format."""
        return record_format.encode(record, min(self._cluster_version(), record_format.FLEXIBLE_VERSION))

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        """The record of a key and value; None for kinds that are not known."""
        return record_format.decode(key, value)

    def replay(self, record: TransactionRecord) -> None:
        """Apply a record."""
        transactional_id, transaction = record.transactional_id, record.transaction
        before = self._transactions.get(transactional_id)
        if before is not None:
            self._open_partitions -= before.partition_count
        if transaction is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = transaction
            self._open_partitions += transaction.partition_count
        if transaction is not None and transaction.state is TransactionState.ONGOING:
            self._ongoing.setdefault(transactional_id, self._walk_count)
        else:
            self._ongoing.pop(transactional_id, None)

    def replay_transactional(self, record: TransactionRecord, producer_id: int) -> None:
        """What coordinators say of transactions is never part of one: pass over what came into the log all the same."""

    def replay_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """A marker, which whoever may write markers has put here: nothing ends with it."""

    # The life of the shard

    def handle_loaded(self, now_ms: int) -> Outcome:
        """Begin to serve: finish what is decided."""
        outcome = Outcome()
        outcome.set_timer(TimedOutTimer(), self._config.abort_timed_out_interval_ms)
        outcome.set_timer(ExpiryTimer(), self._config.remove_expired_interval_ms)
        self._loaded_walk = iter([key for key, each in self._transactions.items() if each.state in PREPARED])
        self._finish_loaded(outcome, now_ms)
        return outcome

    def handle_unloaded(self) -> Outcome:
        """Another broker coordinates these transactions now: have everybody who waits find it."""
        outcome = Outcome()
        for writing in self._writing.values():
            for _, waiter in writing.parked:
                outcome.answer(waiter, AddAnswer(ErrorCode.NOT_COORDINATOR))
        return outcome

    def handle_timer(self, now_ms: int, key: Hashable) -> Outcome:
        """A timer is due."""
        outcome = Outcome()
        if isinstance(key, MarkerTimer):
            self._write_again(outcome, key.transactional_id, now_ms)
        elif isinstance(key, TimedOutTimer):
            self._abort_timed_out(outcome, now_ms)
        elif isinstance(key, ExpiryTimer):
            self._forget_expired(outcome, now_ms)
        else:
            assert isinstance(key, LoadedTimer)
            self._finish_loaded(outcome, now_ms)
        return outcome

    # Producers

    def handle_init(self, now_ms: int, request: InitProducer, waiter: Waiter) -> Outcome:
        """InitProducerId of a transactional id; answers with an InitAnswer.

        A transaction that is going on is aborted, whoever began it; the producer asks again until that is done.
        """
        outcome = Outcome()
        transactional_id, expected = request.transactional_id, request.expected
        before = self._transactions.get(transactional_id)
        if before is None and len(self._transactions) >= transaction_config.IDS_PER_SHARD_MAX:
            outcome.answer(waiter, InitAnswer(ErrorCode.POLICY_VIOLATION))
        elif before is not None and expected is not None and not _may_follow(before, expected):
            outcome.answer(waiter, InitAnswer(ErrorCode.PRODUCER_FENCED))
        elif before is not None and before.state in PREPARED:
            outcome.answer(waiter, InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif before is not None and before.state is TransactionState.ONGOING:
            if expected is not None and expected != before.producer:
                # Not to be aborted by a request of an earlier producer that comes late.
                outcome.answer(waiter, InitAnswer(ErrorCode.PRODUCER_FENCED))
            else:
                self._abort(outcome, transactional_id, before, now_ms)
                outcome.answer(waiter, InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif request.new_producer_id == NO_PRODUCER_ID and (before is None or before.is_epoch_exhausted):
            outcome.answer(waiter, InitAnswer(needs_producer_id=True))
        else:
            transaction = before or Transaction(request.new_producer_id, NO_EPOCH, request.timeout_ms, now_ms)
            try:
                after = transaction.initialized(request.timeout_ms, expected, request.new_producer_id, now_ms)
            except ApiError as error:
                outcome.answer(waiter, InitAnswer(error.code))
            else:
                outcome.write(TransactionRecord(transactional_id, after))
                outcome.answer(waiter, InitAnswer(ErrorCode.NONE, after.producer_id, after.producer_epoch))
        return outcome

    def handle_add(self, now_ms: int, request: AddPartitions, waiter: Waiter) -> Outcome:
        """AddPartitionsToTxn, AddOffsetsToTxn, and on behalf of who writes to a partition; answers with an AddAnswer.

        Who begins the next transaction while the markers of the last one are being written waits for them, and so does
        who asks behind that whether a partition takes part.
        """
        outcome = Outcome()
        transaction = self._transactions.get(request.transactional_id)
        writing = self._writing.get(request.transactional_id)
        if (
            transaction is not None
            and writing is not None
            and transaction.is_followed_by(request.producer)
            and (writing.parked or not request.verify_only)
            and writing.retry_ms == MARKER_RETRY_MS_MIN
            and len(writing.parked) < PARKED_MAX
        ):
            writing.parked.append((request, waiter))
        else:
            self._add(outcome, transaction, request, waiter, now_ms)
        return outcome

    def handle_end(self, now_ms: int, request: EndTransaction, waiter: Waiter) -> Outcome:
        """EndTxn; answers with an EndAnswer, once it is decided for good which way the transaction ends."""
        outcome = Outcome()
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            outcome.answer(waiter, EndAnswer(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return outcome
        error = check_end(transaction, request)
        if error is ErrorCode.NONE:
            outcome.answer(waiter, EndAnswer(error, transaction.producer_id, transaction.producer_epoch))
        elif error is not None:
            outcome.answer(waiter, EndAnswer(error))
        elif (
            request.client_version >= EPOCH_BUMP_VERSION
            and transaction.is_epoch_exhausted
            and request.new_producer_id == NO_PRODUCER_ID
        ):
            outcome.answer(waiter, EndAnswer(needs_producer_id=True))
        else:
            prepared = transaction.prepared(
                commit=request.commit,
                client_version=request.client_version,
                next_producer_id=request.new_producer_id,
                now_ms=now_ms,
            )
            after = prepared.completed(now_ms)
            outcome.answer(waiter, EndAnswer(ErrorCode.NONE, after.producer_id, after.producer_epoch))
            self._finish(outcome, request.transactional_id, prepared, now_ms, is_written=False)
        return outcome

    def handle_describe(self, now_ms: int, transactional_id: str, waiter: Waiter) -> Outcome:
        """DescribeTransactions, of one transactional id; answers with a DescribeTransactionAnswer."""
        outcome = Outcome()
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            outcome.answer(waiter, DescribeTransactionAnswer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
        else:
            outcome.answer(
                waiter,
                DescribeTransactionAnswer(
                    state=transaction.state.label,
                    timeout_ms=transaction.timeout_ms,
                    start_ms=transaction.start_ms,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    partitions=transaction.partitions,
                ),
            )
        return outcome

    def handle_markers(
        self,
        now_ms: int,
        message: WriteMarkers,
        errors: Mapping[TopicPartition, ErrorCode],
        waiter: Waiter,
        *,
        may_complete: bool = True,
    ) -> Outcome:
        """What became of markers that were sent; answers with an Answer.

        Without `may_complete` nothing is written: a transaction that is complete is found to be so by its timer.
        """
        outcome = Outcome()
        outcome.answer(waiter, Answer())
        writing = self._writing.get(message.transactional_id)
        if writing is None or writing.marker != message.marker:
            return outcome
        for partition, error in errors.items():
            if error in _NOTHING_OPEN:
                writing.left.discard(partition)
            if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                logger.info(
                    "could not write the marker of %r to %s: %s", message.transactional_id, partition, error.name
                )
        self._go_on(outcome, message.transactional_id, writing, now_ms, may_complete=may_complete)
        return outcome

    # Steps of these

    def _add(
        self, outcome: Outcome, transaction: Transaction | None, request: AddPartitions, waiter: Waiter, now_ms: int
    ) -> Transaction | None:
        """Answer a request to add partitions; returns the transaction as it is then."""
        if transaction is not None and transaction.is_followed_by(request.producer):
            outcome.answer(waiter, AddAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif transaction is None or transaction.producer_id != request.producer.producer_id:
            outcome.answer(waiter, AddAnswer(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        elif transaction.producer_epoch != request.producer.producer_epoch or transaction.producer_epoch == EPOCH_MAX:
            # At the last epoch no marker could be above the records: a partition would never take it.
            outcome.answer(waiter, AddAnswer(ErrorCode.PRODUCER_FENCED))
        elif transaction.state in PREPARED:
            outcome.answer(waiter, AddAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif request.verify_only:
            missing = [each for each in request.partitions if not transaction.has(each)]
            outcome.answer(waiter, AddAnswer(refused=dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE)))
        elif transaction.state is TransactionState.ONGOING and all(map(transaction.has, request.partitions)):
            outcome.answer(waiter, AddAnswer())
        else:
            after = transaction.with_partitions(request.partitions, request.client_version, now_ms)
            if self._is_too_large(transaction, after):
                outcome.answer(waiter, AddAnswer(ErrorCode.TRANSACTION_ABORTABLE))
            else:
                outcome.write(TransactionRecord(request.transactional_id, after))
                outcome.answer(waiter, AddAnswer())
                return after
        return transaction

    def _is_too_large(self, before: Transaction, after: Transaction) -> bool:
        added = after.partition_count - before.partition_count
        return (
            after.partition_count > transaction_config.PARTITIONS_PER_TRANSACTION_MAX
            or self._open_partitions + added > transaction_config.OPEN_PARTITIONS_PER_SHARD_MAX
            or sum(len(topic) + 8 + 4 * len(numbers) for topic, numbers in after.partitions.items())
            > self._config.record_bytes_max
        )

    def _abort(self, outcome: Outcome, transactional_id: str, transaction: Transaction, now_ms: int) -> None:
        """Fence the producer off and abort what it began."""
        fenced = transaction.fenced(cluster_version=self._cluster_version(), now_ms=now_ms)
        self._finish(outcome, transactional_id, fenced, now_ms, is_written=False)

    def _finish(
        self, outcome: Outcome, transactional_id: str, prepared: Transaction, now_ms: int, *, is_written: bool
    ) -> None:
        """Have the outcome of a transaction written to its partitions, once it is decided for good."""
        if not is_written:
            outcome.write(TransactionRecord(transactional_id, prepared))
        marker = TransactionMarker(
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            committed=prepared.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=prepared.client_version,
        )
        left = {partition for partition in prepared.all_partitions() if self._has_partition(partition)}
        if left:
            self._writing[transactional_id] = _Writing(marker, left)
            outcome.send(WriteMarkers(transactional_id, marker, tuple(left)))
        elif is_written:
            self._writing[transactional_id] = _Writing(marker, left)
            outcome.set_timer(MarkerTimer(transactional_id), SLICE_INTERVAL_MS)
        else:
            outcome.write(TransactionRecord(transactional_id, prepared.completed(now_ms)))

    def _go_on(
        self, outcome: Outcome, transactional_id: str, writing: _Writing, now_ms: int, *, may_complete: bool = True
    ) -> None:
        """Complete the transaction, or try again later."""
        if writing.left or not may_complete:
            outcome.set_timer(MarkerTimer(transactional_id), writing.retry_ms)
            writing.retry_ms = min(2 * writing.retry_ms, MARKER_RETRY_MS_MAX)
            parked, writing.parked = writing.parked, []
            for _, waiter in parked:
                outcome.answer(waiter, AddAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        del self._writing[transactional_id]
        transaction: Transaction | None = self._transactions[transactional_id].completed(now_ms)
        outcome.write(TransactionRecord(transactional_id, transaction))
        for request, waiter in writing.parked:
            transaction = self._add(outcome, transaction, request, waiter, now_ms)

    def _write_again(self, outcome: Outcome, transactional_id: str, now_ms: int) -> None:
        writing = self._writing.get(transactional_id)
        if writing is None:
            return
        # Of topics that were deleted meanwhile nothing is left to be decided.
        writing.left = {partition for partition in writing.left if self._has_partition(partition)}
        if writing.left:
            outcome.send(WriteMarkers(transactional_id, writing.marker, tuple(writing.left)))
        else:
            self._go_on(outcome, transactional_id, writing, now_ms)

    def _finish_loaded(self, outcome: Outcome, now_ms: int) -> None:
        """Finish what was found decided, some in a turn of the loop."""
        looked_at = 0
        for transactional_id in islice(self._loaded_walk, SLICE_ITEMS_MAX):
            looked_at += 1
            self._finish(outcome, transactional_id, self._transactions[transactional_id], now_ms, is_written=True)
        if looked_at == SLICE_ITEMS_MAX:
            outcome.set_timer(LoadedTimer(), SLICE_INTERVAL_MS)

    def _abort_timed_out(self, outcome: Outcome, now_ms: int) -> None:
        """Abort what goes on for longer than its producer wanted, some in a turn of the loop."""
        walk = self._timed_out_walk = self._timed_out_walk or iter(tuple(self._ongoing))
        looked_at = 0
        for transactional_id in islice(walk, SLICE_ITEMS_MAX):
            looked_at += 1
            transaction = self._transactions.get(transactional_id)
            if transaction is None or transaction.state is not TransactionState.ONGOING:
                continue
            if transaction.timeout_ms == NO_TIMEOUT_MS or not self._is_timed_out(transactional_id, transaction, now_ms):
                continue
            logger.info(
                "aborting the transaction of %r, producer %d at epoch %d: it was open longer than its timeout of %d ms",
                transactional_id,
                *transaction.producer,
                transaction.timeout_ms,
            )
            self._abort(outcome, transactional_id, transaction, now_ms)
        if looked_at < SLICE_ITEMS_MAX:
            self._timed_out_walk = None
            self._walk_count += 1
            outcome.set_timer(TimedOutTimer(), self._config.abort_timed_out_interval_ms)
        else:
            outcome.set_timer(TimedOutTimer(), SLICE_INTERVAL_MS)

    def _is_timed_out(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        """Whether a transaction goes on for too long by the clock, or by the walks that found it going on.

        The clock may have gone back since it began, or that of the coordinator before may be ahead: its readers would
        wait for that long.
        """
        if transaction.start_ms + transaction.timeout_ms < now_ms:
            return True
        walks = self._walk_count - self._ongoing[transactional_id]
        return walks * self._config.abort_timed_out_interval_ms > transaction.timeout_ms

    def _forget_expired(self, outcome: Outcome, now_ms: int) -> None:
        """Forget ids that nobody has used for long, some in a turn of the loop."""
        walk = self._expiry_walk = self._expiry_walk or iter(tuple(self._transactions))
        looked_at = 0
        for transactional_id in islice(walk, SLICE_ITEMS_MAX):
            looked_at += 1
            transaction = self._transactions.get(transactional_id)
            if transaction is None or transaction.state not in IDLE:
                continue
            if now_ms - transaction.updated_ms >= self._config.id_expiration_ms:
                outcome.write(TransactionRecord(transactional_id, None))
        if looked_at < SLICE_ITEMS_MAX:
            self._expiry_walk = None
            outcome.set_timer(ExpiryTimer(), self._config.remove_expired_interval_ms)
        else:
            outcome.set_timer(ExpiryTimer(), SLICE_INTERVAL_MS)


def _may_follow(transaction: Transaction, expected: ProducerIdentity) -> bool:
    """Whether who was this producer may go on as that of the transactional id, as far as its id says.

    Of the id before it is only who had the last epoch, and asks again: an earlier one may have the number that the
    epoch of the new id has by now.
    """
    producer_id, epoch = expected
    if producer_id == transaction.producer_id or transaction.is_followed_by(expected):
        return True
    return producer_id == transaction.previous_producer_id and epoch >= EPOCH_MAX - 1
