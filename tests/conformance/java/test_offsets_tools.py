"""kafka-get-offsets, kafka-delete-records, kafka-log-dirs, kafka-leader-election and the producers of a partition."""

import json
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.java.kafka_tools import KafkaTools, input_file

pytestmark = pytest.mark.peer


@pytest.mark.proves(client="Kafka's tools", feature="get-offsets")
class TestGetOffsets:
    """Partition 0 holds six records of which two are deleted; the fourth has the highest timestamp."""

    @pytest.fixture
    def topic(self, kafka: KafkaTools, name: str, tmp_path: Path) -> str:
        kafka.new_topic(name, 2, retention_ms=-1)
        kafka.java("Records", name, 0, 0, 4, 1000)
        kafka.java("Records", name, 0, 4, 6, 500)
        before = {"partitions": [{"topic": name, "partition": 0, "offset": 2}], "version": 1}
        kafka.delete_records("--offset-json-file", input_file(tmp_path, json.dumps(before))).ok()
        return name

    @pytest.mark.parametrize(
        ("time", "found"),
        [
            (("-1", "latest"), ["0:6", "1:0"]),
            (("-2", "earliest"), ["0:2", "1:0"]),
            (("-3", "max-timestamp"), ["0:3"]),
            (("-4", "earliest-local"), ["0:2", "1:0"]),
            (("-5", "latest-tiered"), []),
            (("-6", "earliest-pending-upload"), []),
            (("0", "1"), ["0:2"]),
            (("1003",), ["0:3"]),
            (("1004", "9999999999999"), []),
        ],
    )
    def test_every_time(self, kafka: KafkaTools, topic: str, time: tuple[str, ...], found: list[str]) -> None:
        for word in time:
            said = kafka.get_offsets("--topic", topic, "--time", word).ok()
            assert said.lines == [f"{topic}:{line}" for line in found]

    def test_some_partitions(self, kafka: KafkaTools, topic: str) -> None:
        assert kafka.get_offsets("--topic-partitions", f"{topic}:0").ok().lines == [f"{topic}:0:6"]
        assert kafka.get_offsets("--topic", topic, "--partitions", "1").ok().lines == [f"{topic}:1:0"]
        assert kafka.get_offsets("--topic-partitions", f"{topic}:1-2").ok().lines == [f"{topic}:1:0"]

    def test_nothing_that_fits_is_an_error(self, kafka: KafkaTools, name: str) -> None:
        said = kafka.get_offsets("--topic", name)
        assert said.code == 1
        assert "Could not match any topic-partitions" in said.err


@pytest.mark.proves(client="Kafka's tools", feature="delete-records")
class TestDeleteRecords:
    def delete(self, kafka: KafkaTools, folder: Path, *before: tuple[str, int, int]) -> tuple[list[str], str]:
        partitions = [{"topic": topic, "partition": number, "offset": offset} for topic, number, offset in before]
        file = input_file(folder, json.dumps({"partitions": partitions, "version": 1}))
        said = kafka.delete_records("--offset-json-file", file)
        assert said.code == 0
        assert said.lines[:2] == ["Executing records delete operation", "Records delete operation completed:"]
        return said.lines[2:], said.err

    def test_what_is_before_an_offset_or_all_of_it(self, kafka: KafkaTools, name: str, tmp_path: Path) -> None:
        kafka.new_topic(name, 2)
        for partition in (0, 1):
            kafka.java("Records", name, partition, 0, 5)
        lines, errors = self.delete(kafka, tmp_path, (name, 0, 3), (name, 1, -1))
        assert errors == ""
        assert sorted(lines) == [f"partition: {name}-0\tlow_watermark: 3", f"partition: {name}-1\tlow_watermark: 5"]
        assert kafka.get_offsets("--topic", name, "--time", "earliest").ok().lines == [f"{name}:0:3", f"{name}:1:5"]
        assert kafka.consume(name, 2, "--from-beginning", "--formatter-property", "print.offset=true") == [
            "Offset:3\t3",
            "Offset:4\t4",
        ]

    def test_nothing_beyond_the_end(self, kafka: KafkaTools, name: str, tmp_path: Path) -> None:
        kafka.new_topic(name)
        kafka.java("Records", name, 0, 0, 5)
        (line,), errors = self.delete(kafka, tmp_path, (name, 0, 6))
        assert line.startswith(f"partition: {name}-0\terror: ")
        assert "OffsetOutOfRangeException" in line
        assert "OFFSET_OUT_OF_RANGE" in errors
        assert kafka.get_offsets("--topic", name, "--time", "earliest").ok().lines == [f"{name}:0:0"]


@pytest.mark.proves(client="Kafka's tools", feature="log-dirs")
@pytest.mark.alone("its files are compared")
def test_the_size_of_each_partition_is_the_size_of_its_file(
    kafka: KafkaTools, broker: BrokerProcess, name: str
) -> None:
    kafka.new_topic(name, 2)
    kafka.java("Records", name, 1, 0, 100)
    said = kafka.log_dirs("--describe", "--topic-list", name, "--broker-list", "1").ok()
    (node,) = json.loads(said.lines[-1])["brokers"]
    (directory,) = node["logDirs"]
    assert (node["broker"], directory["error"], directory["logDir"]) == (1, None, str(broker.data_dir))
    log = broker.data_dir / f"{name}-1" / f"{0:020}.log"
    assert {each["partition"]: each["size"] for each in directory["partitions"]} == {
        f"{name}-0": 0,
        f"{name}-1": log.stat().st_size,
    }
    assert all(each["offsetLag"] == 0 and not each["isFuture"] for each in directory["partitions"])


@pytest.mark.proves(client="Kafka's tools", feature="leader-election")
def test_the_one_leader_is_the_preferred_one(kafka: KafkaTools, name: str, tmp_path: Path) -> None:
    kafka.new_topic(name, 2)
    already = f"Valid replica already elected for partitions {name}-1"
    for kind in ("preferred", "unclean"):
        one = kafka.leader_election("--election-type", kind, "--topic", name, "--partition", 1).ok()
        assert one.lines == [already]
    file = input_file(tmp_path, json.dumps({"partitions": [{"topic": name, "partition": 1}]}))
    assert kafka.leader_election("--election-type", "preferred", "--path-to-json-file", file).ok().lines == [already]
    assert kafka.leader_election("--election-type", "preferred", "--all-topic-partitions").ok().lines == []
    refused = kafka.leader_election("--election-type", "preferred", "--topic", name, "--partition", 9)
    assert refused.code == 1
    assert "UnknownTopicOrPartitionException" in refused.out


@pytest.mark.proves(client="Kafka's tools", feature="describe-producers")
def test_the_producers_of_a_partition(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.java("Records", name, 0, 0, 10, 1000)
    described = kafka.tool("TransactionsCommand", "describe-producers", "--topic", name, "--partition", 0).ok()
    header, *rows = [line.split() for line in described.lines]
    (row,) = [dict(zip(header, row, strict=True)) for row in rows]
    assert (row["ProducerEpoch"], row["LastSequence"], row["LastTimestamp"]) == ("0", "9", "1009")
    assert (row["LatestCoordinatorEpoch"], row["CurrentTransactionStartOffset"]) == ("-1", "None")
