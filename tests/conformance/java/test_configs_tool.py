"""kafka-configs: describe, add and delete for topics and brokers, with the source of every value."""

import re
from collections.abc import Iterator

import pytest

from tests.conformance.java.jvm import Ended
from tests.conformance.java.kafka_tools import KafkaTools

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="configs")]
LINE = re.compile(r"  (?P<name>[\w.]+)=(?P<value>.*) sensitive=(?P<sensitive>\w+) synonyms=\{(?P<synonyms>.*)\}")


def described(ended: Ended) -> dict[str, tuple[str, list[str]]]:
    """Each setting with its value and where the value comes from, most specific first."""
    found = [LINE.fullmatch(line) for line in ended.ok().lines[1:]]
    assert None not in found
    return {line["name"]: (line["value"], line["synonyms"].split(", ")) for line in found}


def of_topic(kafka: KafkaTools, name: str, *more: str) -> dict[str, tuple[str, list[str]]]:
    return described(kafka.configs("--describe", "--entity-type", "topics", "--entity-name", name, *more))


def test_a_setting_of_a_topic_is_added_changed_and_deleted(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)

    def alter(*how: str) -> None:
        done = kafka.configs("--alter", "--entity-type", "topics", "--entity-name", name, *how).ok()
        assert done.lines == [f"Completed updating config for topic {name}."]

    assert "max.message.bytes" not in of_topic(kafka, name)
    alter("--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]")
    values = of_topic(kafka, name)
    assert values["max.message.bytes"][0] == "2000"
    assert values["max.message.bytes"][1][0] == "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000"
    assert values["max.message.bytes"][1][-1] == "DEFAULT_CONFIG:message.max.bytes=1048588"
    assert values["cleanup.policy"][0] == "compact,delete"
    alter("--add-config", "max.message.bytes=3000", "--delete-config", "cleanup.policy")
    values = of_topic(kafka, name)
    assert values["max.message.bytes"][0] == "3000"
    assert "cleanup.policy" not in values
    alter("--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in of_topic(kafka, name)


def test_all_settings_of_a_topic_have_values_and_sources(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, retention_ms=5000)
    values = of_topic(kafka, name, "--all")
    assert values["retention.ms"][0] == "5000"
    assert values["segment.bytes"] == ("1073741824", ["DEFAULT_CONFIG:log.segment.bytes=1073741824"])
    assert values["min.insync.replicas"][0] == "1"
    assert values["message.timestamp.type"][0] == "CreateTime"


def test_a_setting_does_what_it_says(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.configs("--alter", "--topic", name, "--add-config", "message.timestamp.type=LogAppendTime").ok()
    kafka.produce(name, ["one"])
    (line,) = kafka.consume(name, 1, "--from-beginning", "--formatter-property", "print.timestamp=true")
    assert line.startswith("LogAppendTime:")


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("nonsense=3", "InvalidConfigurationException"),
        ("retention.ms=soon", "InvalidConfigurationException"),
        ("cleanup.policy=burn", "InvalidConfigurationException"),
        ("min.insync.replicas=0", "InvalidConfigurationException"),
        ("compression.type=brotli", "InvalidConfigurationException"),
        ("compression.gzip.level=10", "InvalidConfigurationException"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_named(kafka: KafkaTools, name: str, setting: str, error: str) -> None:
    kafka.new_topic(name)
    before = of_topic(kafka, name)
    refused = kafka.configs("--alter", "--topic", name, "--add-config", setting)
    assert refused.code == 1
    (cause,) = [line for line in refused.err.splitlines() if line.startswith("Caused by:")]
    assert error in cause
    assert setting.split("=")[0] in cause
    assert of_topic(kafka, name) == before


def test_a_topic_that_is_not_there_has_no_settings(kafka: KafkaTools, name: str) -> None:
    refused = kafka.configs("--alter", "--topic", name, "--add-config", "retention.ms=1")
    assert refused.code == 1
    assert "UnknownTopicOrPartitionException" in refused.err


class TestBroker:
    """Settings of one broker and of all brokers; what a test changes is changed back."""

    @pytest.fixture(autouse=True)
    def changed_back(self, kafka: KafkaTools) -> Iterator[None]:
        yield
        for setting in ("log.retention.bytes", "max.connections", "max.connections.per.ip.overrides"):
            self.alter(kafka, "--broker-defaults", "--delete-config", setting)
            self.alter(kafka, "--broker", "1", "--delete-config", setting)

    def alter(self, kafka: KafkaTools, *how: str) -> None:
        kafka.configs("--alter", *how).ok()

    @pytest.mark.alone("it tells of every topic what is set for itself")
    def test_the_value_of_one_broker_goes_before_the_value_of_all(self, kafka: KafkaTools, name: str) -> None:
        kafka.new_topic(name)
        self.alter(kafka, "--broker-defaults", "--add-config", "log.retention.bytes=1000000")
        self.alter(kafka, "--broker", "1", "--add-config", "log.retention.bytes=2000000")
        everywhere = described(kafka.configs("--describe", "--broker-defaults"))
        assert everywhere["log.retention.bytes"][0] == "1000000"
        here = described(kafka.configs("--describe", "--broker", "1"))
        assert here["log.retention.bytes"] == (
            "2000000",
            [
                "DYNAMIC_BROKER_CONFIG:log.retention.bytes=2000000",
                "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.bytes=1000000",
                "DEFAULT_CONFIG:log.retention.bytes=-1",
            ],
        )
        assert of_topic(kafka, name, "--all")["retention.bytes"][0] == "2000000"
        self.alter(kafka, "--broker", "1", "--delete-config", "log.retention.bytes")
        assert of_topic(kafka, name, "--all")["retention.bytes"][0] == "1000000"

    def test_limits_of_the_broker_itself_are_changed_while_it_runs(self, kafka: KafkaTools) -> None:
        self.alter(kafka, "--broker-defaults", "--add-config", "max.connections=5000")
        self.alter(
            kafka, "--broker", "1", "--add-config", "max.connections.per.ip.overrides=[127.0.0.1:900,10.0.0.1:5]"
        )
        here = described(kafka.configs("--describe", "--all", "--broker", "1"))
        assert here["max.connections"] == (
            "5000",
            ["DYNAMIC_DEFAULT_BROKER_CONFIG:max.connections=5000", "DEFAULT_CONFIG:max.connections=2147483647"],
        )
        assert here["max.connections.per.ip.overrides"][0] == "127.0.0.1:900,10.0.0.1:5"

    def test_all_settings_of_a_broker_have_values_and_sources(self, kafka: KafkaTools) -> None:
        values = described(kafka.configs("--describe", "--all", "--broker", "1"))
        assert values["num.partitions"] == ("1", ["DEFAULT_CONFIG:num.partitions=1"])
        assert values["auto.create.topics.enable"][0] == "true"

    @pytest.mark.parametrize(
        "setting",
        [
            "nonsense=3",
            "log.retention.bytes=soon",
            "node.id=7",
            "max.connections=0",
            pytest.param("listeners=SSL://:1", marks=pytest.mark.alone("its listeners are known to the controller")),
        ],
    )
    def test_a_setting_that_cannot_be_is_refused_and_named(self, kafka: KafkaTools, setting: str) -> None:
        refused = kafka.configs("--alter", "--broker", "1", "--add-config", setting)
        assert refused.code == 1
        assert setting.split("=")[0] in refused.err.split("Caused by:")[-1]


def test_everything_of_a_kind_is_described_at_once(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.produce(name, ["one"])
    kafka.consume(name, 1, "--group", name, "--from-beginning")

    def all_of(kind: str) -> list[str]:
        return kafka.configs("--describe", "--entity-type", kind).ok().lines

    assert f"Dynamic configs for topic {name} are:" in all_of("topics")
    assert f"Dynamic configs for group {name} are:" in all_of("groups")
    assert all_of("brokers")[0] == "Dynamic configs for broker 1 are:"
    assert all_of("client-metrics") == []


def test_the_level_of_a_logger_is_set_and_given_back(kafka: KafkaTools) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")

    def levels() -> dict[str, str]:
        lines = kafka.configs("--describe", *loggers).ok().lines[1:]
        found = [re.fullmatch(r"  (\S+)=(\w+) sensitive=false synonyms=\{\}", line) for line in lines]
        return {line[1]: line[2] for line in found if line}

    before = levels()
    assert before["ottla"] == "WARN"
    name = next(name for name in before if name.startswith("ottla.network"))
    kafka.configs("--alter", *loggers, "--add-config", f"{name}=DEBUG").ok()
    assert levels() == {**before, name: "DEBUG"}
    kafka.configs("--alter", *loggers, "--delete-config", name).ok()
    assert levels() == before
    refused = kafka.configs("--alter", *loggers, "--add-config", "ottla=LOUD")
    assert refused.code == 1
    assert levels() == before
