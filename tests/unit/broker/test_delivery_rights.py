"""A delay topic is no way around the rules: who names its target must be allowed to write there."""

import pytest

from ottla.broker.access import Operation, ResourceType
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.delivery_rights import DEAD_LETTERS
from ottla.broker.topics import TopicService
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import ConfigResource, ConfigResourceType, topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.settings.topic_settings import DELIVER_TO
from tests.unit.broker.conftest import StartController
from tests.unit.broker.rules import Rules


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
async def services(start_controller: StartController, rules: Rules) -> tuple[TopicService, ConfigService]:
    controller, settings = await start_controller()
    topics = TopicService(controller, BrokerConfig(), rules)
    for topic in (NewTopic("orders"), NewTopic("plain"), NewTopic("mine", configs={DELIVER_TO: "orders"})):
        made = await topics.create(ANONYMOUS, [topic])
        assert not isinstance(made[topic.name], ApiError)
    return topics, ConfigService(controller, settings, rules)


async def outcome_of(configs: ConfigService, topic: str, target: str | None, *, replaces_all: bool = False) -> int:
    operation = AlterOperation.DELETE if target is None else AlterOperation.SET
    request = ResourceAlteration(
        topic_resource(topic), (Alteration(DELIVER_TO, operation, target),), replaces_all=replaces_all
    )
    (outcome,) = (await configs.alter(ANONYMOUS, [request])).values()
    return outcome.code if isinstance(outcome, ApiError) else 0


async def test_a_new_topic_delivers_only_where_its_maker_may_write(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    topics, _ = services
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "orders")
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "missing")
    wanted = [
        NewTopic("a", configs={DELIVER_TO: "orders"}),
        NewTopic("b", configs={DELIVER_TO: "missing"}),
        NewTopic("c", configs={DELIVER_TO: "plain"}),
        NewTopic("d", configs={DELIVER_TO: " orders\t"}),
    ]
    outcomes = await topics.create(ANONYMOUS, wanted)
    codes = [each.code if isinstance(each, ApiError) else 0 for each in outcomes.values()]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes == [denied, denied, 0, denied]
    assert topics.image.topic("a") is None


async def test_a_target_is_set_by_who_may_write_there_and_read_here(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    _, configs = services
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "orders")
    assert await outcome_of(configs, "plain", "orders") == denied
    assert await outcome_of(configs, "plain", " orders") == denied
    assert await outcome_of(configs, "plain", "orders", replaces_all=True) == denied
    assert await outcome_of(configs, "mine", "orders", replaces_all=True) == 0  # as it is
    assert await outcome_of(configs, "mine", None) == 0
    assert await outcome_of(configs, "mine", "orders") == denied
    rules.denied.clear()
    rules.deny(Operation.READ, ResourceType.TOPIC, "plain")
    assert await outcome_of(configs, "plain", "orders") == denied
    rules.denied.clear()
    assert await outcome_of(configs, "plain", "orders") == 0


async def test_who_makes_a_delay_topic_may_write_where_its_dead_letters_come_to(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    topics, configs = services
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "dlq.plain")
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "dlq.new")
    made = await topics.create(ANONYMOUS, [NewTopic("new", configs={DELIVER_TO: "orders"})])
    assert isinstance(refused := made["new"], ApiError)
    assert refused.code == denied
    assert await outcome_of(configs, "plain", "orders") == denied
    rules.denied.clear()
    assert await outcome_of(configs, "plain", "orders") == 0


async def test_a_topic_for_the_dead_letters_of_a_group_is_named_by_who_may_write_there(
    services: tuple[TopicService, ConfigService], rules: Rules
) -> None:
    _, configs = services
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def named(topic: str, *, replaces_all: bool = False) -> int:
        request = ResourceAlteration(
            ConfigResource(ConfigResourceType.GROUP, "workers"),
            (Alteration(DEAD_LETTERS, AlterOperation.SET, topic),),
            replaces_all=replaces_all,
        )
        (outcome,) = (await configs.alter(ANONYMOUS, [request])).values()
        return outcome.code if isinstance(outcome, ApiError) else 0

    assert await named("plain") == 0
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "orders")
    rules.deny(Operation.WRITE, ResourceType.TOPIC, "plain")
    assert [await named("orders"), await named(" orders "), await named("orders", replaces_all=True)] == [denied] * 3
    assert [await named("plain", replaces_all=True), await named(""), await named("plain")] == [0, 0, denied]
