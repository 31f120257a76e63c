"""The share coordinator keeps its logs short: what is loaded from them afterwards is what was there before."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from ottla.coordination.outcome import Answer
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import TopicRemovedRecord
from ottla.model.error_code import ErrorCode
from ottla.queues.share_coordinator import ShareCoordinator
from ottla.queues.share_state import ShareKey, ShareState
from ottla.queues.share_state_shard import StateAnswer, WriteState
from ottla.queues.state_batches import StateBatch
from ottla.queues.state_pruner import PRUNE_INTERVAL_MS, RECORDS_MIN
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import environment, until
from tests.unit.metadata.images import image_of, topic_record

KEYS = [ShareKey("group", UUID(int=1), index) for index in range(3)]
GONE = ShareKey("group", UUID(int=2), 0)


class Harness:
    def __init__(self) -> None:
        self.environment, self.turn = environment()
        settings = BrokerSettings({"share.coordinator.state.topic.num.partitions": "1"})
        self.shares = ShareCoordinator(settings, self.environment)
        self.shares.metadata_changed(image_of(topic_record("logs", 1, len(KEYS)), topic_record("gone", 2)))
        self.partition = HeldPartition(self.environment, "__share_group_state", 0)
        self.errors: list[ErrorCode] = []

    async def elect(self) -> None:
        self.shares.elected(self.partition)
        await until(lambda: self.read(KEYS[0]) is not None)

    def read(self, key: ShareKey) -> ShareState | None:
        answers: list[StateAnswer] = []
        self.shares.summary(key, lambda answer: answers.append(answer))
        self.turn.end()
        return answers[0].state if answers and not answers[0].error else None

    def hear(self, answer: Answer) -> None:
        self.errors.append(answer.error)

    def fill(self, count: int) -> None:
        """States, and so many writes to each but the last, which is deleted."""
        for key in [*KEYS, GONE]:
            self.shares.initialize(key, 1, 0, self.hear)
        for offset in range(count):
            for key in KEYS:
                batch = StateBatch(offset, offset, 2, 1) if offset % 2 else StateBatch(offset, offset, 0, 1)
                self.shares.write(WriteState(key, 1, 0, max(0, offset - 5), 3, (batch,)), self.hear)
            self.turn.end()
        self.shares.delete(GONE, self.hear)
        self.turn.end()

    @property
    def start(self) -> int:
        return self.partition.log.log_start_offset


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    await harness.elect()
    yield harness
    harness.shares.close()
    await harness.environment.tasks.close()


def contents(state: ShareState | None) -> object:
    assert state is not None
    return state.state_epoch, state.leader_epoch, state.start_offset, state.complete_count, state.batches


async def test_what_is_loaded_from_a_pruned_log_is_what_was_there_before(harness: Harness) -> None:
    harness.fill(RECORDS_MIN // 3 + 10)
    assert set(harness.errors) == {ErrorCode.NONE}
    before, end = [contents(harness.read(key)) for key in KEYS], harness.partition.high_watermark
    harness.environment.timer.advance(PRUNE_INTERVAL_MS)
    harness.turn.end()
    assert harness.start == end
    assert [contents(harness.read(key)) for key in KEYS] == before
    harness.shares.resigned(harness.partition)
    await harness.elect()
    assert [contents(harness.read(key)) for key in KEYS] == before
    assert contents(harness.read(GONE)) == contents(ShareState())


async def test_a_log_with_few_records_is_left_alone(harness: Harness) -> None:
    harness.fill(10)
    harness.environment.timer.advance(PRUNE_INTERVAL_MS)
    harness.turn.end()
    assert harness.start == 0


async def test_nothing_is_deleted_before_the_states_that_were_written_anew_are_committed(harness: Harness) -> None:
    harness.fill(RECORDS_MIN // 3 + 10)
    harness.partition.holds_back = True
    harness.environment.timer.advance(PRUNE_INTERVAL_MS)
    harness.turn.end()
    assert harness.start == 0
    end = harness.partition.high_watermark
    harness.partition.commit()
    assert harness.start == end


async def test_the_states_of_a_deleted_topic_are_deleted(harness: Harness) -> None:
    image = image_of(topic_record("flights", 1), topic_record("jobs", 2))
    flights, jobs = image.topics_by_name["flights"].topic_id, image.topics_by_name["jobs"].topic_id
    harness.shares.metadata_changed(image)
    of_flights, of_jobs = ShareKey("group", flights, 0), ShareKey("group", jobs, 0)
    for key in (of_flights, of_jobs):
        harness.shares.initialize(key, 7, 3, harness.hear)
    harness.turn.end()
    image, _ = apply_records(image, [TopicRemovedRecord(flights)])
    harness.shares.metadata_changed(image, ["flights"])
    harness.turn.end()
    assert contents(harness.read(of_flights)) == contents(ShareState())
    assert contents(harness.read(of_jobs)) == contents(ShareState(state_epoch=7, start_offset=3, complete_count=0))
    harness.shares.resigned(harness.partition)
    await harness.elect()
    assert contents(harness.read(of_flights)) == contents(ShareState())
    assert contents(harness.read(of_jobs)) == contents(ShareState(state_epoch=7, start_offset=3, complete_count=0))


async def test_no_state_is_made_for_a_topic_that_does_not_exist(harness: Harness) -> None:
    for key in (ShareKey("group", UUID(int=9), 0), KEYS[0]._replace(partition=len(KEYS))):
        harness.shares.initialize(key, 0, 0, harness.hear)
        harness.shares.read(key, 0, harness.hear)
        harness.turn.end()
        assert harness.errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST]
        harness.errors.clear()


async def test_the_leader_of_a_group_that_was_deleted_writes_nothing_to_one_that_was_made_since(
    harness: Harness,
) -> None:
    key = KEYS[0]
    harness.shares.initialize(key, 5, 0, harness.hear)
    harness.shares.delete(key, harness.hear)
    harness.shares.initialize(key, 0, 0, harness.hear)
    harness.shares.write(WriteState(key, 5, 0, 0, -1, (StateBatch(0, 9, 2, 1),)), harness.hear)
    harness.turn.end()
    assert sorted(harness.errors) == [0, 0, 0, ErrorCode.FENCED_STATE_EPOCH]
    assert contents(harness.read(key)) == contents(ShareState(start_offset=0, complete_count=0))


async def test_the_log_of_another_leader_is_left_alone(harness: Harness) -> None:
    harness.fill(RECORDS_MIN // 3 + 10)
    harness.partition.holds_back = True
    harness.environment.timer.advance(PRUNE_INTERVAL_MS)
    harness.turn.end()
    harness.shares.resigned(harness.partition)
    harness.partition.commit()
    assert harness.start == 0
