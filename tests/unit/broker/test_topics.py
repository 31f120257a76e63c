import asyncio

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.topics import TopicService
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import TopicImage, topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS


@pytest.fixture
async def topics(start_controller):
    controller, settings = await start_controller({"num.partitions": "2", "offsets.topic.num.partitions": "5"})
    return TopicService(controller, BrokerConfig.from_settings(settings))


async def test_a_topic_made_by_itself_has_the_brokers_defaults(topics):
    outcomes = await topics.auto_create(ANONYMOUS, ["a", "b", "a"])
    assert {name: len(topic.partitions) for name, topic in outcomes.items()} == {"a": 2, "b": 2}


async def test_a_topic_that_is_there_already_is_found_instead(topics):
    await topics.create(ANONYMOUS, [NewTopic("a", 7)])
    outcome = (await topics.auto_create(ANONYMOUS, ["a"]))["a"]
    assert isinstance(outcome, TopicImage)
    assert len(outcome.partitions) == 7


async def test_two_who_need_the_same_topic_get_the_same_one(topics):
    first, second = await asyncio.gather(topics.auto_create(ANONYMOUS, ["a"]), topics.auto_create(ANONYMOUS, ["a"]))
    assert first["a"].topic_id == second["a"].topic_id


async def test_what_cannot_be_made_is_told_why(topics):
    outcomes = await topics.auto_create(ANONYMOUS, ["a", "bad name", "__cluster_metadata"])
    assert isinstance(outcomes["a"], TopicImage)
    assert outcomes["bad name"].code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert outcomes["__cluster_metadata"].code == ErrorCode.INVALID_REQUEST


async def test_the_offsets_topic_is_made_once_compacted_and_with_as_many_replicas_as_there_are_brokers(topics):
    first = await topics.ensure_internal("__consumer_offsets")
    assert first is await topics.ensure_internal("__consumer_offsets")
    assert (len(first.partitions), first.replication_factor, first.is_internal) == (5, 1, True)
    assert topics.image.config(topic_resource(first.name)) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1048576",
    }


async def test_a_coordinators_topic_that_cannot_be_made_is_an_error(start_controller):
    controller, settings = await start_controller({"partitions.per.broker.max": "3"})
    with pytest.raises(ApiError):
        await TopicService(controller, BrokerConfig.from_settings(settings)).ensure_internal("__consumer_offsets")


async def test_a_topic_that_may_be_there_later_is_asked_for_again_by_clients(topics, monkeypatch):
    """REQUEST_TIMED_OUT of a topic is no error that clients of Metadata know."""

    async def create_topics(*_):
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the metadata store does not answer")

    monkeypatch.setattr(topics._controller, "create_topics", create_topics)
    outcome = (await topics.auto_create(ANONYMOUS, ["a"]))["a"]
    assert (outcome.code, outcome.message) == (ErrorCode.LEADER_NOT_AVAILABLE, "the metadata store does not answer")
