"""Topics that streams groups ask for: made in the background, asked for once at a time, not at once after a failure."""

from typing import Any

import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.config import BrokerConfig
from ottla.broker.internal_topic_creation import FAILURES_MAX, RETRY_MS_MAX, RETRY_MS_MIN, InternalTopicCreation
from ottla.broker.topics import TopicService
from ottla.groups.streams.configured_topology import InternalTopic
from ottla.metadata.image.image import topic_resource
from ottla.model.principal import ANONYMOUS
from ottla.runtime.clock import ManualClock
from ottla.runtime.tasks import Tasks
from tests.unit.broker.rules import Rules
from tests.unit.coordination.toy import until

STORE = InternalTopic("app-store-changelog", 3, -1, {"cleanup.policy": "compact"})
BAD = InternalTopic("app-bad", 3, 7, {})


class Asked(TopicService):
    """Counts how often topics are asked for."""

    __slots__ = ("asked",)

    async def create(self, *args: Any, **more: Any) -> Any:
        self.asked = [*getattr(self, "asked", []), [topic.name for topic in args[1]]]
        return await super().create(*args, **more)


@pytest.fixture
async def made(start_controller):
    controller, settings = await start_controller({})
    tasks, clock, rules = Tasks(), ManualClock(), Rules()
    topics = Asked(controller, BrokerConfig.from_settings(settings), rules)
    yield InternalTopicCreation(topics, rules, clock, tasks), topics, clock, rules, tasks
    await tasks.close()


async def done(tasks: Tasks) -> None:
    await until(lambda: not len(tasks))


async def test_a_topic_is_made_as_it_has_to_be_and_asked_for_once(made):
    creation, topics, _, _, tasks = made
    creation.ask(ANONYMOUS, [STORE])
    creation.ask(ANONYMOUS, [STORE])
    await done(tasks)
    assert topics.asked == [["app-store-changelog"]]
    assert len(topics.image.topic(STORE.name).partitions) == 3
    assert topics.image.config(topic_resource(STORE.name)) == {"cleanup.policy": "compact"}
    assert creation.failures([STORE.name]) == {}


async def test_one_that_is_there_already_is_no_failure(made):
    creation, _, _, _, tasks = made
    for _ in range(2):
        creation.ask(ANONYMOUS, [STORE])
        await done(tasks)
    assert creation.failures([STORE.name]) == {}


async def test_one_that_cannot_be_made_is_tried_again_after_a_while_that_doubles(made):
    creation, topics, clock, _, tasks = made
    delay_ms = RETRY_MS_MIN
    for tries in range(1, 9):
        creation.ask(ANONYMOUS, [BAD])
        await done(tasks)
        assert len(topics.asked) == tries
        assert creation.failures([BAD.name])[BAD.name].startswith("Unable to replicate the partition 7 time(s)")
        clock.advance(delay_ms - 1)
        creation.ask(ANONYMOUS, [BAD])
        await done(tasks)
        assert len(topics.asked) == tries, "too early"
        clock.advance(1)
        delay_ms = min(2 * delay_ms, RETRY_MS_MAX)
    creation.ask(ANONYMOUS, [InternalTopic(BAD.name, 3, -1, {})])
    await done(tasks)
    assert creation.failures([BAD.name]) == {}


async def test_failures_are_remembered_up_to_a_number(made):
    creation, _, _, _, tasks = made
    names = [f"app-{index}" for index in range(FAILURES_MAX + 5)]
    creation.ask(ANONYMOUS, [InternalTopic(name, 1, 7, {}) for name in names])
    await done(tasks)
    assert len(creation.failures(names)) == FAILURES_MAX


async def test_who_may_create_topics(made):
    creation, _, _, rules, _ = made
    rules.deny(Operation.CREATE, ResourceType.TOPIC, "b")
    assert creation.refused(ANONYMOUS, ["a", "b"]) == [], "he may create any topic of the cluster"
    rules.deny(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert creation.refused(ANONYMOUS, ["a", "b"]) == ["b"]
