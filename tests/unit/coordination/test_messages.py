"""Messages of outcomes leave when what they rest on is committed, and records of transactions keep their place."""

from typing import Any

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_runner import ShardRunner
from ottla.coordination.shard_state import ShardState
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import ManualEnvironment, WordAnswer, WordShard, environment, put, until


class Harness:
    def __init__(self, *, holds_back: bool = False, **limits: int) -> None:
        made, self.turn = environment(**limits)
        self.sent: list[Any] = []
        self.environment = ManualEnvironment(
            made.clock, made.timer, made.tasks, made.defer, made.limits, self.sent.append
        )
        self.partition = HeldPartition(self.environment, holds_back=holds_back)
        self.runner = ShardRunner(self.partition, WordShard, self.environment)

    async def load(self) -> None:
        self.runner.start()
        await until(lambda: self.runner.state is not ShardState.LOADING)


def saying(message: str) -> Any:
    return lambda shard, now_ms: Outcome(records=[("a", "one")], messages=[message])


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
