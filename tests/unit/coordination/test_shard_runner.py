import asyncio
from collections.abc import AsyncIterator, Hashable

import pytest

from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_runner import LOAD_RETRY_MS, SHORT_RETRY_MS, Operation, ShardRunner
from ottla.coordination.shard_state import ShardState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import build_batch
from ottla.runtime.turns import ITEMS_PER_TURN
from ottla.storage.append_origin import AppendOrigin
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import WordAnswer, WordShard, crash, environment, get, park, put, until


class Harness:
    def __init__(self, **limits: int) -> None:
        self.environment, self.turn = environment()
        self.limits = CoordinatorLimits(**limits)
        self.partition = HeldPartition(self.environment)
        self.runner = ShardRunner(self.partition, WordShard, self.environment, self.limits)
        self.heard: list[str] = []

    def ask(self, operation: Operation, *, needs_log: bool = False) -> None:
        self.runner.submit(operation, self._hear, WordAnswer, needs_log=needs_log)

    def lose_replicas(self) -> None:
        """Two of three replicas leave the ISR."""
        self.partition.min_insync_replicas, self.partition.replica_count, self.partition.isr_size = 2, 3, 1

    def _hear(self, answer: WordAnswer) -> None:
        self.heard.append(answer.error.name if answer.error is not ErrorCode.NONE else str(answer.word))

    async def load(self) -> None:
        self.runner.start()
        await until(lambda: self.runner.state is not ShardState.LOADING)

    def restart(self) -> None:
        self.runner.close()
        self.runner = ShardRunner(self.partition, WordShard, self.environment, self.limits)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.environment.tasks.close()


async def test_requests_are_sent_away_until_the_shard_is_loaded(harness: Harness):
    harness.ask(get("a"))
    assert harness.heard == ["COORDINATOR_LOAD_IN_PROGRESS"]
    await harness.load()
    assert harness.runner.active_shard is not None
    harness.ask(get("a"))
    assert harness.heard[1:] == ["None"]


async def test_what_was_written_is_there_after_a_restart(harness: Harness):
    await harness.load()
    harness.ask(put("a", "one"))
    harness.turn.end()
    harness.ask(put("b", "two"))
    harness.ask(put("a", "three"))
    harness.turn.end()
    harness.restart()
    await harness.load()
    harness.ask(get("a"))
    harness.ask(get("b"))
    assert harness.heard[-2:] == ["three", "two"]


async def test_a_log_larger_than_a_chunk_is_loaded_whole():
    harness = Harness(load_chunk_bytes=200)
    await harness.load()
    for number in range(50):
        harness.ask(put(f"key-{number}", "x" * 20))
        harness.turn.end()
    harness.restart()
    await harness.load()
    assert len(harness.runner.active_shard.words) == 50
    await harness.environment.tasks.close()


async def test_others_get_on_while_a_shard_is_loaded(harness: Harness):
    records = [(0, b"%d" % number, b"word", ()) for number in range(5 * ITEMS_PER_TURN)]
    harness.partition.append(build_batch(records), acks=-1, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR)
    seen: set[int] = set()
    harness.runner.start()
    while harness.runner.state is ShardState.LOADING:
        seen.add(len(harness.runner._shard.words))  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    assert set(range(ITEMS_PER_TURN, 5 * ITEMS_PER_TURN, ITEMS_PER_TURN)) <= seen


async def test_records_of_unknown_kinds_are_passed_over(harness: Harness):
    batch = build_batch([(0, b"unknown-1", b"?", ()), (0, b"a", b"one", ()), (0, None, b"no key", ())])
    harness.partition.append(batch, acks=-1, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR)
    await harness.load()
    assert harness.runner.active_shard.words == {"a": "one"}


@pytest.mark.parametrize(
    "error",
    [
        OSError("disk"),
        ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "offline"),
        ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "fenced for now"),
    ],
)
async def test_a_shard_whose_log_cannot_be_read_serves_nobody_until_it_can(harness: Harness, error: Exception):
    harness.partition.append(
        build_batch([(0, b"a", b"b", ())]), acks=-1, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR
    )
    harness.partition.read_error = error
    harness.runner.start()
    timer = harness.environment.timer
    for _ in range(2):
        await until(lambda: len(timer) > 0)
        harness.ask(get("a"))
        timer.advance(LOAD_RETRY_MS)
    harness.partition.read_error = None
    await until(lambda: harness.runner.state is ShardState.ACTIVE)
    harness.ask(get("a"))
    assert harness.heard == ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS", "b"]


async def test_a_record_that_is_not_what_it_claims_fails_the_load(harness: Harness):
    batch = build_batch([(0, b"broken", b"?", ())])
    harness.partition.append(batch, acks=-1, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR)
    await harness.load()
    assert harness.runner.state is ShardState.FAILED


async def test_loading_waits_for_records_that_are_not_committed_yet(harness: Harness):
    harness.partition.holds_back = True
    batch = build_batch([(0, b"a", b"one", ())])
    harness.partition.append(batch, acks=-1, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR)
    harness.runner.start()
    await until(lambda: len(harness.environment.timer) == 1)
    assert harness.runner.state is ShardState.LOADING
    harness.partition.commit()
    harness.environment.timer.advance(1_000)
    await until(lambda: harness.runner.state is ShardState.ACTIVE)
    assert harness.runner.active_shard.words == {"a": "one"}


async def test_after_a_refused_append_everybody_is_told_and_the_log_is_read_again(harness: Harness):
    await harness.load()
    harness.ask(put("a", "one"))
    harness.turn.end()
    harness.ask(park())
    harness.partition.holds_back = True
    harness.ask(put("a", "two"))
    harness.turn.end()
    harness.ask(get("a"))
    harness.heard.clear()
    await harness.partition.lose()
    assert sorted(harness.heard) == ["NOT_COORDINATOR"] * 3
    await until(lambda: harness.runner.state is ShardState.ACTIVE)
    harness.ask(get("a"))
    assert harness.heard[3:] == ["one"]


async def test_a_shard_short_of_replicas_goes_on_without_what_it_cannot_write(harness: Harness):
    await harness.load()
    harness.ask(put("a", "one"))
    harness.turn.end()
    shard = harness.runner.active_shard
    harness.lose_replicas()
    harness.ask(put("a", "two"))
    harness.ask(get("a"))
    harness.turn.end()
    assert harness.heard == ["one", "COORDINATOR_NOT_AVAILABLE", "one"]
    harness.partition.isr_size = 2
    harness.ask(put("a", "three"))
    harness.turn.end()
    assert harness.runner.active_shard is shard
    harness.restart()
    await harness.load()
    harness.ask(get("a"))
    assert harness.heard[3:] == ["three", "three"]


async def test_what_was_appended_before_replicas_were_lost_is_still_committed(harness: Harness):
    await harness.load()
    harness.partition.holds_back = True
    harness.ask(put("a", "one"))
    harness.turn.end()
    harness.lose_replicas()
    harness.ask(put("a", "two"))
    harness.ask(get("a"))
    assert harness.heard == ["COORDINATOR_NOT_AVAILABLE"]
    harness.partition.commit()
    assert harness.heard[1:] == ["one", "one"]


async def test_a_step_that_cannot_be_thrown_away_is_not_taken_while_replicas_are_short(harness: Harness):
    await harness.load()
    harness.lose_replicas()
    harness.ask(park(), needs_log=True)
    assert harness.heard == ["COORDINATOR_NOT_AVAILABLE"]
    assert harness.runner.active_shard.parked == []


async def test_timers_wait_for_enough_replicas(harness: Harness):
    await harness.load()
    harness.ask(park(250))
    harness.lose_replicas()
    harness.environment.timer.advance(2 * SHORT_RETRY_MS)
    assert harness.heard == []
    harness.partition.isr_size = 2
    harness.environment.timer.advance(SHORT_RETRY_MS)
    assert harness.heard == [f"due at {250 + 2 * SHORT_RETRY_MS}"]


async def test_a_step_that_is_thrown_away_moves_the_timers_that_run(harness: Harness):
    await harness.load()
    harness.ask(park(250))
    harness.lose_replicas()
    timers: dict[Hashable, int | None] = {"due": 5_000, "other": 5_000}
    harness.ask(lambda shard, now_ms, waiter: Outcome([("a", "one")], [(waiter, WordAnswer())], timers))
    assert len(harness.environment.timer) == 1
    harness.partition.isr_size = 2
    harness.environment.timer.advance(5_000)
    assert harness.heard == ["COORDINATOR_NOT_AVAILABLE", "due at 5000"]


async def test_what_nobody_waits_for_is_written_when_there_are_enough_replicas_again(harness: Harness):
    await harness.load()
    harness.lose_replicas()
    harness.runner.step_once_it_can_write(lambda shard, now_ms: Outcome([("a", "one")]))
    harness.environment.timer.advance(SHORT_RETRY_MS)
    assert harness.runner.active_shard.words == {}
    harness.partition.isr_size = 2
    harness.environment.timer.advance(SHORT_RETRY_MS)
    harness.turn.end()
    assert harness.runner.active_shard.words == {"a": "one"}
    assert len(harness.partition.batches) == 1


async def test_a_crash_tells_everybody_once_and_the_log_is_read_again(harness: Harness):
    await harness.load()
    harness.ask(put("a", "one"))
    harness.turn.end()
    harness.heard.clear()
    harness.ask(park())
    harness.ask(crash)
    assert harness.heard == ["NOT_COORDINATOR", "NOT_COORDINATOR"]
    await until(lambda: harness.runner.state is ShardState.ACTIVE)
    harness.ask(get("a"))
    assert harness.heard[2:] == ["one"]


async def test_records_on_their_way_at_a_crash_are_not_lost(harness: Harness):
    await harness.load()
    harness.partition.holds_back = True
    harness.ask(put("a", "one"))
    harness.turn.end()
    harness.ask(crash)
    harness.partition.commit()
    await until(lambda: harness.runner.state is ShardState.ACTIVE)
    assert harness.runner.active_shard.words == {"a": "one"}


async def test_a_timer_is_a_step_of_the_shard(harness: Harness):
    await harness.load()
    harness.ask(park(250))
    harness.environment.timer.advance(249)
    assert harness.heard == []
    harness.environment.timer.advance(1)
    assert harness.heard == ["due at 250"]


async def test_closing_tells_everybody_and_stops_the_timers(harness: Harness):
    await harness.load()
    harness.ask(park(250))
    harness.partition.holds_back = True
    harness.ask(put("a", "one"))
    harness.runner.close()
    assert sorted(harness.heard) == ["NOT_COORDINATOR", "NOT_COORDINATOR"]
    assert len(harness.environment.timer) == 0
    harness.turn.end()
    assert harness.partition.appends == []
    assert len(harness.heard) == 2
    harness.ask(get("a"))
    assert harness.heard[2:] == ["NOT_COORDINATOR"]


async def test_a_shard_that_cannot_even_be_unloaded_is_closed_all_the_same(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    await harness.load()
    harness.partition.holds_back = True
    harness.ask(put("a", "one"))
    monkeypatch.setattr(WordShard, "handle_unloaded", crash)
    harness.runner.close()
    assert harness.heard == ["NOT_COORDINATOR"]
    assert harness.runner.state is ShardState.CLOSED


async def test_closing_while_loading_leaves_it_closed(harness: Harness, caplog: pytest.LogCaptureFixture):
    harness.partition.append(
        build_batch([(0, b"a", b"b", ())]), acks=-1, on_ack=lambda ack: None, origin=AppendOrigin.COORDINATOR
    )
    harness.runner.start()
    harness.runner.close()
    await until(lambda: len(harness.environment.tasks) == 0)
    assert harness.runner.state is ShardState.CLOSED
    assert caplog.records == []


async def test_a_shard_whose_partition_moved_away_closes_when_its_append_is_refused(harness: Harness):
    await harness.load()
    harness.partition.stop()
    harness.ask(put("a", "one"))
    harness.turn.end()
    assert harness.heard == ["NOT_COORDINATOR"]
    assert harness.runner.state is ShardState.CLOSED
