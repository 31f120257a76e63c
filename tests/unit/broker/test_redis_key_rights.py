"""A topic of one's own takes no key of Redis that is another's: the rights on a key are those on its topic."""

import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.topics import TopicService
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.settings.topic_settings import REDIS_KEY
from tests.unit.broker.conftest import StartController
from tests.unit.broker.rules import Rules

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def rules() -> Rules:
    """Nobody may make any topic, nor that of the key `orders`, or of `user:1`."""
    rules = Rules()
    rules.deny(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    rules.deny(Operation.CREATE, ResourceType.TOPIC, "orders")
    rules.deny(Operation.CREATE, ResourceType.TOPIC, "redis-0-user-3a1")
    return rules


@pytest.fixture
async def services(start_controller: StartController, rules: Rules) -> tuple[TopicService, ConfigService]:
    controller, settings = await start_controller()
    return TopicService(controller, BrokerConfig(), rules), ConfigService(controller, settings, rules)


async def created(topics: TopicService, name: str, key: str) -> int:
    outcome = (await topics.create(ANONYMOUS, [NewTopic(name, configs={REDIS_KEY: key})]))[name]
    return outcome.code if isinstance(outcome, ApiError) else 0


async def altered(configs: ConfigService, topic: str, key: str | None, *, replaces_all: bool = False) -> int:
    operation = AlterOperation.DELETE if key is None else AlterOperation.SET
    request = ResourceAlteration(
        topic_resource(topic), (Alteration(REDIS_KEY, operation, key),), replaces_all=replaces_all
    )
    (outcome,) = (await configs.alter(ANONYMOUS, [request])).values()
    return outcome.code if isinstance(outcome, ApiError) else 0


@pytest.mark.parametrize("key", ["0:orders", "00:orders", "0:%6Frders", "0:user%3A1", "0:user:1", " 0:orders\t"])
async def test_a_topic_is_made_for_a_key_by_who_may_make_the_topic_of_its_name(
    services: tuple[TopicService, ConfigService], rules: Rules, key: str
) -> None:
    topics, configs = services
    assert await created(topics, "mine", key) == DENIED
    assert await created(topics, "mine", "0:mine") == 0
    assert await altered(configs, "mine", key) == DENIED
    assert await altered(configs, "mine", key, replaces_all=True) == DENIED
    rules.denied.clear()
    assert await altered(configs, "mine", key) == 0
    assert await created(topics, "mine-too", key) == 0


async def test_a_topic_keeps_its_key_whoever_changes_its_other_settings(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    topics, configs = services
    assert await created(topics, "mine", "0:other") == 0
    rules.deny(Operation.CREATE, ResourceType.TOPIC, "other")
    assert await altered(configs, "mine", "0:other", replaces_all=True) == 0
    assert await altered(configs, "mine", "no key") == 0
    assert await altered(configs, "mine", "0:mine") == 0
    assert await altered(configs, "mine", None) == 0
    assert await altered(configs, "mine", "0:other") == DENIED


async def test_who_may_make_any_topic_makes_one_for_any_key(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    rules.denied.discard((Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME))
    assert await created(services[0], "mine", "0:orders") == 0


async def test_nobody_says_where_a_stream_begins_that_is_made_with_its_topic(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    topics, configs = services
    rules.denied.clear()
    assert await created(topics, "mine", "5/0:mine") == ErrorCode.INVALID_CONFIG
    assert await created(topics, "mine", "0:a/b") == 0
    assert await altered(configs, "mine", "5/0:mine") == ErrorCode.INVALID_CONFIG
    assert await altered(configs, "mine", "0:mine") == 0
