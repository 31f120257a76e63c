"""What administrators do with their client libraries: topics, partitions, settings, the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType
from kafka.admin import KafkaAdminClient
from kafka.admin import NewPartitions as PythonNewPartitions
from kafka.admin import NewTopic as PythonNewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tests.broker_process import BrokerProcess
from tests.conformance.admins import WAIT_S, aio_client, fresh_name, only, refused


@pytest.fixture
def confluent(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.mark.proves(client="confluent-kafka")
class TestConfluent:
    @pytest.mark.proves(feature="admin: topics")
    @pytest.mark.alone("it leads everything")
    def test_a_topic_lives_from_creation_to_deletion(self, confluent):
        name = fresh_name()
        only(confluent.create_topics([NewTopic(name, 3, 1)]))
        metadata = confluent.list_topics(name, WAIT_S).topics[name]
        assert metadata.error is None
        assert {index: (each.leader, each.replicas, each.isrs) for index, each in metadata.partitions.items()} == {
            index: (1, [1], [1]) for index in range(3)
        }
        only(confluent.create_partitions([NewPartitions(name, 5)]))
        described = only(confluent.describe_topics(TopicCollection([name])))
        assert (described.name, len(described.partitions), described.is_internal) == (name, 5, False)
        assert described.partitions[4].leader.id == 1
        only(confluent.delete_topics([name]))
        assert name not in confluent.list_topics(timeout=WAIT_S).topics

    @pytest.mark.proves(feature="admin: topics")
    def test_a_topic_made_again_has_another_id(self, confluent):
        name = fresh_name()
        ids = []
        for _ in range(2):
            only(confluent.create_topics([NewTopic(name, 1, 1)]))
            topic_id = only(confluent.describe_topics(TopicCollection([name]))).topic_id
            ids.append((topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()))
            only(confluent.delete_topics([name]))
        assert ids[0] != ids[1]
        assert (0, 0) not in ids

    @pytest.mark.proves(feature="admin: topics")
    def test_defaults_are_the_brokers(self, confluent):
        name = fresh_name()
        only(confluent.create_topics([NewTopic(name)]))
        assert len(confluent.list_topics(name, WAIT_S).topics[name].partitions) == 1

    @pytest.mark.parametrize(
        ("topic", "code"),
        [
            (NewTopic("bad name", 1, 1), KafkaError.TOPIC_EXCEPTION),
            (NewTopic("a" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
            (NewTopic("admin-refused", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
            (NewTopic("admin-refused", 20_000, 1), KafkaError.POLICY_VIOLATION),
            (NewTopic("admin-refused", 1, replica_assignment=[[9]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
            (NewTopic("admin-refused", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
            (NewTopic("admin-refused", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        ],
    )
    @pytest.mark.proves(feature="admin: topics")
    def test_what_cannot_be_is_refused_with_a_reason(self, confluent, topic, code):
        error = refused(lambda: only(confluent.create_topics([topic])))
        assert error.code() == code
        assert error.str()
        assert "admin-refused" not in confluent.list_topics(timeout=WAIT_S).topics

    @pytest.mark.proves(feature="admin: topics")
    def test_a_topic_is_made_once_and_deleted_once(self, confluent):
        name = fresh_name()
        only(confluent.create_topics([NewTopic(name, 1, 1)]))
        again = refused(lambda: only(confluent.create_topics([NewTopic(name, 1, 1)])))
        assert again.code() == KafkaError.TOPIC_ALREADY_EXISTS
        only(confluent.delete_topics([name]))
        gone = refused(lambda: only(confluent.delete_topics([name])))
        assert gone.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    @pytest.mark.proves(feature="admin: topics")
    def test_partitions_are_only_added(self, confluent):
        name = fresh_name()
        only(confluent.create_topics([NewTopic(name, 2, 1)]))

        def change_to(count: int) -> Callable[[], object]:
            return lambda: only(confluent.create_partitions([NewPartitions(name, count)]))

        for count in (1, 2):
            error = refused(change_to(count))
            assert error.code() == KafkaError.INVALID_PARTITIONS

    @pytest.mark.proves(feature="admin: topics")
    def test_only_checking_changes_nothing(self, confluent):
        name = fresh_name()
        only(confluent.create_topics([NewTopic(name, 2, 1)], validate_only=True))
        assert name not in confluent.list_topics(timeout=WAIT_S).topics

    @pytest.mark.proves(feature="admin: settings")
    def test_settings_are_set_described_and_taken_back(self, confluent):
        name = fresh_name()
        only(confluent.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "5000"})]))

        def entries() -> dict[str, ConfigEntry]:
            return only(confluent.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))

        def alter(*changes: ConfigEntry) -> None:
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(changes))
            only(confluent.incremental_alter_configs([resource]))

        before = entries()["retention.ms"]
        assert (before.value, before.is_default, before.is_read_only) == ("5000", False, False)
        alter(
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
            ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        )
        after = entries()
        assert (after["retention.ms"].value, after["retention.ms"].is_default) == ("604800000", True)
        assert after["max.message.bytes"].value == "2000"
        assert after["cleanup.policy"].value == "delete,compact"
        alter(ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT))
        assert entries()["cleanup.policy"].value == "compact"
        error = refused(
            lambda: alter(ConfigEntry("no.such", "1", incremental_operation=AlterConfigOpType.SET)),
        )
        assert error.code() == KafkaError.INVALID_CONFIG
        assert "no.such" in error.str()

    @pytest.mark.proves(feature="admin: settings")
    def test_a_broker_describes_itself(self, confluent):
        entries = only(confluent.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
        assert entries["log.flush.before.ack"].value == "true"
        assert entries["num.partitions"].is_read_only
        assert not entries["log.retention.ms"].is_read_only

    @pytest.mark.proves(feature="admin: cluster")
    @pytest.mark.alone("the cluster is its address")
    def test_the_cluster_is_the_broker_at_the_address_we_came_by(self, confluent, broker):
        cluster = confluent.describe_cluster().result(WAIT_S)
        assert cluster.cluster_id == confluent.list_topics(timeout=WAIT_S).cluster_id
        assert cluster.controller.id == 1
        assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap]

    @pytest.mark.proves(feature="admin: topics")
    def test_ten_topics_in_one_request_are_answered_one_by_one(self, confluent):
        names = [fresh_name() for _ in range(10)]
        futures = confluent.create_topics([NewTopic(name, 1, 1) for name in [*names, "bad name"]])
        for name in names:
            futures[name].result(WAIT_S)
        assert refused(lambda: futures["bad name"].result(WAIT_S)).code() == KafkaError.TOPIC_EXCEPTION
        for future in confluent.delete_topics(names).values():
            future.result(WAIT_S)
        assert not set(names) & set(confluent.list_topics(timeout=WAIT_S).topics)


@pytest.mark.proves(client="kafka-python")
class TestKafkaPython:
    @pytest.mark.proves(feature="admin: topics")
    @pytest.mark.alone("it leads everything")
    def test_a_topic_lives_from_creation_to_deletion(self, python):
        name = fresh_name()
        (created,) = python.create_topics([PythonNewTopic(name, 3, 1, topic_configs={"retention.ms": "5000"})])[
            "topics"
        ]
        assert (created["error_code"], created["num_partitions"]) == (0, 3)
        assert created["configs"]["retention.ms"]["value"] == "5000"
        with pytest.raises(TopicAlreadyExistsError):
            python.create_topics([PythonNewTopic(name, 3, 1)])
        assert name in python.list_topics()
        python.create_partitions({name: PythonNewPartitions(5)})
        (described,) = python.describe_topics([name])
        assert described["topic_id"] == created["topic_id"]
        assert [each["partition_index"] for each in described["partitions"]] == [0, 1, 2, 3, 4]
        assert all(each["leader_id"] == 1 for each in described["partitions"])
        python.delete_topics([name])
        with pytest.raises(UnknownTopicOrPartitionError):
            python.delete_topics([name])

    @pytest.mark.proves(feature="admin: settings")
    def test_settings_are_changed_and_described_with_their_synonyms(self, python):
        name = fresh_name()
        python.create_topics([PythonNewTopic(name, 1, 1)])
        resource = PythonConfigResource(PythonConfigResourceType.TOPIC, name, configs={"retention.ms": "7000"})
        assert python.alter_configs([resource]) == {"topic": {name: "OK"}}
        described = python.describe_configs(
            [PythonConfigResource(PythonConfigResourceType.TOPIC, name)], include_synonyms=True, config_filter="all"
        )
        entry = described["topic"][name]["retention.ms"]
        assert (entry["value"], entry["config_source"], entry["config_type"]) == (
            "7000",
            "DYNAMIC_TOPIC_CONFIG",
            "LONG",
        )
        assert [(each["name"], each["source"]) for each in entry["synonyms"]] == [
            ("retention.ms", "DYNAMIC_TOPIC_CONFIG"),
            ("log.retention.hours", "DEFAULT_CONFIG"),
        ]

    @pytest.mark.proves(feature="admin: topics")
    @pytest.mark.alone("the broker that is asked at once may be another")
    def test_partitions_are_described_page_by_page(self, python):
        name = fresh_name()
        (created,) = python.create_topics([PythonNewTopic(name, 7, 1)])["topics"]
        answer = python.describe_topic_partitions([name], response_partition_limit=3)
        (topic,) = answer["topics"]
        assert topic["topic_id"] == UUID(created["topic_id"])
        assert [each["partition_index"] for each in topic["partitions"]] == [0, 1, 2]
        assert (answer["next_cursor"]["topic_name"], answer["next_cursor"]["partition_index"]) == (name, 3)

    @pytest.mark.proves(feature="admin: cluster")
    @pytest.mark.alone("the cluster is its address")
    def test_the_cluster_is_described(self, python, broker):
        cluster = python.describe_cluster()
        assert cluster["controller_id"] == 1
        assert [f"{each['host']}:{each['port']}" for each in cluster["brokers"]] == [broker.bootstrap]


@pytest.mark.proves(client="aiokafka")
class TestAioKafka:
    @pytest.mark.proves(feature="admin: topics")
    @pytest.mark.alone("the broker that is asked at once may be another")
    async def test_a_topic_lives_from_creation_to_deletion(self, broker):
        name = fresh_name()
        async with aio_client(broker) as client:
            created = await client.create_topics([AioNewTopic(name, 2, 1)])
            assert [code for _, code, _ in created.topic_errors] == [0]
            assert name in await client.list_topics()
            grown = await client.create_partitions({name: AioNewPartitions(4)})
            assert [code for _, code, _ in grown.topic_errors] == [0]
            (described,) = await client.describe_topics([name])
            assert sorted(each["partition"] for each in described["partitions"]) == [0, 1, 2, 3]
            (configs,) = await client.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, name)])
            entries = {entry[0]: entry[1] for entry in configs.resources[0][4]}
            assert entries["retention.ms"] == "604800000"
            deleted = await client.delete_topics([name])
            assert [code for _, code in deleted.topic_error_codes] == [0]
            assert name not in await client.list_topics()

    @pytest.mark.proves(feature="admin: cluster")
    @pytest.mark.alone("the cluster is its address")
    async def test_the_cluster_is_described(self, broker):
        async with aio_client(broker) as client:
            cluster = await client.describe_cluster()
        assert [f"{each['host']}:{each['port']}" for each in cluster["brokers"]] == [broker.bootstrap]


def test_topics_settings_and_the_cluster_id_survive_a_kill(new_broker):
    broker = new_broker().start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = [fresh_name() for _ in range(5)]
    wanted = [NewTopic(name, 2, 1, config={"retention.ms": "5000"}) for name in names]
    for future in admin.create_topics(wanted).values():
        future.result(WAIT_S)
    topics = TopicCollection(names)
    ids = {name: str(future.result(WAIT_S).topic_id) for name, future in admin.describe_topics(topics).items()}
    cluster_id = admin.list_topics(timeout=WAIT_S).cluster_id
    broker.kill()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    after = {name: str(future.result(WAIT_S).topic_id) for name, future in admin.describe_topics(topics).items()}
    assert after == ids
    assert admin.list_topics(timeout=WAIT_S).cluster_id == cluster_id
    entries = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, names[0])]))
    assert entries["retention.ms"].value == "5000"


def test_a_broker_with_settings_of_its_own_says_so(new_broker):
    broker = new_broker(
        num_partitions="4", log_retention_hours="1", delete_topic_enable="false", auto_create_topics_enable="false"
    ).start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    only(admin.create_topics([NewTopic("t")]))
    assert len(admin.list_topics("t", WAIT_S).topics["t"].partitions) == 4
    entries = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "t")]))
    assert entries["retention.ms"].value == "3600000"
    assert refused(lambda: only(admin.delete_topics(["t"]))).code() == KafkaError.TOPIC_DELETION_DISABLED
    missing = admin.list_topics("not-there", WAIT_S).topics["not-there"]
    assert missing.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
