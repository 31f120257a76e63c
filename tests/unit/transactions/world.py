"""Producers, a coordinator and partitions between which requests are late, lost, repeated and out of order.

The coordinator is the real shard, which now and then loads again from what it wrote. Partitions are a naive model of
what a log does: it knows of each producer the epoch, the next sequence number and whether a transaction is open, asks
the coordinator before the first batch of a transaction, and takes markers. A producer writes transactions one after
the other, each value once, and asks again until it gets an answer, as clients do. At the end everything on its way
arrives, time-outs pass, and `anomalies` says what is wrong in what a consumer of committed records reads.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_timers import ShardTimers
from ottla.model.error_code import ErrorCode
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.runtime.timer import ManualTimer
from ottla.transactions.messages import WriteMarkers
from ottla.transactions.requests import AddPartitions, EndTransaction, InitProducer
from ottla.transactions.transaction_config import TransactionConfig
from ottla.transactions.transaction_shard import TransactionShard

ID = "t"
PARTITIONS = tuple(TopicPartition("orders", index) for index in range(3))
RETRIABLE = frozenset(
    {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class Value(Struct, frozen=True):
    """What is written, once: by which producer, in which of its transactions, and a number."""

    producer: int
    transaction: int
    number: int


class Written(Struct):
    """A transaction as its producer knows it."""

    values: list[Value] = field(default_factory=list)
    acknowledged: set[Value] = field(default_factory=set)
    decided: str = "open"
    """`open`, `asked commit`, `asked abort`, `committed`, `aborted`"""


class Known(Struct):
    """What a log knows of a producer id."""

    epoch: int = -1
    next_sequence: int = 0
    is_open: bool = False


class ModelPartition:
    """A naive log."""

    def __init__(self, world: "World", name: TopicPartition) -> None:
        self.world = world
        self.name = name
        self.entries: list[tuple[ProducerIdentity, Value | bool]] = []
        """Values and markers, each with its producer."""
        self.known: dict[int, Known] = {}
        self.markers_taken: dict[int, int] = {}

    def produce(
        self, producer: ProducerIdentity, sequence: int, value: Value, version: int, answer: Callable[[ErrorCode], None]
    ) -> None:
        """A batch of one value arrives."""
        known = self.known.setdefault(producer.producer_id, Known())
        if producer.producer_epoch < known.epoch:
            answer(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif (known.is_open and known.epoch == producer.producer_epoch) or not self.world.verifies:
            self._append(producer, sequence, value, answer)
        else:
            guard = self.markers_taken.get(producer.producer_id, 0)

            def on_answer(error: ErrorCode) -> None:
                if error is not ErrorCode.NONE:
                    answer(error)
                elif self.markers_taken.get(producer.producer_id, 0) != guard and not known.is_open:
                    answer(ErrorCode.INVALID_TXN_STATE)
                else:
                    self._append(producer, sequence, value, answer)

            request = AddPartitions(ID, producer, (self.name,), version, verify_only=version < 2)
            self.world.send(lambda: self.world.add(request, self.world.replier(on_answer)), repeatable=False)

    def _append(
        self, producer: ProducerIdentity, sequence: int, value: Value, answer: Callable[[ErrorCode], None]
    ) -> None:
        known = self.known[producer.producer_id]
        if producer.producer_epoch < known.epoch:
            answer(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        if producer.producer_epoch > known.epoch:
            known.epoch, known.next_sequence = producer.producer_epoch, 0
        if sequence < known.next_sequence:
            answer(ErrorCode.NONE)  # a duplicate
        elif sequence > known.next_sequence:
            answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            known.next_sequence += 1
            known.is_open = True
            self.entries.append((producer, value))
            answer(ErrorCode.NONE)

    def mark(self, marker: TransactionMarker) -> ErrorCode:
        """A marker arrives."""
        known = self.known.setdefault(marker.producer_id, Known())
        is_late = marker.producer_epoch < known.epoch
        if marker.transaction_version >= 2 and known.is_open:
            is_late = marker.producer_epoch <= known.epoch
        if is_late:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.producer_epoch > known.epoch:
            known.epoch, known.next_sequence = marker.producer_epoch, 0
        known.is_open = False
        self.markers_taken[marker.producer_id] = self.markers_taken.get(marker.producer_id, 0) + 1
        self.entries.append((ProducerIdentity(marker.producer_id, marker.producer_epoch), marker.committed))
        return ErrorCode.NONE

    def committed(self) -> list[Value]:
        """What a consumer of committed records reads, in order of the markers."""
        pending: dict[int, list[Value]] = {}
        read: list[Value] = []
        for producer, entry in self.entries:
            if isinstance(entry, Value):
                pending.setdefault(producer.producer_id, []).append(entry)
            else:
                values = pending.pop(producer.producer_id, [])
                read += values if entry else []
        return read

    @property
    def hanging(self) -> list[int]:
        """Producer ids whose transaction is open."""
        return [producer_id for producer_id, known in self.known.items() if known.is_open]


class ModelProducer:
    """A client: one request at a time, asked again until an answer comes.

    When a record is refused it aborts, and with transactions V1 asks who it is, saying who it was: its transaction may
    have taken too long. It gives up when another has taken over.
    """

    def __init__(self, world: "World", number: int, version: int) -> None:
        self.world = world
        self.number = number
        self.version = version
        self.identity: ProducerIdentity | None = None
        self.transactions: list[Written] = []
        self.sequences: dict[TopicPartition, int] = {}
        self.is_over = False
        self.request: Callable[[], None] | None = None
        """What it waits for an answer to, to ask again."""
        self.turn = 0
        """Answers to earlier requests are ignored."""

    def step(self) -> None:
        """Do the next thing, or ask again."""
        if self.is_over:
            return
        if self.request is not None:
            self.world.send(self.request)
        elif self.identity is None:
            self._become(None)
        elif not self.transactions or self.transactions[-1].decided in ("committed", "aborted"):
            self.transactions.append(Written())
        else:
            transaction = self.transactions[-1]
            if len(transaction.values) < self.world.rng.randint(1, 4):
                self._write(transaction)
            else:
                self._end(transaction, commit=self.world.rng.random() < 0.7)

    def _ask(self, request: Callable[[int], None]) -> None:
        self.turn += 1
        turn = self.turn
        self.request = lambda: request(turn)
        self.world.send(self.request)

    def _answered(self, turn: int) -> bool:
        """Whether an answer is to the request of now; then it is over."""
        if turn != self.turn or self.request is None or self.is_over:
            return False
        self.request = None
        return True

    def _become(self, expected: ProducerIdentity | None) -> None:
        """Ask who it is; `expected` is who it was."""

        def request(turn: int) -> None:
            def on_answer(answer: Any) -> None:
                if self._answered(turn):
                    if answer.error is ErrorCode.NONE:
                        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
                        self.sequences.clear()
                    elif answer.error in RETRIABLE:
                        self._ask(request)
                    else:
                        self.is_over = True

            self.world.init(InitProducer(ID, 10_000, expected), self.world.replier(on_answer))

        self._ask(request)

    def _write(self, transaction: Written) -> None:
        value = Value(self.number, len(self.transactions), len(transaction.values))
        transaction.values.append(value)
        partition = self.world.rng.choice(PARTITIONS)
        identity = self.identity
        assert identity is not None
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + 1

        if self.version >= 2:
            self._ask(lambda turn: self._produce(turn, transaction, value, partition, identity, sequence))
        else:
            self._ask(lambda turn: self._add_v1(turn, transaction, value, partition, identity, sequence))

    def _add_v1(
        self,
        turn: int,
        transaction: Written,
        value: Value,
        partition: TopicPartition,
        identity: ProducerIdentity,
        sequence: int,
    ) -> None:
        def on_answer(error: ErrorCode) -> None:
            if not self._answered(turn):
                return
            if error is ErrorCode.NONE:
                self._ask(lambda turn: self._produce(turn, transaction, value, partition, identity, sequence))
            elif error in RETRIABLE:
                self._ask(lambda turn: self._add_v1(turn, transaction, value, partition, identity, sequence))
            else:
                self.is_over = True

        self.world.add(AddPartitions(ID, identity, (partition,), 0), self.world.replier(on_answer))

    def _produce(
        self,
        turn: int,
        transaction: Written,
        value: Value,
        partition: TopicPartition,
        identity: ProducerIdentity,
        sequence: int,
    ) -> None:
        def on_answer(error: ErrorCode) -> None:
            if not self._answered(turn):
                return
            if error is ErrorCode.NONE:
                transaction.acknowledged.add(value)
            elif error in RETRIABLE:
                self._ask(lambda turn: self._produce(turn, transaction, value, partition, identity, sequence))
            elif self.version >= 2:
                self._end(transaction, commit=False)
            else:
                transaction.decided = "aborted"
                self._become(identity)

        self.world.partitions[partition].produce(identity, sequence, value, self.version, self.world.replier(on_answer))

    def _end(self, transaction: Written, *, commit: bool) -> None:
        transaction.decided = "asked commit" if commit else "asked abort"
        identity = self.identity
        assert identity is not None

        def request(turn: int) -> None:
            def on_answer(answer: Any) -> None:
                if not self._answered(turn):
                    return
                if answer.error is ErrorCode.NONE:
                    transaction.decided = "committed" if commit else "aborted"
                    if self.version >= 2:
                        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
                        self.sequences.clear()
                elif answer.error in RETRIABLE:
                    self._ask(request)
                else:
                    self.is_over = True

            ended = EndTransaction(ID, identity, commit, self.version)
            self.world.end(ended, self.world.replier(on_answer))

        self._ask(request)


class World:
    """All of it, from one seed."""

    def __init__(self, seed: int, *, version: int = 2, verifies: bool = True) -> None:
        """`version` is the clients' transaction version; `verifies` is whether partitions ask the coordinator."""
        self.rng = random.Random(seed)
        self.version = version
        self.verifies = verifies
        self.timer = ManualTimer()
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.producer_ids = iter(range(100, 10_000))
        self.on_the_way: list[Callable[[], None]] = []
        self.partitions = {name: ModelPartition(self, name) for name in PARTITIONS}
        self.producers: list[ModelProducer] = []
        self.is_healed = False
        self.shard = _new_shard()
        self._load()

    def run(self, steps: int) -> list[str]:
        """Let things happen, then everything arrive; what is wrong at the end."""
        self.producers.append(ModelProducer(self, 0, self.version))
        for _ in range(steps):
            chance = self.rng.random()
            if chance < 0.004:
                self.producers.append(ModelProducer(self, len(self.producers), self.version))
            elif chance < 0.010:
                self._load()
            elif chance < 0.05:
                self.timer.advance(self.rng.choice((5, 50, 2_000, 12_000)))
            elif chance < 0.35:
                self.rng.choice(self.producers[-2:]).step()
            elif self.on_the_way:
                self.on_the_way.pop(self.rng.randrange(len(self.on_the_way)))()
        self.is_healed = True
        for producer in self.producers:
            producer.is_over = True
        for _ in range(5):
            while self.on_the_way:
                self.on_the_way.pop(0)()
            self.timer.advance(15_000)
        return self.anomalies()

    def send(self, deliver: Callable[[], None], *, repeatable: bool = True, may_be_lost: bool = True) -> None:
        """Put something on its way; it may be lost, or arrive twice, at any time."""
        chance = self.rng.random()
        if may_be_lost and not self.is_healed and chance < 0.05:
            return
        self.on_the_way.append(deliver)
        if repeatable and not self.is_healed and chance > 0.85:
            self.on_the_way.append(deliver)

    def replier(self, on_answer: Callable[[Any], None]) -> Callable[[Any], None]:
        """Takes an answer and puts it on its way."""
        return lambda answer: self.send(lambda: on_answer(answer), repeatable=False)

    def init(self, request: InitProducer, answer: Callable[[Any], None]) -> None:
        """InitProducerId arrives."""

        def on_answer(found: Any) -> None:
            if found.needs_producer_id:
                self.init(replace(request, new_producer_id=next(self.producer_ids)), answer)
            else:
                answer(found)

        self._carry_out(self.shard.handle_init(self._now(), request, on_answer))

    def add(self, request: AddPartitions, answer: Callable[[ErrorCode], None]) -> None:
        """A request for one partition arrives at the coordinator."""

        def on_answer(found: Any) -> None:
            answer(
                found.error if found.error is not ErrorCode.NONE else next(iter(found.refused.values()), found.error)
            )

        self._carry_out(self.shard.handle_add(self._now(), request, on_answer))

    def end(self, request: EndTransaction, answer: Callable[[Any], None]) -> None:
        """EndTxn arrives."""
        self._carry_out(self.shard.handle_end(self._now(), request, answer))

    def anomalies(self) -> list[str]:
        """What is wrong in what was read."""
        found = [f"hanging: {name} {part.hanging}" for name, part in self.partitions.items() if part.hanging]
        read = [value for part in self.partitions.values() for value in part.committed()]
        found += [f"duplicated: {value}" for value in set(read) if read.count(value) > 1]
        for producer in self.producers:
            for number, transaction in enumerate(producer.transactions, 1):
                of_it = {value for value in read if (value.producer, value.transaction) == (producer.number, number)}
                match transaction.decided:
                    case "committed":
                        found += [f"lost: {value}" for value in transaction.acknowledged - of_it]
                    case "asked commit":
                        if of_it and transaction.acknowledged - of_it:
                            found.append(f"torn: {of_it} of {transaction.acknowledged}")
                    case _:
                        found += [f"leaked: {value} of a transaction {transaction.decided}" for value in of_it]
        return found

    def _now(self) -> int:
        return self.timer.clock.now_ms()

    def _load(self) -> None:
        self._carry_out(self.shard.handle_unloaded())
        self.timers.close()
        self.shard = _new_shard()
        for key, value in self.log:
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record)
        self._carry_out(self.shard.handle_loaded(self._now()))

    def _on_timer(self, key: Any) -> None:
        self._carry_out(self.shard.handle_timer(self._now(), key))

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(self.shard.encode(record))
            self.shard.replay(record)
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)
        for message in outcome.messages:
            for partition in message.partitions:
                self.send(partial(self._mark, message, partition), may_be_lost=False)

    def _mark(self, message: WriteMarkers, partition: TopicPartition) -> None:
        if not self.is_healed and self.rng.random() < 0.1:
            error = ErrorCode.REQUEST_TIMED_OUT
        else:
            error = self.partitions[partition].mark(message.marker)
        self._carry_out(self.shard.handle_markers(self._now(), message, {partition: error}, lambda answer: None))


def _new_shard() -> TransactionShard:
    return TransactionShard(
        TransactionConfig(), coordinator_epoch=0, cluster_version=lambda: 2, has_partition=lambda partition: True
    )
