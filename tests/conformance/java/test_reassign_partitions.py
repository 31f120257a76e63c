"""kafka-reassign-partitions between the brokers of a cluster, with a throttle that its --verify removes."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.cli.replication_throttle import RATES, REPLICAS
from tests.cluster import Cluster
from tests.conformance.java.jvm import Jvm
from tests.conformance.java.kafka_tools import KafkaTools, input_file

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="reassignment")]
PATIENCE_S = 60
TOOL = "reassign.ReassignPartitionsCommand"


@pytest.fixture
def tools(jvm: Jvm, tmp_path: Path) -> Iterator[KafkaTools]:
    with Cluster(tmp_path) as cluster:
        cluster.wait_until_registered()
        yield KafkaTools(jvm, cluster.bootstrap)


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline


def throttles(tools: KafkaTools, topic: str) -> dict[str, str]:
    """What is set on the topic and on the brokers."""
    found = {}
    for kind, name in (("topics", topic), *(("brokers", str(each)) for each in (1, 2, 3))):
        said = tools.configs("--entity-type", kind, "--entity-name", name, "--describe").ok().out
        for setting in (*RATES, *REPLICAS):
            if f"{setting}=" in said:
                found[f"{name} {setting}"] = said.partition(f"{setting}=")[2].split()[0]
    return found


def test_a_throttled_move_is_executed_and_its_verification_removes_the_throttle(
    tools: KafkaTools, name: str, tmp_path: Path
) -> None:
    tools.topics("--create", "--topic", name, "--replica-assignment", "1").ok()
    tools.produce(name, [str(number) for number in range(100)])

    def plan(*replicas: int) -> tuple[str, Path]:
        partitions = [{"topic": name, "partition": 0, "replicas": replicas}]
        return "--reassignment-json-file", input_file(tmp_path, json.dumps({"version": 1, "partitions": partitions}))

    moved = plan(2, 1)
    said = tools.tool(TOOL, *moved, "--execute", "--throttle", "50000000").ok()
    assert "The inter-broker throttle limit was set to 50000000 B/s" in said.out
    assert f"Successfully started partition reassignment for {name}-0" in said.out
    until(lambda: f"Reassignment of partition {name}-0 is completed." in tools.tool(TOOL, *moved, "--verify").ok().out)
    until(lambda: throttles(tools, name) == {})
    assert sorted(tools.consume(name, 100, "--from-beginning"), key=int) == [str(number) for number in range(100)]
