from uuid import UUID

import pytest

from ottla.gateways.kafka.api_20_delete_topics import API
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def by_name(*names, version=API.max_version):
    if version >= 6:
        return DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=name) for name in names))
    return DeleteTopicsRequest(topic_names=names)


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_deletes_by_name(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a"), NewTopic("b")])
    answer = await gateway.ask(API, by_name("a", "x", version=version), version)
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("a", ErrorCode.NONE),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(gateway.image.topics_by_name) == ["b"]


async def test_a_topic_is_deleted_by_id(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    topic_id = gateway.image.topic("a").topic_id
    states = (DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=UUID(int=9)))
    answer = await gateway.ask(API, DeleteTopicsRequest(topics=states))
    assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
        ("a", topic_id, ErrorCode.NONE),
        (None, UUID(int=9), ErrorCode.UNKNOWN_TOPIC_ID),
    ]


async def test_a_topic_is_named_in_exactly_one_way(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    states = (DeleteTopicState(), DeleteTopicState(name="a", topic_id=gateway.image.topic("a").topic_id))
    answer = await gateway.ask(API, DeleteTopicsRequest(topics=states))
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert gateway.image.topic("a") is not None


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (6, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_that_is_switched_off_is_said_as_the_version_can(open_gateway, version, code):
    gateway = await open_gateway({"delete.topic.enable": "false"})
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    (response,) = (await gateway.ask(API, by_name("a", version=version), version)).responses
    assert response.error_code == code
    assert gateway.image.topic("a") is not None
