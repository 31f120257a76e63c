"""kafka-consumer-groups: list, describe, reset in every way, delete groups and offsets."""

import csv
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.conformance.java.jvm import TIME_LIMIT_S, Ended
from tests.conformance.java.kafka_tools import KafkaTools, ask_until, consumed, input_file, table

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="consumer groups")]
OLD = "1000000000000"
Offsets = dict[str, int]


@pytest.fixture
def group(kafka: KafkaTools, name: str) -> str:
    """A group that has read four records of each of two partitions of a topic of its own name; three are unread."""
    kafka.new_topic(name, 2)
    for partition in (0, 1):
        kafka.java("Records", name, partition, 0, 4, OLD)
    kafka.consume(name, 8, "--group", name, "--from-beginning")
    for partition in (0, 1):
        kafka.java("Records", name, partition, 4, 7)
    return name


def offsets(kafka: KafkaTools, group: str) -> Offsets:
    rows = table(kafka.consumer_groups("--describe", "--group", group, "--offsets"))
    return {row["PARTITION"]: int(row["CURRENT-OFFSET"]) for row in rows}


class TestDescribe:
    def test_a_group_is_listed_with_its_type_and_state(self, kafka: KafkaTools, group: str) -> None:
        assert group in kafka.consumer_groups("--list").ok().lines
        row = {"GROUP": group, "TYPE": "Classic", "STATE": "Empty"}
        assert row in table(kafka.consumer_groups("--list", "--state", "--type"))
        assert row in table(kafka.consumer_groups("--list", "--state", "empty", "--type", "classic"))
        assert kafka.consumer_groups("--list", "--state", "Dead").ok().lines[1:] == []

    def test_offsets_ends_and_lags(self, kafka: KafkaTools, group: str) -> None:
        rows = table(kafka.consumer_groups("--describe", "--group", group))
        fields = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")
        assert [[row[field] for field in fields] for row in rows] == [
            [group, "0", "4", "7", "3", "-"],
            [group, "1", "4", "7", "3", "-"],
        ]

    def test_a_group_without_members(self, kafka: KafkaTools, group: str) -> None:
        (row,) = table(kafka.consumer_groups("--describe", "--group", group, "--state"))
        assert row["GROUP"] == group
        assert "Empty 0" in " ".join(row.values())
        assert table(kafka.consumer_groups("--describe", "--group", group, "--members")) == []

    def test_all_groups_at_once(self, kafka: KafkaTools, group: str) -> None:
        assert f"{group} " in kafka.consumer_groups("--describe", "--all-groups").out
        assert f"{group} " in kafka.consumer_groups("--describe", "--all-groups", "--state").out

    def test_a_group_that_is_not_there(self, kafka: KafkaTools, name: str) -> None:
        for what in ("--offsets", "--members", "--state"):
            said = kafka.consumer_groups("--describe", "--group", name, what)
            assert f"GroupIdNotFoundException: Group {name} not found." in said.out
        assert "GroupIdNotFoundException" in kafka.consumer_groups("--delete", "--group", name).out


class TestLiveGroup:
    """A console consumer of the group waits for one more record."""

    @pytest.fixture
    def consumer(self, kafka: KafkaTools, group: str) -> Iterator[Future[Ended]]:
        kafka.consume(group, 6, "--group", group)
        running = kafka.start_consumer("--topic", group, "--group", group, "--max-messages", 1)
        ask_until(lambda: "Stable" in kafka.consumer_groups("--describe", "--group", group, "--state").out)
        yield running
        kafka.java("Records", group, 0, 7, 8)
        assert consumed(running.result(TIME_LIMIT_S), 1) == ["7"]

    def test_its_member_is_described(self, kafka: KafkaTools, group: str, consumer: Future[Ended]) -> None:
        (state,) = kafka.consumer_groups("--describe", "--group", group, "--state").ok().lines[1:]
        assert state.split()[-3:] == ["range", "Stable", "1"]
        (member,) = table(kafka.consumer_groups("--describe", "--group", group, "--members", "--verbose"))
        assert member["CONSUMER-ID"].startswith("console-consumer-")
        assert (member["HOST"], member["CLIENT-ID"]) == ("/127.0.0.1", "console-consumer")
        assert (member["#PARTITIONS"], member["CURRENT-ASSIGNMENT"]) == ("2", f"{group}:0,1")
        rows = table(kafka.consumer_groups("--describe", "--group", group))
        assert [(row["LAG"], row["CONSUMER-ID"]) for row in rows] == [("0", member["CONSUMER-ID"])] * 2

    def test_its_offsets_are_not_taken_from_it(self, kafka: KafkaTools, group: str, consumer: Future[Ended]) -> None:
        reset = kafka.consumer_groups(
            "--reset-offsets", "--group", group, "--to-earliest", "--topic", group, "--execute"
        )
        assert "is inactive, but the current state is Stable" in reset.out
        assert "GroupNotEmptyException" in kafka.consumer_groups("--delete", "--group", group).out
        deleted = kafka.consumer_groups("--delete-offsets", "--group", group, "--topic", group)
        assert "GroupSubscribedToTopicException" in deleted.out
        assert offsets(kafka, group) == {"0": 7, "1": 7}


@pytest.mark.proves(client="Kafka's tools", feature="consumer protocol (KIP-848)")
def test_a_group_of_the_new_protocol_is_described(kafka: KafkaTools, group: str) -> None:
    kafka.consume(group, 6, "--group", group)
    protocol = ("--command-property", "group.protocol=consumer")
    running = kafka.start_consumer("--topic", group, "--group", group, "--max-messages", 1, *protocol)
    ask_until(lambda: "Stable" in kafka.consumer_groups("--describe", "--group", group, "--state").out)
    row = {"GROUP": group, "TYPE": "Consumer", "STATE": "Stable"}
    assert row in table(kafka.consumer_groups("--list", "--state", "--type"))
    (state,) = kafka.consumer_groups("--describe", "--group", group, "--state", "--verbose").ok().lines[1:]
    assert {"uniform", "Stable"} <= set(state.split())
    (member,) = table(kafka.consumer_groups("--describe", "--group", group, "--members"))
    assert (member["HOST"], member["#PARTITIONS"]) == ("/127.0.0.1", "2")
    rows = table(kafka.consumer_groups("--describe", "--group", group))
    assert [row["LAG"] for row in rows] == ["0", "0"]
    kafka.java("Records", group, 0, 7, 8)
    assert consumed(running.result(TIME_LIMIT_S), 1) == ["7"]
    assert {"GROUP": group, "TYPE": "Consumer", "STATE": "Empty"} in table(
        kafka.consumer_groups("--list", "--state", "--type")
    )
    kafka.consumer_groups("--delete", "--group", group).ok()


def reset(kafka: KafkaTools, group: str, *how: object) -> Offsets:
    """The new offsets that the tool says, by partition."""
    said = kafka.consumer_groups("--reset-offsets", "--group", group, *how)
    lines = [line for line in said.lines if not line.startswith("Warn: ")]
    assert said.code == 0
    assert lines[0].split() == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    return {line.split()[2]: int(line.split()[3]) for line in lines[1:]}


@pytest.mark.proves(client="Kafka's tools", feature="reset offsets")
class TestReset:
    @pytest.mark.parametrize(
        ("how", "new"),
        [
            (["--to-earliest"], 0),
            (["--to-latest"], 7),
            (["--to-current"], 4),
            (["--to-offset", 2], 2),
            (["--to-offset", 99], 7),
            (["--shift-by", 2], 6),
            (["--shift-by", -3], 1),
            (["--shift-by", -99], 0),
            (["--to-datetime", "2001-09-09T01:46:40.002Z"], 2),
            (["--to-datetime", "2001-09-09T03:46:40.003+02:00"], 3),
            (["--to-datetime", "2099-01-01T00:00:00.000"], 7),
            (["--by-duration", "PT1H"], 4),
            (["--by-duration", "P10000D"], 0),
        ],
        ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
    )
    def test_every_way(self, kafka: KafkaTools, group: str, how: list[object], new: int) -> None:
        assert reset(kafka, group, *how, "--topic", group, "--dry-run") == {"0": new, "1": new}
        assert offsets(kafka, group) == {"0": 4, "1": 4}
        assert reset(kafka, group, *how, "--all-topics", "--execute") == {"0": new, "1": new}
        assert offsets(kafka, group) == {"0": new, "1": new}

    def test_some_partitions_only(self, kafka: KafkaTools, group: str) -> None:
        assert reset(kafka, group, "--to-earliest", "--topic", f"{group}:1", "--execute") == {"1": 0}
        assert offsets(kafka, group) == {"0": 4, "1": 0}

    def test_an_exported_plan_is_carried_out_from_its_file(self, kafka: KafkaTools, group: str, tmp_path: Path) -> None:
        plan = kafka.consumer_groups(
            "--reset-offsets", "--group", group, "--shift-by", -1, "--all-topics", "--export", "--dry-run"
        ).ok()
        assert sorted(csv.reader(plan.lines)) == [[group, "0", "3"], [group, "1", "3"]]
        path = input_file(tmp_path, plan.out.replace(f"{group},1,3", f"{group},1,2"))
        assert reset(kafka, group, "--from-file", path, "--execute") == {"0": 3, "1": 2}
        assert offsets(kafka, group) == {"0": 3, "1": 2}

    def test_the_group_reads_again_from_there(self, kafka: KafkaTools, group: str) -> None:
        reset(kafka, group, "--to-offset", 5, "--topic", f"{group}:0", "--execute")
        reset(kafka, group, "--to-latest", "--topic", f"{group}:1", "--execute")
        assert kafka.consume(group, 2, "--group", group) == ["5", "6"]

    def test_a_group_is_made_by_its_offsets(self, kafka: KafkaTools, group: str) -> None:
        new = f"{group}-new"
        assert reset(kafka, new, "--to-offset", 3, "--topic", group, "--execute") == {"0": 3, "1": 3}
        assert offsets(kafka, new) == {"0": 3, "1": 3}

    def test_what_is_not_there_is_named(self, kafka: KafkaTools, group: str) -> None:
        how = ("--reset-offsets", "--group", group, "--to-earliest", "--execute", "--topic")
        assert "UnknownTopicOrPartitionException" in kafka.consumer_groups(*how, "not-there").err
        assert f"{group}-9" in kafka.consumer_groups(*how, f"{group}:9").err


@pytest.mark.proves(client="Kafka's tools", feature="delete groups and offsets")
class TestDelete:
    def test_offsets_of_one_partition_and_of_a_topic(self, kafka: KafkaTools, group: str) -> None:
        def delete(topic: str) -> list[list[str]]:
            said = kafka.consumer_groups("--delete-offsets", "--group", group, "--topic", topic).ok()
            assert said.lines[0] == f"Request succeeded for deleting offsets from group {group}."
            return [line.split() for line in said.lines[2:]]

        assert delete(f"{group}:1") == [[group, "1", "Successful"]]
        assert offsets(kafka, group) == {"0": 4}
        assert delete(group)[0] == [group, "0", "Successful"]
        assert "UnknownTopicOrPartitionException" in delete("not-there")[0][-1] + " ".join(delete("not-there")[0])

    def test_groups(self, kafka: KafkaTools, group: str) -> None:
        reset(kafka, f"{group}-2", "--to-earliest", "--topic", group, "--execute")
        kafka.consumer_groups("--delete", "--group", group, "--group", f"{group}-2").ok()
        left = kafka.consumer_groups("--list").ok().lines
        assert [one for one in left if one.startswith(group)] == []
