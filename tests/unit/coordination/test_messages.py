"""Messages of outcomes leave when what they rest on is committed, and records of transactions keep their place."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.outcome import Outcome, TransactionalRecord, TransactionEnd, Waiter
from ottla.coordination.shard_runner import ShardRunner
from ottla.coordination.shard_state import ShardState
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.transaction_marker import TransactionMarker
from ottla.replication.transaction_verification import UNVERIFIED
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import WordAnswer, WordShard, environment, put, until

PRODUCER = ProducerIdentity(7, 0)


class PendingWords(WordShard):
    """Words that hold when the transaction of their producer is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: dict[int, list[tuple[str, str | None]]] = {}

    def replay_transactional(self, record: tuple[str, str | None], producer_id: int) -> None:
        self.pending.setdefault(producer_id, []).append(record)

    def replay_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        for record in self.pending.pop(producer_id, []):
            if committed:
                self.replay(record)


class Harness:
    def __init__(self, *, holds_back: bool = False, **limits: int) -> None:
        self.environment, self.turn = environment()
        self.limits = CoordinatorLimits(**limits)
        self.sent: list[Any] = []
        self.partition = HeldPartition(self.environment, holds_back=holds_back)
        self.runner = self._runner()

    def _runner(self) -> ShardRunner:
        return ShardRunner(self.partition, PendingWords, self.environment, self.limits, send=self.sent.append)

    async def load(self) -> PendingWords:
        self.runner.start()
        await until(lambda: self.runner.state is not ShardState.LOADING)
        shard = self.runner.active_shard
        assert isinstance(shard, PendingWords)
        return shard

    async def reload(self) -> PendingWords:
        self.runner.close()
        self.runner = self._runner()
        return await self.load()

    def write(self, *records: Any) -> None:
        def operation(shard: WordShard, now_ms: int, waiter: Waiter) -> Outcome:
            return Outcome(records=list(records), answers=[(waiter, WordAnswer())])

        self.runner.submit(operation, lambda answer: None, WordAnswer)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.environment.tasks.close()


def saying(message: str) -> Any:
    return lambda shard, now_ms: Outcome(records=[("a", "one")], messages=[message])


def in_transaction(key: str, word: str, producer: ProducerIdentity = PRODUCER) -> TransactionalRecord:
    return TransactionalRecord((key, word), producer, UNVERIFIED)


def end(*, committed: bool, producer: ProducerIdentity = PRODUCER) -> TransactionEnd:
    return TransactionEnd(TransactionMarker(producer.producer_id, producer.producer_epoch, 0, committed, 0))


async def test_a_message_leaves_when_the_records_of_its_step_are_committed():
    harness = Harness(holds_back=True)
    await harness.load()
    harness.runner.step(saying("decided"))
    harness.turn.end()
    assert harness.sent == []
    harness.partition.commit()
    assert harness.sent == ["decided"]
    await harness.environment.tasks.close()


async def test_a_message_without_records_waits_for_those_before_it():
    harness = Harness(holds_back=True)
    await harness.load()
    harness.runner.submit(put("a", "one"), lambda answer: None, WordAnswer)
    harness.runner.step(lambda shard, now_ms: Outcome(messages=["after a"]))
    harness.turn.end()
    assert harness.sent == []
    harness.partition.commit()
    assert harness.sent == ["after a"]
    await harness.environment.tasks.close()


async def test_nothing_is_sent_of_what_the_log_refused():
    harness = Harness(holds_back=True)
    await harness.load()
    harness.runner.step(saying("decided"))
    harness.turn.end()
    await harness.partition.lose()
    await until(lambda: harness.runner.state is ShardState.ACTIVE)
    assert harness.sent == []
    await harness.environment.tasks.close()


async def test_records_of_transactions_hold_from_where_these_are_committed(harness: Harness):
    shard = await harness.load()
    other = ProducerIdentity(8, 0)
    harness.write(("a", "plain"), in_transaction("a", "of 7"), in_transaction("b", "of 8", other), ("c", "plain"))
    harness.turn.end()
    assert shard.words == {"a": "plain", "c": "plain"}
    harness.write(end(committed=False, producer=other), end(committed=True), ("d", "after"))
    harness.turn.end()
    expected = {"a": "of 7", "c": "plain", "d": "after"}
    assert shard.words == expected
    assert (await harness.reload()).words == expected


async def test_what_is_undecided_at_a_load_is_decided_by_the_marker_that_comes_later(harness: Harness):
    await harness.load()
    harness.write(in_transaction("a", "of 7"))
    harness.turn.end()
    shard = await harness.reload()
    assert (shard.words, shard.pending) == ({}, {7: [("a", "of 7")]})
    harness.write(end(committed=True))
    harness.turn.end()
    assert shard.words == {"a": "of 7"}
    assert (await harness.reload()).words == {"a": "of 7"}


async def test_each_producer_has_batches_of_its_own_and_the_order_stays(harness: Harness):
    await harness.load()
    other = ProducerIdentity(8, 0)
    harness.write(
        in_transaction("a", "1"),
        in_transaction("b", "2"),
        in_transaction("c", "3", other),
        ("d", "4"),
        end(committed=True),
    )
    harness.turn.end()
    assert [(start, stop) for start, stop, _ in harness.partition.batches] == [(0, 2), (2, 3), (3, 4), (4, 5)]


async def test_a_log_with_transactions_that_is_larger_than_a_chunk_is_loaded_whole():
    harness = Harness(load_chunk_bytes=200)
    await harness.load()
    for number in range(30):
        producer = ProducerIdentity(number, 0)
        harness.write(in_transaction("last", str(number), producer), (f"plain-{number}", "x"))
        harness.write(end(committed=number % 2 == 0, producer=producer))
        harness.turn.end()
    shard = await harness.reload()
    assert shard.words["last"] == "28"
    assert len(shard.words) == 31
    await harness.environment.tasks.close()
