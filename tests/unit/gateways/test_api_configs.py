"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

import logging
from collections.abc import Iterator

import pytest

from ottla.gateways.kafka import (
    api_32_describe_configs,
    api_33_alter_configs,
    api_44_incremental_alter_configs,
    api_74_list_config_resources,
)
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.alter_configs import AlterableConfig as ReplacingConfig
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS

DESCRIBE, ALTER = api_32_describe_configs.API, api_44_incremental_alter_configs.API
REPLACE, LIST = api_33_alter_configs.API, api_74_list_config_resources.API
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1


async def describe(gateway, kind, name, keys=None, version=DESCRIBE.max_version, **fields):
    request = DescribeConfigsRequest(resources=(DescribeConfigsResource(kind, name, keys),), **fields)
    (result,) = (await gateway.ask(DESCRIBE, request, version)).results
    return result


async def alter(gateway, *resources, version=ALTER.max_version, validate_only=False):
    request = IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(kind, name, tuple(AlterableConfig(*each) for each in configs))
            for kind, name, configs in resources
        ),
        validate_only=validate_only,
    )
    answer = await gateway.ask(ALTER, request, version)
    return {(each.resource_type, each.resource_name): each for each in answer.responses}


@pytest.mark.parametrize("version", range(DESCRIBE.min_version, DESCRIBE.max_version + 1))
async def test_every_version_describes_a_topic(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", configs={"retention.ms": "5"})])
    result = await describe(gateway, TOPIC, "a", version=version)
    assert (result.error_code, result.error_message, result.resource_name) == (ErrorCode.NONE, "", "a")
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", 5)
    assert not configs["retention.ms"].read_only
    assert not any(config.is_sensitive for config in configs.values())
    if version >= 3:
        assert configs["retention.ms"].config_type == 5


async def test_only_the_settings_asked_for_are_described(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    result = await describe(gateway, TOPIC, "a", ("retention.ms", "no.such"))
    assert [config.name for config in result.configs] == ["retention.ms"]
    assert len((await describe(gateway, TOPIC, "a", ())).configs) > 10


async def test_synonyms_are_told_in_the_order_in_which_they_hold(open_gateway):
    gateway = await open_gateway({"log.retention.minutes": "3"})
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", configs={"retention.ms": "5"})])
    await alter(gateway, (BROKER, "", [("log.retention.ms", SET, "9")]))
    result = await describe(gateway, TOPIC, "a", ("retention.ms",), include_synonyms=True)
    synonyms = [(each.name, each.value, each.source) for each in result.configs[0].synonyms]
    assert synonyms == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "9", 3),
        ("log.retention.minutes", "3", 4),
        ("log.retention.hours", "168", 5),
    ]


async def test_synonyms_and_documentation_are_told_only_when_asked_for(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    plain = await describe(gateway, TOPIC, "a", ("retention.ms",))
    assert (plain.configs[0].synonyms, plain.configs[0].documentation) == ((), None)
    asked = await describe(gateway, TOPIC, "a", ("retention.ms",), include_synonyms=True, include_documentation=True)
    assert asked.configs[0].synonyms
    assert "keeps" in asked.configs[0].documentation


async def test_a_broker_describes_itself(open_gateway):
    gateway = await open_gateway({"num.partitions": "3", "node.id": "7"})
    result = await describe(gateway, BROKER, "7", include_synonyms=True)
    configs = {config.name: config for config in result.configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("3", 4)
    assert configs["num.partitions"].read_only
    assert [each.value for each in configs["num.partitions"].synonyms] == ["3", "1"]
    assert not configs["log.retention.ms"].read_only
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == (None, 5)
    assert configs["log.flush.before.ack"].value == "true"


async def test_the_broker_without_a_number_has_only_what_was_set_for_all(gateway):
    assert (await describe(gateway, BROKER, "")).configs == ()
    await alter(gateway, (BROKER, "", [("log.retention.ms", SET, "9")]))
    result = await describe(gateway, BROKER, "")
    assert [(config.name, config.value, config.config_source) for config in result.configs] == [
        ("log.retention.ms", "9", 3)
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "9", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "7", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_that_cannot_be_described_is_told_why(gateway, kind, name, code):
    result = await describe(gateway, kind, name)
    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
    assert result.error_message


async def test_a_group_has_its_own_settings_over_those_of_the_broker(open_gateway):
    gateway = await open_gateway({"group.consumer.session.timeout.ms": "50000"})
    await alter(gateway, (GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "7000")]))
    result = await describe(gateway, GROUP, "g", include_synonyms=True)
    configs = {config.name: config for config in result.configs}
    heartbeat = configs["consumer.heartbeat.interval.ms"]
    assert (heartbeat.value, heartbeat.config_source) == ("7000", 8)
    assert [(each.name, each.value) for each in heartbeat.synonyms] == [
        ("consumer.heartbeat.interval.ms", "7000"),
        ("group.consumer.heartbeat.interval.ms", "5000"),
    ]
    session = configs["consumer.session.timeout.ms"]
    assert (session.value, session.config_source) == ("50000", 4)
    assert configs["share.isolation.level"].value == "read_uncommitted"
    assert gateway.configs.group_settings("g").integer("consumer.heartbeat.interval.ms") == 7_000
    assert gateway.configs.group_settings("other").integer("consumer.heartbeat.interval.ms") == 5_000
    await alter(gateway, (GROUP, "g", [("consumer.heartbeat.interval.ms", DELETE, None)]))
    assert gateway.configs.group_settings("g").integer("consumer.heartbeat.interval.ms") == 5_000


async def test_a_subscription_to_metrics_has_what_was_set_and_the_defaults(gateway):
    await alter(gateway, (METRICS, "s", [("metrics", SET, "a.,b."), ("match", SET, "client_id=x.*")]))
    result = await describe(gateway, METRICS, "s")
    assert {config.name: (config.value, config.config_source) for config in result.configs} == {
        "interval.ms": ("300000", 5),
        "match": ("client_id=x.*", 7),
        "metrics": ("a.,b.", 7),
    }


async def test_groups_and_subscriptions_are_listed_while_they_set_something(gateway):
    request = ListConfigResourcesRequest(resource_types=(METRICS, GROUP))
    assert (await gateway.ask(LIST, request)).config_resources == ()
    await alter(gateway, (GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "7000")]))
    await alter(gateway, (METRICS, "s", [("interval.ms", SET, "100")]))
    listed = (await gateway.ask(LIST, request)).config_resources
    assert [(each.resource_type, each.resource_name) for each in listed] == [(METRICS, "s"), (GROUP, "g")]
    oldest = (await gateway.ask(LIST, ListConfigResourcesRequest(), 0)).config_resources
    assert [each.resource_name for each in oldest] == ["s"]
    await alter(gateway, (GROUP, "g", [("consumer.heartbeat.interval.ms", DELETE, None)]))
    listed = (await gateway.ask(LIST, request)).config_resources
    assert [(each.resource_type, each.resource_name) for each in listed] == [(METRICS, "s")]


@pytest.mark.parametrize("version", range(ALTER.min_version, ALTER.max_version + 1))
async def test_every_version_changes_settings(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    responses = await alter(gateway, (TOPIC, "a", [("retention.ms", SET, "5")]), version=version)
    assert responses[TOPIC, "a"].error_code == ErrorCode.NONE
    assert gateway.configs.topic_settings("a")["retention.ms"] == "5"
    await alter(gateway, (TOPIC, "a", [("retention.ms", DELETE, None)]), version=version)
    assert gateway.configs.topic_settings("a")["retention.ms"] == "604800000"


async def test_each_resource_has_its_own_error(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a"), NewTopic("b")])
    responses = await alter(
        gateway,
        (TOPIC, "a", [("retention.ms", SET, "5")]),
        (TOPIC, "b", [("retention.ms", SET, "x")]),
        (TOPIC, "c", [("retention.ms", SET, "5")]),
        (BROKER, "1", [("num.partitions", SET, "5")]),
        (TOPIC, "d", [("retention.ms", 9, "5")]),
        (99, "e", [("retention.ms", SET, "5")]),
    )
    assert {name: response.error_code for (_, name), response in responses.items()} == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.INVALID_CONFIG,
        "c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "1": ErrorCode.INVALID_CONFIG,
        "d": ErrorCode.INVALID_REQUEST,
        "e": ErrorCode.INVALID_REQUEST,
    }
    assert gateway.configs.topic_settings("a")["retention.ms"] == "5"


async def test_only_checking_changes_nothing(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    responses = await alter(gateway, (TOPIC, "a", [("retention.ms", SET, "5")]), validate_only=True)
    assert responses[TOPIC, "a"].error_code == ErrorCode.NONE
    assert gateway.configs.topic_settings("a")["retention.ms"] == "604800000"


async def test_a_resource_named_twice_is_answered_once_with_an_error(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    change = (TOPIC, "a", [("retention.ms", SET, "5")])
    responses = await alter(gateway, change, change)
    assert [response.error_code for response in responses.values()] == [ErrorCode.INVALID_REQUEST]


async def replace(gateway, *resources, version=REPLACE.max_version, validate_only=False):
    request = AlterConfigsRequest(
        resources=tuple(
            ReplacedResource(kind, name, tuple(ReplacingConfig(*each) for each in configs))
            for kind, name, configs in resources
        ),
        validate_only=validate_only,
    )
    answer = await gateway.ask(REPLACE, request, version)
    return {(each.resource_type, each.resource_name): each for each in answer.responses}


@pytest.mark.parametrize("version", range(REPLACE.min_version, REPLACE.max_version + 1))
async def test_replacing_settings_takes_back_those_that_are_not_named(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", configs={"retention.ms": "5", "segment.ms": "6"})])
    responses = await replace(gateway, (TOPIC, "a", [("segment.ms", "7"), ("max.message.bytes", "8")]), version=version)
    assert (responses[TOPIC, "a"].error_code, responses[TOPIC, "a"].error_message) == (ErrorCode.NONE, None)
    described = await describe(gateway, TOPIC, "a")
    own = {config.name: config.value for config in described.configs if config.config_source == 1}
    assert own == {"segment.ms": "7", "max.message.bytes": "8"}


async def test_replacing_settings_of_all_brokers_reaches_their_topics(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    await alter(gateway, (BROKER, "", [("log.retention.ms", SET, "9"), ("log.roll.ms", SET, "8")]))
    responses = await replace(gateway, (BROKER, "", [("log.retention.ms", "10")]))
    assert responses[BROKER, ""].error_code == ErrorCode.NONE
    settings = gateway.configs.topic_settings("a")
    assert (settings["retention.ms"], settings["segment.ms"]) == ("10", "604800000")


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ((TOPIC, "a", [("retention.ms", "x")]), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "a", [("no.such", "1")]), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "a", [("remote.storage.enable", "true")]), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "a", [("retention.ms", None)]), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "a", [("retention.ms", "1"), ("retention.ms", "2")]), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "x", [("retention.ms", "1")]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "bad name", []), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "1", [("num.partitions", "3")]), ErrorCode.INVALID_CONFIG),
        ((BROKER, "9", []), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ((99, "x", []), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_replace_settings_is_refused_and_nothing_changes(gateway, resource, code):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", configs={"segment.ms": "6"})])
    responses = await replace(gateway, resource)
    assert responses[resource[:2]].error_code == code
    assert responses[resource[:2]].error_message
    assert gateway.configs.topic_settings("a")["segment.ms"] == "6"


async def test_only_checking_a_replacement_changes_nothing(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", configs={"segment.ms": "6"})])
    responses = await replace(gateway, (TOPIC, "a", []), validate_only=True)
    assert responses[TOPIC, "a"].error_code == ErrorCode.NONE
    assert gateway.configs.topic_settings("a")["segment.ms"] == "6"


async def test_the_message_names_every_setting_that_cannot_be_and_what_to_do(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    changes = [("retention_ms", SET, "1"), ("segment.ms", SET, "0"), ("log.retention.bytes", SET, "1")]
    message = (await alter(gateway, (TOPIC, "a", changes)))[TOPIC, "a"].error_message
    assert message == (
        "Unknown topic config name: retention_ms: did you mean retention.ms?; "
        "Invalid value 0 for configuration segment.ms: it must be at least 1; "
        "Unknown topic config name: log.retention.bytes is a setting of brokers: on a topic, set retention.bytes"
    )
    changes = [("retention.ms", SET, "1"), ("ssl.keystore.location", SET, "k"), ("num.io.threads", SET, "4")]
    message = (await alter(gateway, (BROKER, "1", changes)))[BROKER, "1"].error_message
    assert "retention.ms is a setting of topics: on a broker, set log.retention.ms" in message
    assert "set listener.name.NAME.ssl.keystore.location" in message
    assert "num.io.threads would change nothing: Ottla has one event loop" in message


async def test_a_message_stays_short_however_much_is_wrong(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    changes = [(f"{number}{'x' * 5_000}", SET, "1") for number in range(1_000)]
    message = (await alter(gateway, (TOPIC, "a", [*changes, ("retention.ms", SET, "y" * 20_000)])))[
        TOPIC, "a"
    ].error_message
    assert len(message) < 3_000
    assert message.endswith("and 991 more")


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), [(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (LOGGER, "1")]),
        ((TOPIC,), [(TOPIC, "a"), (TOPIC, "b")]),
        ((BROKER, BROKER), [(BROKER, "1")]),
        ((LOGGER, METRICS, GROUP), [(LOGGER, "1")]),
    ],
)
async def test_resources_with_settings_are_listed_by_type(gateway, types, expected):
    await gateway.topics.create(ANONYMOUS, [NewTopic("b"), NewTopic("a")])
    answer = await gateway.ask(LIST, ListConfigResourcesRequest(resource_types=types))
    assert answer.error_code == ErrorCode.NONE
    assert [(each.resource_type, each.resource_name) for each in answer.config_resources] == expected


@pytest.mark.parametrize("types", [(0,), (99,), (TOPIC, 99)])
async def test_a_type_of_resource_that_nobody_knows_is_refused(gateway, types):
    answer = await gateway.ask(LIST, ListConfigResourcesRequest(resource_types=types))
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())


async def test_the_oldest_version_lists_no_topics(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    answer = await gateway.ask(LIST, ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.NONE, ())


async def test_every_setting_is_described_with_type_and_documentation(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    for kind, name in ((TOPIC, "a"), (BROKER, "1")):
        result = await describe(gateway, kind, name, include_synonyms=True, include_documentation=True)
        for config in result.configs:
            assert config.documentation.endswith("."), config.name
            assert config.config_type in {*range(1, 8), 9}, config.name
            has_none = config.value is None or BROKER_SYNONYMS.get(config.name) == ()
            assert has_none == (config.synonyms == ()), config.name
            if config.synonyms:
                assert config.synonyms[0].source == config.config_source, config.name


async def test_what_is_asked_twice_is_told_once(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a"), NewTopic("b")])
    asked = [DescribeConfigsResource(TOPIC, name, keys) for name in "ab" for keys in (None, ("retention.ms",))]
    answer = await gateway.ask(DESCRIBE, DescribeConfigsRequest(resources=tuple(asked * 100)))
    assert [(each.resource_name, len(each.configs)) for each in answer.results] == [
        ("a", len(TOPIC_SETTINGS)),
        ("a", 1),
        ("b", len(TOPIC_SETTINGS)),
        ("b", 1),
    ]


async def test_many_topics_with_settings_of_their_own_are_told_apart(gateway):
    names = [f"t{number}" for number in range(600)]
    await gateway.topics.create(ANONYMOUS, [NewTopic(name, configs={"retention.ms": name[1:]}) for name in names])
    resources = tuple(DescribeConfigsResource(TOPIC, name, None) for name in names)
    answer = await gateway.ask(DESCRIBE, DescribeConfigsRequest(resources=resources))
    values = [[config.value for config in each.configs if config.name == "retention.ms"] for each in answer.results]
    assert values == [[name[1:]] for name in names]


@pytest.mark.parametrize("version", range(DESCRIBE.min_version, DESCRIBE.max_version + 1))
async def test_a_secret_is_shown_to_nobody(open_gateway, version):
    gateway = await open_gateway({"cluster.secret": "nobody is to see this"})
    resource = DescribeConfigsResource(4, "1", ("cluster.secret",))
    answer = await gateway.ask(DESCRIBE, DescribeConfigsRequest((resource,), include_synonyms=True), version)
    (entry,) = answer.results[0].configs
    assert (entry.name, entry.value, entry.is_sensitive, entry.read_only) == ("cluster.secret", None, True, True)
    assert {each.value for each in entry.synonyms} == {None}
    assert "nobody" not in repr(answer)


@pytest.fixture
def own_logger() -> Iterator[logging.Logger]:
    """A logger of the broker, as it was afterwards."""
    logger = logging.getLogger("ottla.test.levels")
    yield logger
    logger.setLevel(logging.NOTSET)


async def levels(gateway, name="1", keys=None):
    result = await describe(gateway, LOGGER, name, keys)
    assert result.error_code == ErrorCode.NONE, result.error_message
    assert {(each.config_source, each.read_only) for each in result.configs} == {(6, False)}
    return {each.name: each.value for each in result.configs}


async def test_the_level_of_a_logger_is_set_and_given_back(gateway, own_logger):
    before = await levels(gateway)
    assert before["ottla.test.levels"] == before["ottla"]
    for said, level in (("DEBUG", logging.DEBUG), ("warn", logging.WARNING), ("TRACE", 5), ("FATAL", logging.CRITICAL)):
        answers = await alter(gateway, (LOGGER, "1", [(own_logger.name, SET, said)]))
        assert answers[LOGGER, "1"].error_code == ErrorCode.NONE
        assert own_logger.level == level
        assert await levels(gateway, keys=(own_logger.name,)) == {own_logger.name: said.upper()}
    await alter(gateway, (LOGGER, "1", [(own_logger.name, SET, "INFO")]), validate_only=True)
    assert own_logger.level == logging.CRITICAL
    await alter(gateway, (LOGGER, "1", [(own_logger.name, DELETE, None)]))
    assert own_logger.level == logging.NOTSET
    assert await levels(gateway) == before


@pytest.mark.parametrize(
    ("broker", "name", "operation", "value", "code"),
    [
        ("7", "ottla", SET, "INFO", ErrorCode.INVALID_REQUEST),
        ("", "ottla", SET, "INFO", ErrorCode.INVALID_REQUEST),
        ("1", "nobody", SET, "INFO", ErrorCode.INVALID_CONFIG),
        ("1", "asyncio", SET, "INFO", ErrorCode.INVALID_CONFIG),
        ("1", "ottla", SET, "LOUD", ErrorCode.INVALID_CONFIG),
        ("1", "ottla", SET, None, ErrorCode.INVALID_CONFIG),
        ("1", "ottla", DELETE, None, ErrorCode.INVALID_REQUEST),
        ("1", "ottla", 2, "INFO", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_level_that_cannot_be_changes_nothing(gateway, own_logger, broker, name, operation, value, code):
    configs = [(own_logger.name, SET, "DEBUG"), (name, operation, value)]
    answers = await alter(gateway, (LOGGER, broker, configs))
    assert answers[LOGGER, broker].error_code == code
    assert own_logger.level == logging.NOTSET


async def test_levels_are_not_replaced_all_at_once(gateway):
    request = AlterConfigsRequest(resources=(ReplacedResource(LOGGER, "1", (ReplacingConfig("ottla", "INFO"),)),))
    (answer,) = (await gateway.ask(REPLACE, request)).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
