from types import SimpleNamespace

import pytest

from ottla.broker.config_entry import ConfigSource
from ottla.broker.configs import DESCRIBED_MAX, ConfigService
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import ALL_BROKERS, ConfigResource, ConfigResourceType, topic_resource
from ottla.metadata.records import ConfigRecord
from ottla.model.principal import ANONYMOUS
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.topic_table import TOPIC_SETTINGS

BROKER = ConfigResource(ConfigResourceType.BROKER, "1")


def setting(resource, name, value):
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    return [ResourceAlteration(resource, [Alteration(name, operation, value)])]


@pytest.fixture
async def controller(start_controller):
    controller, _ = await start_controller({"log.retention.minutes": "2"})
    await controller.create_topics([NewTopic("a"), NewTopic("b", configs={"retention.ms": "7"})])
    return controller


@pytest.fixture
def configs(controller):
    return ConfigService(controller, controller._settings)


async def test_the_nearest_value_holds(configs):
    assert configs.topic_settings("a")["retention.ms"] == "120000"
    assert configs.topic_settings("b")["retention.ms"] == "7"
    await configs.alter(ANONYMOUS, setting(ALL_BROKERS, "log.retention.ms", "5"))
    assert configs.topic_settings("a")["retention.ms"] == "5"
    await configs.alter(ANONYMOUS, setting(BROKER, "log.retention.ms", "6"))
    assert configs.topic_settings("a")["retention.ms"] == "6"
    assert configs.topic_settings("b")["retention.ms"] == "7"


async def test_the_described_value_is_the_one_that_holds(configs):
    await configs.alter(ANONYMOUS, setting(BROKER, "log.retention.ms", "6"))
    for topic in ("a", "b"):
        described = {entry.name: entry.value for entry in configs.describe(ANONYMOUS, topic_resource(topic), None)}
        assert described == configs.topic_settings(topic)


async def test_every_setting_is_described(configs):
    assert [entry.name for entry in configs.describe(ANONYMOUS, topic_resource("a"), None)] == list(TOPIC_SETTINGS)
    assert [entry.name for entry in configs.describe(ANONYMOUS, BROKER, None)] == list(BROKER_SETTINGS)


async def test_the_source_of_a_value_is_that_of_its_first_synonym(configs):
    entries = {entry.name: entry for entry in configs.describe(ANONYMOUS, topic_resource("a"), None)}
    assert entries["retention.ms"].source == ConfigSource.STATIC_BROKER
    assert [each.name for each in entries["retention.ms"].synonyms] == ["log.retention.minutes", "log.retention.hours"]
    assert entries["segment.ms"].source == ConfigSource.DEFAULT


async def test_only_logs_whose_settings_may_have_changed_are_told(controller, configs):
    told = []
    controller._loader.publisher.subscribe(
        lambda image, delta: told.append({topic.name for topic in configs.topics_with_changed_settings(image, delta)})
    )
    await configs.alter(ANONYMOUS, setting(topic_resource("a"), "retention.ms", "1"))
    await configs.alter(ANONYMOUS, setting(ALL_BROKERS, "log.retention.ms", "1"))
    await controller.create_topics([NewTopic("new", configs={"retention.ms": "1"})])
    await controller.delete_topics(["b"])
    assert told == [{"a"}, {"a", "b"}, set(), set()]


async def test_a_subscriber_sees_the_settings_of_the_image_it_is_given(controller, configs):
    seen = []
    controller._loader.publisher.subscribe(
        lambda image, delta: seen.append(configs.topic_settings("a", image)["retention.ms"])
    )
    await configs.alter(ANONYMOUS, setting(topic_resource("a"), "retention.ms", "1"))
    assert seen == ["1"]


async def test_topics_that_set_the_same_things_are_described_once(configs, controller):
    await controller.create_topics([NewTopic("c"), NewTopic("d", configs={"retention.ms": "7"})])
    a, b, c, d = (configs.describe(ANONYMOUS, topic_resource(name), None) for name in "abcd")
    assert a is c
    assert b is d
    assert a is not b


@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS])
async def test_what_was_described_is_described_anew_when_a_broker_changes(configs, resource):
    before = [configs.describe(ANONYMOUS, each, None) for each in (topic_resource("a"), BROKER)]
    for value in ("5", "6", None):
        await configs.alter(ANONYMOUS, setting(resource, "log.retention.ms", value))
        topic, broker = (
            {entry.name: entry.value for entry in configs.describe(ANONYMOUS, each, None)}
            for each in (topic_resource("a"), BROKER)
        )
        assert topic["retention.ms"] == (value or "120000")
        assert broker["log.retention.ms"] == value
    assert [configs.describe(ANONYMOUS, each, None) for each in (topic_resource("a"), BROKER)] == before


async def test_what_is_remembered_of_topics_has_a_limit(configs, controller):
    names = [f"t{number}" for number in range(DESCRIBED_MAX + 10)]
    await controller.create_topics(
        [NewTopic(name, configs={"retention.ms": str(number)}) for number, name in enumerate(names)]
    )
    for number, name in enumerate(names):
        entries = {entry.name: entry.value for entry in configs.describe(ANONYMOUS, topic_resource(name), None)}
        assert entries["retention.ms"] == str(number)
    assert len(configs._described) <= DESCRIBED_MAX


async def test_what_holds_on_a_broker_is_its_own_then_that_of_all_then_that_of_its_start(start_controller):
    controller, static = await start_controller({"max.connections": "50"})
    configs = ConfigService(controller, static)

    def holds():
        return configs.broker_settings().integer("max.connections")

    seen = [holds()]
    for resource, value in (
        (ALL_BROKERS, "60"),
        (BROKER, "70"),
        (ALL_BROKERS, "80"),
        (BROKER, None),
        (ALL_BROKERS, None),
    ):
        await configs.alter(ANONYMOUS, setting(resource, "max.connections", value))
        seen.append(holds())
    assert seen == [50, 60, 70, 70, 80, 50]


async def test_replicas_in_sync_that_an_earlier_release_asked_for_on_one_broker_do_not_count(controller, configs):
    image, _ = apply_records(controller.image, [ConfigRecord(BROKER.type, BROKER.name, "min.insync.replicas", "2")])
    configs._controller = SimpleNamespace(image=image)
    assert configs.topic_settings("a")["min.insync.replicas"] == "1"
    (described,) = configs.describe(ANONYMOUS, BROKER, ["min.insync.replicas"])
    assert (described.value, described.source) == ("1", ConfigSource.DEFAULT)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
async def test_groups_follow_what_is_set_on_brokers_while_they_run(configs, kind):
    def holds():
        return configs.group_settings("g").integer(f"{kind}.assignment.interval.ms")

    assert holds() == 1_000
    await configs.alter(ANONYMOUS, setting(ALL_BROKERS, f"group.{kind}.assignment.interval.ms", "5"))
    assert holds() == 5
    group = ConfigResource(ConfigResourceType.GROUP, "g")
    await configs.alter(ANONYMOUS, setting(group, f"{kind}.assignment.interval.ms", "7"))
    assert holds() == 7


async def test_dynamic_settings_of_a_broker_are_described_with_their_sources(configs):
    await configs.alter(ANONYMOUS, setting(ALL_BROKERS, "max.connections", "60"))
    await configs.alter(ANONYMOUS, setting(BROKER, "max.connections", "70"))
    [entry] = configs.describe(ANONYMOUS, BROKER, {"max.connections"})
    assert not entry.is_read_only
    assert [(each.value, each.source) for each in entry.synonyms] == [
        ("70", ConfigSource.DYNAMIC_BROKER),
        ("60", ConfigSource.DYNAMIC_ALL_BROKERS),
        ("2147483647", ConfigSource.DEFAULT),
    ]


async def test_a_dynamic_setting_that_does_not_validate_any_more_leaves_the_others_to_hold():
    static = BrokerSettings({"num.partitions": "3"})
    settings = static.overlaid({"max.connections": "many", "no.such": "1", "max.connections.per.ip": "5"})
    assert settings.integer("max.connections") == static.integer("max.connections")
    assert (settings.integer("max.connections.per.ip"), settings.integer("num.partitions")) == (5, 3)
    assert ["many for configuration max.connections" in settings.warnings[0], "no.such" in settings.warnings[1]] == [
        True,
        True,
    ]


async def test_dynamic_settings_that_contradict_each_other_leave_the_static_ones_to_hold():
    settings = BrokerSettings({"max.connections": "9"}).overlaid(
        {"max.connections": "8", "max.connections.per.ip": "0"}
    )
    assert settings.integer("max.connections") == 9
    assert "max.connections.per.ip=0" in settings.warnings[0]
