"""What is read back from the transaction topic, and any order of requests, markers, time and loads at its coordinator.

which, 1 byte: 0 a record (size of its key, 1 byte | key | value), 1 steps, 2 a record as for 0, its size in 2 bytes
before it, that is in the log which the coordinator loads, then steps | rest

A step is what is done, 1 byte, and how, 1 byte. Everybody who asks is answered once, at the latest when the shard is
unloaded; what is loaded again is what was there; and no step raises.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec.structs import replace

from ottla.coordination.outcome import Outcome
from ottla.model.error_code import ErrorCode
from ottla.native.errors import MessageError
from ottla.transactions.record_format import decode, encode
from ottla.transactions.transaction import Transaction
from tests.scenarios.transactions.conversation import ID, Conversation

STEPS_MAX = 200
MARKER_ERRORS = (
    "NONE",
    "NOT_LEADER_OR_FOLLOWER",
    "INVALID_PRODUCER_EPOCH",
    "TRANSACTION_COORDINATOR_FENCED",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNSUPPORTED_VERSION",
    "REQUEST_TIMED_OUT",
    "KAFKA_STORAGE_ERROR",
)
WAITS = ("1ms", "20ms", "1s", "10s", "61s", "6m")


def check(data: bytes) -> None:
    """See the top of the file."""
    if len(data) < 2:
        return
    match data[0] % 3:
        case 0:
            key, value = data[2 : 2 + data[1]], data[2 + data[1] :]
            record(key, value)
            record(key, None)
        case 1:
            steps(Coordinator(), data[1:])
        case _:
            size = int.from_bytes(data[1:3], "big") % 512
            content, rest = data[3 : 3 + size], data[3 + size :]
            key, value = content[1 : 1 + content[0]] if content else b"", content[1 + content[0] :] if content else b""
            coordinator = Coordinator()
            try:
                found = decode(key, value)
            except MessageError:
                return
            if found is not None:
                coordinator.log.append((key, value))
                coordinator.do_restart()
            steps(coordinator, rest)


def record(key: bytes, value: bytes | None) -> None:
    """A record that is known is written as one that reads the same, but for what an empty transaction cannot have."""
    try:
        found = decode(key, value)
    except MessageError:
        return
    if found is not None:
        stored = decode(*encode(found))
        assert stored is not None
        assert decode(*encode(stored)) == stored
        assert stored.transactional_id == found.transactional_id


class Coordinator(Conversation):
    """A conversation whose answers are counted."""

    def __init__(self) -> None:
        self.unanswered: dict[int, str] = {}
        self.asked = 0
        super().__init__()
        self.producer_ids = count(100)
        self.do_config("id_expiration_ms=300000")

    def _waiter(self, who: str) -> Callable[[Any], None]:
        self.asked += 1
        number = self.asked
        self.unanswered[number] = who

        def answered(answer: Any) -> None:
            assert isinstance(answer.error, ErrorCode)
            del self.unanswered[number]

        return answered

    def _carry_out(self, outcome: Outcome) -> None:
        for each in outcome.records:
            self.log.append(self.shard.encode(each))
            self.shard.replay(each)
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)
        for message in outcome.messages:
            assert message.partitions
            self.sent = message

    def known(self) -> dict[str, Transaction]:
        """The transactions as they are stored."""
        return {key: replace(each, last_producer_epoch=-1) for key, each in self.shard.transactions()}


def steps(coordinator: Coordinator, data: bytes) -> None:
    """Take them, then load again what they left."""
    for at in range(0, min(len(data) - 1, 2 * STEPS_MAX), 2):
        step(coordinator, data[at] % 10, data[at + 1])
    before = coordinator.known()
    coordinator.do_unload()
    assert not coordinator.unanswered, coordinator.unanswered
    coordinator.sent = None
    replayed = dict[str, Transaction]()
    for key, value in coordinator.log:
        found = decode(key, value)
        assert found is not None
        if found.transaction is None:
            replayed.pop(found.transactional_id, None)
        else:
            replayed[found.transactional_id] = found.transaction
    assert replayed == before
    coordinator.do_load()
    coordinator.do_wait("6m")


def step(coordinator: Coordinator, what: int, how: int) -> None:
    """One thing that happens."""
    known = dict(coordinator.shard.transactions()).get(ID)
    producer_id, epoch = (known.producer_id, known.producer_epoch) if known else (100, 0)
    producer = f"{producer_id + (0, 0, 0, 1)[how >> 6]}:{min(32_767, max(-1, epoch + (0, 0, -1, 1)[how >> 4 & 3]))}"
    names = [f"orders-{number}" for number in range(1 + how % 3)]
    version = ("v1", "v2")[how >> 2 & 1]
    match what:
        case 0:
            coordinator.do_init(f"timeout={(1, 60, 900)[how % 3]}s", *([f"as={producer}"] if how & 8 else []))
        case 1 | 2:
            coordinator.do_add(producer, version, *names)
        case 3:
            coordinator.do_verify(producer, *names)
        case 4 | 5:
            coordinator.do_end(producer, ("commit", "abort")[how & 1], version)
        case 6:
            if coordinator.sent is not None:
                sent = sorted(map(str, coordinator.sent.partitions))
                errors = [MARKER_ERRORS[(how >> number) % 8] for number in range(len(sent))]
                coordinator.do_written(*(f"{name}={error}" for name, error in zip(sent, errors, strict=True)))
        case 7:
            coordinator.do_wait(WAITS[how % len(WAITS)])
        case 8:
            if how % 4 == 0:
                coordinator.do_delete_topics("orders")
            else:
                coordinator.do_restart()
        case _:
            if how % 2 and coordinator.log and known is not None:
                coordinator.do_epoch(str(32_760 + how % 8))
            else:
                coordinator.do_describe()
