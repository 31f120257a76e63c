from collections.abc import AsyncIterator

import pytest

from ottla.coordination.outcome import Outcome
from ottla.coordination.runtime import CoordinatorRuntime
from ottla.coordination.shard_state import ShardState
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import WordAnswer, WordShard, environment, get, park, put, until


class Harness:
    def __init__(self) -> None:
        self.environment, self.turn = environment()
        self.runtime: CoordinatorRuntime[WordShard] = CoordinatorRuntime(lambda index: WordShard(), self.environment)
        self.heard: list[str] = []

    def ask(self, index: int, operation) -> None:
        self.runtime.submit(
            index, operation, lambda answer: self.heard.append(answer.word or answer.error.name), WordAnswer
        )

    async def elect(self, index: int) -> HeldPartition:
        partition = HeldPartition(self.environment, index=index)
        self.runtime.elected(partition)
        await until(lambda: self.runtime.state(index) is ShardState.ACTIVE)
        return partition


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.environment.tasks.close()


async def test_a_partition_that_is_led_elsewhere_is_not_coordinated_here(harness: Harness):
    harness.ask(1, get("a"))
    assert harness.heard == ["NOT_COORDINATOR"]
    assert harness.runtime.state(1) is None


async def test_each_partition_has_a_shard_of_its_own(harness: Harness):
    await harness.elect(1)
    await harness.elect(2)
    harness.ask(1, put("a", "one"))
    harness.turn.end()
    harness.ask(2, get("a"))
    harness.ask(1, get("a"))
    assert harness.heard == ["one", "NONE", "one"]


async def test_loading_is_seen_from_outside(harness: Harness):
    harness.runtime.elected(HeldPartition(harness.environment))
    assert harness.runtime.is_loading
    assert list(harness.runtime.active_shards()) == []
    await until(lambda: not harness.runtime.is_loading)
    assert len(list(harness.runtime.active_shards())) == 1


async def test_whoever_waits_is_told_when_the_partition_moves_away(harness: Harness):
    await harness.elect(1)
    harness.ask(1, park())
    harness.runtime.resigned(1)
    harness.runtime.resigned(1)
    assert harness.heard == ["NOT_COORDINATOR"]


async def test_a_new_election_loads_anew(harness: Harness):
    partition = await harness.elect(1)
    harness.ask(1, put("a", "one"))
    harness.turn.end()
    harness.ask(1, park())
    harness.runtime.elected(partition)
    await until(lambda: not harness.runtime.is_loading)
    harness.ask(1, get("a"))
    assert harness.heard == ["one", "NOT_COORDINATOR", "one"]


async def test_a_step_of_all_shards_reaches_those_that_serve(harness: Harness):
    await harness.elect(1)
    await harness.elect(2)
    harness.runtime.elected(HeldPartition(harness.environment))
    harness.runtime.step_all(lambda shard, now_ms: Outcome(records=[("all", "here")]))
    assert [shard.words for shard in harness.runtime.active_shards()] == [{"all": "here"}, {"all": "here"}]


async def test_closing_the_runtime_closes_every_shard(harness: Harness):
    await harness.elect(1)
    harness.ask(1, park())
    harness.runtime.close()
    harness.ask(1, get("a"))
    assert harness.heard == ["NOT_COORDINATOR", "NOT_COORDINATOR"]
