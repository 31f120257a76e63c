"""Conversations with a transaction coordinator, as text.

A file has commands, which start with `> `, each followed by what the coordinator does: answers, records, and what it
sends to the brokers that lead partitions. Time stands still but for `> wait`. Everything concerns one transactional
id, `t`. A producer is its id and its epoch: `100:0`. Ids are given out from 100 on; every topic is there, with ten
partitions, until it is deleted.

    > init timeout=60s                       InitProducerId; `as=100:3` says what the producer was before
    > add 100:0 orders-0 orders-1            by AddPartitionsToTxn of old clients; `v2` on behalf of a Produce
    > verify 100:0 orders-0                  whether they have a part in the transaction
    > end 100:0 commit                       EndTxn 5; `v1` is EndTxn 4; `abort`
    > written orders-0 orders-1=NOT_LEADER_OR_FOLLOWER    what became of the markers that were sent last
    > describe
    > wait 10s                               what the time brings is marked with when
    > clock -1h                              the wall clock jumps, `+2h` or back; no time passes
    > restart                                the shard is loaded again from what it wrote; `unload`, then `load`
    > delete-topics orders
    > config id_expiration_ms=1000           settings, by their names in TransactionConfig
    > cluster-version 0                      the finalized level of transaction.version
    > epoch 32765                            the log says that the producer is at this epoch, and the shard is loaded

Run `python -m tests.scenarios.transactions.rewrite` to write down what the code does now, and review the difference.
"""

import re
from collections.abc import Callable, Hashable
from typing import Any

from msgspec.structs import replace

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_timers import ShardTimers
from ottla.model.error_code import ErrorCode
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.timer import ManualTimer
from ottla.transactions.answers import AddAnswer, DescribeTransactionAnswer, EndAnswer, InitAnswer
from ottla.transactions.messages import WriteMarkers
from ottla.transactions.records import TransactionRecord
from ottla.transactions.requests import AddPartitions, EndTransaction, InitProducer
from ottla.transactions.transaction_config import TransactionConfig
from ottla.transactions.transaction_shard import TransactionShard

ID = "t"
COORDINATOR_EPOCH = 3
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def run(script: str) -> str:
    """The script with its outputs replaced by what the coordinator does."""
    conversation = Conversation()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines.extend(conversation.say(line[2:]))
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


class Conversation:
    """One shard with one transactional id, its timers, and a log to load it from again."""

    def __init__(self) -> None:
        self.config = TransactionConfig()
        self.cluster_version = 2
        self.timer = ManualTimer()
        self.deleted: set[str] = set()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.out: list[str] = []
        self.producer_ids = iter(range(100, 200))
        self.sent: WriteMarkers | None = None
        self.waiting_since = 0
        self.do_load()

    def say(self, command: str) -> list[str]:
        """Carry out a command; what comes of it, a line each."""
        self.out = []
        verb, *words = command.split()
        self.waiting_since = self._now()
        getattr(self, "do_" + verb.replace("-", "_"))(*words)
        return self.out

    def do_init(self, *options: str) -> None:
        """InitProducerId."""
        said = dict(word.split("=") for word in options)
        expected = _producer(said["as"]) if "as" in said else None
        self._init(InitProducer(ID, _ms(said.get("timeout", "60s")), expected))

    def do_add(self, producer: str, *words: str) -> None:
        """Have partitions take part."""
        version, names = _version(words, default=0)
        request = AddPartitions(ID, _producer(producer), tuple(map(_partition, names)), version)
        self._carry_out(self.shard.handle_add(self._now(), request, self._waiter("add")))

    def do_verify(self, producer: str, *names: str) -> None:
        """Ask whether partitions have a part."""
        request = AddPartitions(ID, _producer(producer), tuple(map(_partition, names)), 0, verify_only=True)
        self._carry_out(self.shard.handle_add(self._now(), request, self._waiter("verify")))

    def do_end(self, producer: str, *words: str) -> None:
        """EndTxn."""
        version, (how,) = _version(words, default=2)
        self._end(EndTransaction(ID, _producer(producer), how == "commit", version))

    def do_written(self, *words: str) -> None:
        """The markers that were sent last are written, or not."""
        assert self.sent is not None
        errors = {}
        for word in words:
            name, _, error = word.partition("=")
            errors[_partition(name)] = ErrorCode[error] if error else ErrorCode.NONE
        self._carry_out(self.shard.handle_markers(self._now(), self.sent, errors, lambda answer: None))

    def do_describe(self) -> None:
        """DescribeTransactions."""
        self._carry_out(self.shard.handle_describe(self._now(), ID, self._waiter("describe")))

    def do_wait(self, duration: str) -> None:
        """Let time pass."""
        self.timer.advance(_ms(duration))

    def do_clock(self, by: str) -> None:
        """Have the wall clock jump."""
        clock = self.timer.clock
        clock.set_now(clock.now_ms() + (-1 if by[0] == "-" else 1) * _ms(by[1:]))

    def do_restart(self) -> None:
        """Load the shard anew."""
        self.do_unload()
        self.do_load()

    def do_unload(self) -> None:
        """The shard has to load again."""
        self._carry_out(self.shard.handle_unloaded())
        self.timers.close()

    def do_load(self) -> None:
        """Load the shard from its log."""
        self.shard = TransactionShard(
            self.config,
            coordinator_epoch=COORDINATOR_EPOCH,
            cluster_version=lambda: self.cluster_version,
            has_partition=lambda partition: partition.topic not in self.deleted and partition.partition < 10,
        )
        for key, value in self.log:
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record)
        self._carry_out(self.shard.handle_loaded(self._now()))

    def do_delete_topics(self, *topics: str) -> None:
        """Topics disappear."""
        self.deleted.update(topics)

    def do_config(self, *settings: str) -> None:
        """Start over with other settings."""
        self.config = TransactionConfig(**{name: int(value) for name, value in (each.split("=") for each in settings)})
        self.do_restart()

    def do_cluster_version(self, version: str) -> None:
        """Another level of transaction.version is finalized."""
        self.cluster_version = int(version)

    def do_epoch(self, epoch: str) -> None:
        """The producer has come that far."""
        record = self.shard.decode(*self.log[-1])
        assert record is not None
        assert record.transaction is not None
        changed = replace(record, transaction=replace(record.transaction, producer_epoch=int(epoch)))
        self.log.append(self.shard.encode(changed))
        self.do_restart()

    def _init(self, request: InitProducer) -> None:
        def on_answer(answer: InitAnswer) -> None:
            if answer.needs_producer_id:
                self._init(replace(request, new_producer_id=next(self.producer_ids)))
            else:
                self._waiter("init")(answer)

        self._carry_out(self.shard.handle_init(self._now(), request, on_answer))

    def _end(self, request: EndTransaction) -> None:
        def on_answer(answer: EndAnswer) -> None:
            if answer.needs_producer_id:
                self._end(replace(request, new_producer_id=next(self.producer_ids)))
            else:
                self._waiter("end")(answer)

        self._carry_out(self.shard.handle_end(self._now(), request, on_answer))

    def _now(self) -> int:
        return self.timer.clock.now_ms()

    def _on_timer(self, key: Hashable) -> None:
        self._carry_out(self.shard.handle_timer(self._now(), key))

    def _waiter(self, who: str) -> Callable[[Any], None]:
        return lambda answer: self.out.append(f"{self._when()}{who} <- {_answer_text(answer)}")

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            key, value = self.shard.encode(record)
            assert self.shard.decode(key, value) == _as_stored(record)
            self.log.append((key, value))
            self.shard.replay(record)
            self.out.append(f"{self._when()}log: {_record_text(record)}")
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)
        for message in outcome.messages:
            self.sent = message
            self.out.append(f"{self._when()}send: {_message_text(message)}")

    def _when(self) -> str:
        passed_ms = self._now() - self.waiting_since
        return f"  after {passed_ms / 1_000:g}s: " if passed_ms else "  "


def _as_stored(record: TransactionRecord) -> TransactionRecord:
    """What a record says once it was read again: the last epoch is in memory only."""
    if record.transaction is None:
        return record
    return replace(record, transaction=replace(record.transaction, last_producer_epoch=-1))


def _answer_text(answer: Any) -> str:
    error = answer.error
    if error is not ErrorCode.NONE:
        return str(error.name)
    if isinstance(answer, AddAnswer):
        refused = [f"{partition}:{code.name}" for partition, code in answer.refused.items()]
        return " ".join(refused) or "NONE"
    text = f"{answer.producer_id}:{answer.producer_epoch}"
    if isinstance(answer, DescribeTransactionAnswer):
        names = [f"{topic}-{number}" for topic, numbers in answer.partitions.items() for number in sorted(numbers)]
        text += f" {answer.state} timeout={answer.timeout_ms} start={answer.start_ms} [{' '.join(names)}]"
    return text


def _record_text(record: TransactionRecord) -> str:
    transaction = record.transaction
    if transaction is None:
        return "gone"
    names = sorted(map(str, transaction.all_partitions()))
    text = f"{transaction.state.label} {transaction.producer_id}:{transaction.producer_epoch}"
    if transaction.next_producer_id != -1:
        text += f" next={transaction.next_producer_id}"
    return f"{text} [{' '.join(names)}]" if names else text


def _message_text(message: WriteMarkers) -> str:
    marker = message.marker
    assert marker.coordinator_epoch == COORDINATOR_EPOCH
    how = "commit" if marker.committed else "abort"
    names = sorted(map(str, message.partitions))
    return f"{how} {marker.producer_id}:{marker.producer_epoch} v{marker.transaction_version} to {' '.join(names)}"


def _version(words: tuple[str, ...], *, default: int) -> tuple[int, list[str]]:
    version = default
    others = []
    for word in words:
        if word in ("v1", "v2"):
            version = {"v1": 0, "v2": 2}[word]
        else:
            others.append(word)
    return version, others


def _producer(text: str) -> ProducerIdentity:
    producer_id, _, epoch = text.partition(":")
    return ProducerIdentity(int(producer_id), int(epoch))


def _partition(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


def _ms(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    assert match is not None, duration
    return int(match[1]) * _UNIT_MS[match[2]]
