"""Settings through admin clients: where they come from, what they mean, and why they are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType
from kafka.admin import KafkaAdminClient

from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.topic_table import TOPIC_SETTINGS
from tests.broker_process import BrokerProcess
from tests.conformance.admins import aio_client, fresh_name, only, refused
from tests.conformance.topics import new_topic


@pytest.fixture
def confluent(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    return only(admin.describe_configs([ConfigResource(kind, name)]))


def own(admin: AdminClient, topic: str) -> dict[str, str]:
    """What a topic sets itself."""
    entries = described(admin, ResourceType.TOPIC, topic).values()
    return {each.name: each.value for each in entries if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}


def set_incrementally(admin: AdminClient, kind: ResourceType, name: str, *changes: ConfigEntry) -> None:
    only(admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=list(changes))]))


def change(name: str, value: str, operation: AlterConfigOpType = AlterConfigOpType.SET) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)


@pytest.mark.proves(client="confluent-kafka", feature="admin: settings")
class TestConfluent:
    def test_every_setting_that_is_honoured_is_described(self, confluent, broker):
        topic = new_topic(broker)
        for kind, name, table in (
            (ResourceType.TOPIC, topic, TOPIC_SETTINGS),
            (ResourceType.BROKER, "1", BROKER_SETTINGS),
        ):
            entries = described(confluent, kind, name)
            assert set(entries) == set(table)
            for entry in entries.values():
                assert entry.is_read_only == (table[entry.name].update_mode.value == "read-only"), entry.name
                assert entry.is_sensitive == table[entry.name].is_secret, entry.name
                assert not entry.is_sensitive or entry.value is None, entry.name

    def test_synonyms_say_what_holds_if_a_setting_is_taken_back(self, confluent, broker):
        topic = new_topic(broker, segment_bytes="2000000")
        entry = described(confluent, ResourceType.TOPIC, topic)["segment.bytes"]
        assert [(each.name, each.value, each.source) for each in entry.synonyms.values()] == [
            ("segment.bytes", "2000000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value),
            ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG.value),
        ]

    def test_replacing_settings_takes_back_the_others(self, confluent, broker):
        topic = new_topic(broker, retention_ms="5000000", segment_ms="6000000")
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "7000000"})
        with pytest.deprecated_call():
            only(confluent.alter_configs([resource]))
        assert own(confluent, topic) == {"segment.ms": "7000000"}

    def test_a_default_of_the_broker_reaches_its_topics_and_goes_again(self, new_broker):
        broker = new_broker().start()
        confluent = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = new_topic(broker)
        set_incrementally(confluent, ResourceType.BROKER, "1", change("log.retention.ms", "9000000"))
        entry = described(confluent, ResourceType.TOPIC, topic)["retention.ms"]
        assert (entry.value, entry.source) == ("9000000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
        with pytest.deprecated_call():
            only(confluent.alter_configs([ConfigResource(ResourceType.BROKER, "1")]))
        assert described(confluent, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000"

    @pytest.mark.parametrize(
        ("kind", "name", "value", "said"),
        [
            (ResourceType.TOPIC, "no.such", "1", "Unknown topic config name: no.such: take it out"),
            (ResourceType.TOPIC, "retention_ms", "1", "did you mean retention.ms?"),
            (ResourceType.TOPIC, "log.retention.ms", "1", "on a topic, set retention.ms"),
            (
                ResourceType.TOPIC,
                "compression.type",
                "none",
                "it must be one of: uncompressed, zstd, lz4, snappy, gzip",
            ),
            (ResourceType.TOPIC, "compression.gzip.level", "10", "it must be at most 9, or -1"),
            (ResourceType.TOPIC, "remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
            (ResourceType.TOPIC, "retention.ms", "soon", "it must be a whole number of at least -1"),
            (ResourceType.TOPIC, "cleanup.policy", "keep", "it must be one of: compact, delete"),
            (ResourceType.TOPIC, "preallocate", "yes", "Expected value to be either true or false"),
            (ResourceType.TOPIC, "min.cleanable.dirty.ratio", "2", "it must be at most 1"),
            (ResourceType.BROKER, "no.such", "1", "Unknown broker config name: no.such: take it out"),
            (ResourceType.BROKER, "num.partitions", "4", "Cannot update num.partitions dynamically, it is read-only"),
            (ResourceType.BROKER, "ssl.keystore.location", "k", "updated only per-listener using the listener prefix"),
            (ResourceType.BROKER, "num.io.threads", "2", "would change nothing"),
            (ResourceType.BROKER, "log.retention.ms", "soon", "Not a number of type LONG; it must be a whole number"),
        ],
    )
    def test_what_cannot_be_set_is_refused_by_name_with_what_to_do(self, confluent, broker, kind, name, value, said):
        resource = new_topic(broker) if kind is ResourceType.TOPIC else "1"
        error = refused(lambda: set_incrementally(confluent, kind, resource, change(name, value)))
        assert error.code() == KafkaError.INVALID_CONFIG
        assert name in error.str()
        assert said in error.str()

    def test_a_new_topic_hears_of_every_setting_it_cannot_have(self, confluent):
        name = fresh_name()
        config = {"retention.mss": "1", "segment.bytes": "1", "max.message.bytes": "1000"}
        error = refused(lambda: only(confluent.create_topics([NewTopic(name, 1, 1, config=config)])))
        assert error.code() == KafkaError.INVALID_CONFIG
        assert "Unknown topic config name: retention.mss" in error.str()
        assert "Invalid value 1 for configuration segment.bytes: it must be at least 1048576" in error.str()
        assert "max.message.bytes" not in error.str()


@pytest.mark.proves(client="kafka-python", feature="admin: settings")
class TestKafkaPython:
    @pytest.mark.parametrize("incremental", [True, False])
    def test_settings_are_changed_and_taken_back_by_either_request(self, python, confluent, broker, incremental):
        """By the request that replaces all settings, the client sends those along that are to stay."""
        topic, kind = new_topic(broker, retention_ms="5000000"), PythonConfigResourceType.TOPIC
        resource = PythonConfigResource(kind, topic, configs={"segment.ms": "7000000"})
        assert python.alter_configs([resource], incremental=incremental) == {"topic": {topic: "OK"}}
        assert own(confluent, topic) == {"segment.ms": "7000000", "retention.ms": "5000000"}
        resource = PythonConfigResource(kind, topic, configs=["retention.ms"])
        assert python.reset_configs([resource], incremental=incremental) == {"topic": {topic: "OK"}}
        assert own(confluent, topic) == {"segment.ms": "7000000"}

    def test_a_refusal_names_the_setting(self, python, broker):
        topic = new_topic(broker)
        resource = PythonConfigResource(PythonConfigResourceType.TOPIC, topic, configs={"no.such": "1"})
        for incremental in (True, False):
            answer = python.alter_configs([resource], raise_on_unknown=False, incremental=incremental)
            assert "Unknown topic config name: no.such" in answer["topic"][topic]


@pytest.mark.proves(client="aiokafka", feature="admin: settings")
async def test_aiokafka_replaces_settings(broker):
    topic = new_topic(broker, retention_ms="5000000")
    async with aio_client(broker) as client:
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, configs={"segment.ms": "7000000"})
        (altered,) = await client.alter_configs([resource])
        assert [each[0] for each in altered.resources] == [0]
        (answer,) = await client.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, topic)])
        values = {entry[0]: entry[1] for entry in answer.resources[0][4]}
    assert (values["retention.ms"], values["segment.ms"]) == ("604800000", "7000000")
