"""What admin clients of others see of features, the quorum, settings of groups, reassignments and absent security."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import InvalidReplicationAssignmentError, InvalidUpdateVersionError

from tests.broker_process import BrokerProcess
from tests.conformance.admins import WAIT_S, fresh_name, only, refused


@pytest.fixture
def confluent(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.mark.proves(client="kafka-python")
class TestKafkaPython:
    @pytest.mark.proves(feature="features")
    def test_features_are_described_and_one_that_is_not_there_is_refused(self, python: Any) -> None:
        found = python.describe_features()["metadata.version"]
        assert found["supported"] == found["finalized"]
        assert found["finalized_epoch"] > 0
        with pytest.raises(InvalidUpdateVersionError):
            python.update_features({"no.such.version": 1})

    @pytest.mark.proves(feature="metadata quorum")
    def test_the_quorum_is_the_controller(self, python: Any) -> None:
        (topic,) = python.describe_metadata_quorum()["topics"]
        (partition,) = topic["partitions"]
        controller = python.describe_cluster()["controller_id"]
        assert partition["leader_id"] == controller
        assert [voter["replica_id"] for voter in partition["current_voters"]] == [controller]

    @pytest.mark.proves(feature="settings of groups")
    def test_a_group_gets_settings_and_is_listed_while_it_has_some(self, python: Any) -> None:
        name = fresh_name()

        def listed() -> list[str]:
            return list(python.list_config_resources([ConfigResourceType.GROUP]).get("group", []))

        setting = "consumer.session.timeout.ms"
        python.alter_configs([ConfigResource(ConfigResourceType.GROUP, name, {setting: "50000"})])
        assert name in listed()
        python.alter_configs([ConfigResource(ConfigResourceType.GROUP, name, {setting: ("DELETE", None)})])
        assert name not in listed()

    @pytest.mark.proves(feature="reassignments")
    @pytest.mark.alone("there is no other to move to")
    def test_a_partition_is_where_it_is_and_nowhere_else(self, python: Any) -> None:
        name = fresh_name()
        python.create_topics([NewTopic(name, 1, -1)])
        place = TopicPartition(name, 0)
        assert python.alter_partition_reassignments({place: [1]})[place] is None
        assert python.alter_partition_reassignments({place: [2]})[place] is InvalidReplicationAssignmentError
        assert not python.list_partition_reassignments()


@pytest.mark.proves(client="confluent-kafka", feature="no authorizer")
class TestWithoutSecurity:
    def test_acls_are_refused_since_nobody_would_ask_them(self, confluent: AdminClient) -> None:
        anything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        binding = AclBinding(
            ResourceType.TOPIC,
            "t",
            ResourcePatternType.LITERAL,
            "User:a",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        assert refused(lambda: only(confluent.create_acls([binding]))).code() == KafkaError.SECURITY_DISABLED
        assert refused(lambda: only(confluent.delete_acls([anything]))).code() == KafkaError.SECURITY_DISABLED

    def test_no_user_has_credentials(self, confluent: AdminClient) -> None:
        assert confluent.describe_user_scram_credentials().result(WAIT_S) == {}
        error = refused(lambda: only(confluent.describe_user_scram_credentials(["a"])))
        assert error.code() == KafkaError.RESOURCE_NOT_FOUND
