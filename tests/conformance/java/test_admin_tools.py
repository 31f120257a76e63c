"""The tools of administrators: features, the quorum, quotas, groups, client metrics, reassignments and ACLs."""

import json
from pathlib import Path

import pytest

from tests.conformance.java.kafka_tools import KafkaTools, input_file
from tests.conformance.java.test_configs_tool import described

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="administration")]


def test_features_are_shown_with_what_is_finalized(kafka: KafkaTools) -> None:
    rows = [line.split() for line in kafka.tool("FeatureCommand", "describe").ok().lines]
    found = {row[1]: row for row in rows}
    assert found["metadata.version"][-3] == "4.3-IV0", rows
    assert all(row[0] == "Feature:" for row in rows)


def test_a_feature_that_is_not_there_is_refused(kafka: KafkaTools) -> None:
    refused = kafka.tool("FeatureCommand", "upgrade", "--feature", "no.such.version=1")
    assert refused.code == 1


@pytest.mark.alone("it is the controller")
def test_the_quorum_is_the_controller(kafka: KafkaTools) -> None:
    status = dict(line.split(":", 1) for line in kafka.tool("MetadataQuorumCommand", "describe", "--status").ok().lines)
    assert status["LeaderId"].strip() == "1"
    assert int(status["HighWatermark"]) > 0
    assert status["MaxFollowerLag"].strip() == "0"
    header, row = kafka.tool("MetadataQuorumCommand", "describe", "--replication").ok().lines
    assert dict(zip(header.split(), row.split(), strict=False))["NodeId"] == "1"


class TestQuotas:
    """Of a client id, a user and an address that no other test has."""

    ENTITIES = (
        ("--entity-type", "clients", "--entity-name", "quota-tool"),
        ("--entity-type", "users", "--entity-name", "quota-tool"),
        ("--entity-type", "ips", "--entity-name", "192.0.2.1"),
    )
    KEYS = ("producer_byte_rate", "request_percentage", "connection_creation_rate")

    def test_quotas_are_added_and_described(self, kafka: KafkaTools) -> None:
        for entity, key in zip(self.ENTITIES, self.KEYS, strict=True):
            done = kafka.configs("--alter", *entity, "--add-config", f"{key}=1024").ok()
            assert done.lines[-1].startswith("Completed updating config for")
            (line,) = kafka.configs("--describe", *entity).ok().lines
            assert line.endswith(f"are {key}=1024.0"), line
            kafka.configs("--alter", *entity, "--delete-config", key).ok()
            assert kafka.configs("--describe", *entity).ok().lines == []

    def test_a_quota_that_cannot_be_is_refused(self, kafka: KafkaTools) -> None:
        refused = kafka.configs("--alter", *self.ENTITIES[0], "--add-config", "producer_byte_rate=-1")
        assert refused.code == 1
        assert "greater than 0" in refused.err


def test_a_group_has_settings_before_it_is_there(kafka: KafkaTools, name: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", name)
    kafka.configs("--alter", *entity, "--add-config", "consumer.session.timeout.ms=50000").ok()
    found = described(kafka.configs("--describe", *entity))
    assert found["consumer.session.timeout.ms"][0] == "50000"
    assert found["consumer.session.timeout.ms"][1][0] == "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000"
    refused = kafka.configs("--alter", *entity, "--add-config", "consumer.session.timeout.ms=1000")
    assert (refused.code, "InvalidConfigurationException" in refused.err) == (1, True)
    kafka.configs("--alter", *entity, "--delete-config", "consumer.session.timeout.ms").ok()


def test_subscriptions_to_client_metrics_come_and_go(kafka: KafkaTools, name: str) -> None:
    settings = ("--metrics", "org.apache.kafka.producer.", "--interval", "60000", "--match", "client_id=etl.*")
    kafka.tool("ClientMetricsCommand", "--alter", "--name", name, *settings).ok()
    assert name in kafka.tool("ClientMetricsCommand", "--list").ok().lines
    shown = kafka.tool("ClientMetricsCommand", "--describe", "--name", name).ok().out
    assert "interval.ms=60000" in shown
    assert "client_id=etl.*" in shown
    kafka.tool("ClientMetricsCommand", "--delete", "--name", name).ok()
    assert name not in kafka.tool("ClientMetricsCommand", "--list").ok().lines


@pytest.mark.alone("there is no other to move to")
def test_a_reassignment_to_where_a_partition_is_is_done_at_once(kafka: KafkaTools, name: str, tmp_path: Path) -> None:
    kafka.new_topic(name)
    plan = {"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [1]}]}
    file = input_file(tmp_path, json.dumps(plan))
    tool = "reassign.ReassignPartitionsCommand"
    started = kafka.tool(tool, "--reassignment-json-file", file, "--execute").ok()
    assert any(line.startswith("Successfully started partition reassignment") for line in started.lines)
    verified = kafka.tool(tool, "--reassignment-json-file", file, "--verify").ok()
    assert f"Reassignment of partition {name}-0 is completed." in verified.lines


@pytest.mark.alone("there is no other to move to")
def test_a_reassignment_to_another_broker_is_refused(kafka: KafkaTools, name: str, tmp_path: Path) -> None:
    kafka.new_topic(name)
    plan = {"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [2]}]}
    file = input_file(tmp_path, json.dumps(plan))
    refused = kafka.tool("reassign.ReassignPartitionsCommand", "--reassignment-json-file", file, "--execute")
    assert refused.code == 1


@pytest.mark.parametrize(
    "how", [("--list",), ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")]
)
def test_there_is_no_authorizer(kafka: KafkaTools, how: tuple[str, ...]) -> None:
    refused = kafka.tool("AclCommand", *how)
    assert "No Authorizer is configured" in refused.out + refused.err
