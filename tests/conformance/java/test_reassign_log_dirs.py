"""kafka-reassign-partitions between the log directories of one broker, with a throttle, and kafka-log-dirs."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.java.jvm import Jvm
from tests.conformance.java.kafka_tools import KafkaTools, input_file

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="log directories")]
PATIENCE_S = 60


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / "one", tmp_path / "two"]


@pytest.fixture
def tools(jvm: Jvm, paths: list[Path], tmp_path: Path) -> Iterator[KafkaTools]:
    with BrokerProcess(Path(",".join(map(str, paths))), log_dir=tmp_path) as broker:
        yield KafkaTools(jvm, broker.bootstrap)


def places(tools: KafkaTools, topic: str) -> dict[str, str]:
    """The directory of each partition, as the tool tells."""
    said = tools.log_dirs("--describe", "--topic-list", topic, "--broker-list", "1").ok()
    (broker,) = json.loads(said.lines[-1])["brokers"]
    return {
        each["partition"]: Path(directory["logDir"]).name
        for directory in broker["logDirs"]
        for each in directory["partitions"]
        if not each["isFuture"]
    }


def test_partitions_are_moved_to_the_directory_that_is_named(
    tools: KafkaTools, paths: list[Path], name: str, tmp_path: Path
) -> None:
    tools.new_topic(name, 2)
    tools.produce(name, [str(number) for number in range(100)])
    assert set(places(tools, name).values()) == {"one", "two"}
    plan = {
        "version": 1,
        "partitions": [
            {"topic": name, "partition": number, "replicas": [1], "log_dirs": [str(paths[1])]} for number in range(2)
        ],
    }
    asked = ("--reassignment-json-file", input_file(tmp_path, json.dumps(plan)))
    tool = "reassign.ReassignPartitionsCommand"
    said = tools.tool(tool, *asked, "--execute", "--replica-alter-log-dirs-throttle", "10000000").ok()
    assert said.out.count(f"Successfully started moving log directory to {paths[1]} for replica {name}-") == 2
    deadline = time.monotonic() + PATIENCE_S
    while set(places(tools, name).values()) != {"two"}:
        assert time.monotonic() < deadline
    verified = tools.tool(tool, *asked, "--verify").ok()
    for number in range(2):
        line = f"Reassignment of replica {name}-{number}-1 completed successfully."
        assert line in verified.out
    assert sorted(tools.consume(name, 100, "--from-beginning"), key=int) == [str(number) for number in range(100)]
