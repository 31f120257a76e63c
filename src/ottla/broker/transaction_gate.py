"""Where the first batch of a transaction in a partition waits until the coordinator knows of the partition (KIP-890).

    batches of one producer for a partition      1   2   3            in the order they came
                                                 |
    its transaction is open there: go on         |   otherwise wait, together
                                                 v
    the coordinator is asked once -------------> adds the partition (Produce from 12 on, TxnOffsetCommit from 5 on)
                                                 or says whether the producer added it (older ones)
    answered: 1, 2, 3 go on, or are refused      a marker that came meanwhile: they are refused

The coordinator may be another broker: it is asked by message, those of one turn of the event loop and one transaction
together, and when it does not answer in time producers are told to try again. How old and new clients hear of what went
wrong is Apache Kafka's (`AddPartitionsToTxnManager`, `ReplicaManager.handleProduceAppend`).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, Protocol, Self

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.transaction_verification import OPEN, UNVERIFIED, Verification
from ottla.runtime.clock import Clock
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.environment import Defer
from ottla.runtime.timer import Timer
from ottla.settings.broker_settings import BrokerSettings

logger = logging.getLogger(__name__)

WAITING_MAX: Final = 10_000
"""So many batches wait at a time; each keeps the buffer of its request, which counts as a request that is handled."""

UNANSWERED_MAX: Final = 10_000
"""Of so many producers is remembered that their first batch could not be verified for the time being, and is to come
first when they send it again; beyond, that of the oldest is forgotten."""

WAITING_BYTES: Final = 1 << 10
"""What each of them takes."""

ANSWER_MS_MAX: Final = 30_000
"""How long a coordinator has (`request.timeout.ms` of Kafka's brokers)."""

_PRODUCE_ADDS, _PRODUCE_KNOWS_ABORTABLE = 12, 11
_COMMIT_ADDS, _COMMIT_KNOWS_ABORTABLE = 5, 4

_PASSING: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""What older clients do not try again after; the last is what a coordinator says that has not heard of a new topic."""

_TRIED_AGAIN: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""What will have passed in a moment, where a partition is to be added."""


class TransactionSupport(Enum):
    """What the version of a request says of its client."""

    OLD = 0
    """It adds its partitions itself, and does not know TRANSACTION_ABORTABLE."""
    KNOWS_ABORTABLE = 1
    """It adds its partitions itself."""
    ADDS_PARTITION = 2
    """Its partitions are added when it writes to them (transactions of version 2)."""

    @classmethod
    def of_produce(cls, version: int) -> "TransactionSupport":
        """Of Produce."""
        if version >= _PRODUCE_ADDS:
            return cls.ADDS_PARTITION
        return cls.KNOWS_ABORTABLE if version >= _PRODUCE_KNOWS_ABORTABLE else cls.OLD

    @classmethod
    def of_txn_offset_commit(cls, version: int) -> "TransactionSupport":
        """Of TxnOffsetCommit."""
        if version >= _COMMIT_ADDS:
            return cls.ADDS_PARTITION
        return cls.KNOWS_ABORTABLE if version >= _COMMIT_KNOWS_ABORTABLE else cls.OLD


class TransactionVerifier(Protocol):
    """The coordinator of transactions, on this broker or another."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        waiter: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Add partitions to a transaction, or say whether they are part of it; answers as AddPartitionsToTxn 5 does.

        `waiter` is called once, maybe at once, in the event loop.
        """
        ...


class Entry(NamedTuple):
    """How a batch leaves the gate: with a guard to be appended with, or with what its producer is told."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    guard: Verification | None = None


OnEntered = Callable[[Entry], None]


class GateConfig(Struct, frozen=True):
    """The settings of the gate, times in milliseconds."""

    verifies: bool = True
    """Whether partitions that clients add themselves are verified (`transaction.partition.verification.enable`)."""
    retry_ms: int = 20
    """After how long a coordinator that is ending the transaction before is asked again."""
    retry_ms_max: int = 100
    """For how long it is."""

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """What the broker's settings say."""
        return cls(
            verifies=settings.boolean("transaction.partition.verification.enable"),
            retry_ms=settings.integer("add.partitions.to.txn.retry.backoff.ms"),
            retry_ms_max=settings.integer("add.partitions.to.txn.retry.backoff.max.ms"),
        )


class _Question:
    """That the transaction of a producer has a partition: asked once for all batches that wait for it."""

    __slots__ = ("begun_ms", "gate", "is_over", "key", "support", "transactional_id", "verification", "waiting")

    def __init__(
        self,
        gate: "TransactionGate",
        key: tuple[Partition, int],
        transactional_id: str,
        support: TransactionSupport,
        verification: Verification,
        begun_ms: int,
    ) -> None:
        self.gate = gate
        self.key = key
        self.transactional_id = transactional_id
        self.support = support
        self.verification = verification
        self.begun_ms = begun_ms
        self.waiting: list[tuple[TransactionSupport, OnEntered]] = []
        self.is_over = False

    def expire(self) -> None:
        """The coordinator did not answer."""
        self.gate.answered(self, ErrorCode.NETWORK_EXCEPTION)


class TransactionGate:
    """Lets transactional batches of producers and of the coordinators of groups pass. Belongs to the event loop."""

    __slots__ = (
        "_clock",
        "_deadlines",
        "_defer",
        "_due",
        "_questions",
        "_timer",
        "_unanswered",
        "_verifier",
        "config",
        "waiting_count",
    )

    def __init__(
        self,
        verifier: TransactionVerifier,
        config: GateConfig,
        *,
        clock: Clock,
        timer: Timer,
        defer: Defer,
    ) -> None:
        self.config = config
        self._verifier = verifier
        self._clock = clock
        self._timer = timer
        self._defer = defer
        self._deadlines = Deadlines(clock, timer)
        self._questions: dict[tuple[Partition, int], _Question] = {}
        self._due: list[_Question] = []
        self._unanswered: deque[tuple[Partition, int, Verification]] = deque()
        self.waiting_count = 0
        """How many batches wait."""

    def enter(
        self,
        partition: Partition,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        support: TransactionSupport,
        on_entered: OnEntered,
    ) -> None:
        """Call `on_entered` once, when a batch of the producer may be appended or is refused: those of one producer and
        partition in the order they came, and at once when nothing is to be asked. `sequence` is -1 without.
        """
        if not partition.is_leader:
            on_entered(Entry(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker is not the leader of the partition"))
            return
        adds_partition = support is TransactionSupport.ADDS_PARTITION
        if not adds_partition and not self.config.verifies:
            on_entered(Entry(guard=UNVERIFIED))
            return
        key = partition, producer_id
        question = self._questions.get(key)
        if question is not None and producer_epoch > question.verification.producer_epoch:
            self.answered(question, ErrorCode.INVALID_PRODUCER_EPOCH)
            question = None
        if question is None and partition.log.producers.has_open_transaction(producer_id, producer_epoch):
            on_entered(Entry(guard=OPEN))
            return
        if self.waiting_count >= WAITING_MAX:
            on_entered(Entry(ErrorCode.NOT_ENOUGH_REPLICAS, "too many batches wait for coordinators; try again"))
            return
        verification = partition.want_verification(producer_id, producer_epoch, sequence, adds_partition=adds_partition)
        if producer_epoch < verification.producer_epoch:
            on_entered(Entry(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer epoch of the producer has begun to write"))
            return
        if question is not None and question.verification is not verification:
            # A marker came: what waits has no answer yet, and will have no transaction.
            self.answered(question, ErrorCode.NONE)
            question = None
        if question is None:
            if verification.is_verified:
                on_entered(Entry(guard=verification))
                return
            question = self._ask(key, transactional_id, support, verification)
        question.waiting.append((support, on_entered))
        self.waiting_count += 1

    def close(self) -> None:
        """Tell everybody who waits; used when the broker stops."""
        for question in tuple(self._questions.values()):
            self.answered(question, ErrorCode.NOT_COORDINATOR)

    def _ask(
        self,
        key: tuple[Partition, int],
        transactional_id: str,
        support: TransactionSupport,
        verification: Verification,
    ) -> _Question:
        question = _Question(self, key, transactional_id, support, verification, self._clock.monotonic_ms())
        self._questions[key] = question
        self._deadlines.add(question, ANSWER_MS_MAX)
        self._send_later(question)
        return question

    def _send_later(self, question: _Question) -> None:
        if question.is_over:
            return
        if not self._due:
            self._defer(self._send)
        self._due.append(question)

    def _send(self) -> None:
        """Ask what came up in this turn, all partitions of one transaction together."""
        due, self._due = self._due, []
        asked: dict[tuple[str, int, int, bool], list[_Question]] = {}
        for question in due:
            if not question.is_over:
                adds_partition = question.support is TransactionSupport.ADDS_PARTITION
                epoch = question.verification.producer_epoch
                producer = (question.transactional_id, question.key[1], epoch, not adds_partition)
                asked.setdefault(producer, []).append(question)
        for (transactional_id, producer_id, epoch, verify_only), questions in asked.items():
            partitions = [question.key[0].topic_partition for question in questions]
            try:
                self._verifier.add_or_verify(
                    transactional_id,
                    producer_id,
                    epoch,
                    partitions,
                    verify_only=verify_only,
                    waiter=partial(self._on_answer, questions),
                )
            except Exception:
                logger.exception("could not ask the coordinator of %r", transactional_id)
                self._on_answer(questions, {})

    def _on_answer(self, questions: Sequence[_Question], errors: Mapping[TopicPartition, ErrorCode]) -> None:
        now_ms = self._clock.monotonic_ms()
        for question in questions:
            error = errors.get(question.key[0].topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            asks_again = (
                error in _TRIED_AGAIN
                and question.support is TransactionSupport.ADDS_PARTITION
                and now_ms - question.begun_ms < self.config.retry_ms_max
            )
            if asks_again and not question.is_over:
                self._timer.schedule(self.config.retry_ms, partial(self._send_later, question))
            else:
                self.answered(question, error)

    def answered(self, question: _Question, error: ErrorCode) -> None:
        """Let those who wait go on, or tell them what is wrong; once."""
        if question.is_over:
            return
        question.is_over = True
        if self._questions.get(question.key) is question:
            del self._questions[question.key]
        partition, producer_id = question.key
        verification = question.verification
        if error is ErrorCode.NONE:
            verification.is_verified = True
            if not partition.verifications.is_current(producer_id, verification):
                is_leader = partition.is_leader
                error = ErrorCode.INVALID_TXN_STATE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif error in _PASSING:
            self._unanswered.append((partition, producer_id, verification))
            if len(self._unanswered) > UNANSWERED_MAX:
                _forget(*self._unanswered.popleft())
        else:
            _forget(partition, producer_id, verification)
        waiting, question.waiting = question.waiting, []
        self.waiting_count -= len(waiting)
        for support, on_entered in waiting:
            try:
                on_entered(Entry(guard=verification) if error is ErrorCode.NONE else _refusal(error, support))
            except Exception:
                logger.exception("could not append a batch after its transaction was verified")


def _forget(partition: Partition, producer_id: int, verification: Verification) -> None:
    if partition.verifications.is_current(producer_id, verification):
        partition.verifications.forget(producer_id)


def _refusal(error: ErrorCode, support: TransactionSupport) -> Entry:
    """What a client is told when its transaction could not be verified."""
    if error is ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error is ErrorCode.TRANSACTION_ABORTABLE and support is TransactionSupport.OLD:
        error = ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and support is TransactionSupport.ADDS_PARTITION:
        return Entry(error, "the transaction before is still being ended")
    if error in _PASSING:
        return Entry(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"it could not be verified that the partition is part of the transaction: {error.name}",
        )
    if error is ErrorCode.INVALID_TXN_STATE:
        return Entry(error, "the partition is not part of an open transaction of the producer")
    return Entry(error, f"the coordinator of the transaction says {error.name}")
