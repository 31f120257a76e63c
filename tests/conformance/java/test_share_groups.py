"""Kafka's share consumer, and its tools for share groups."""

import json
from collections import Counter

import pytest

from tests.conformance.java.jvm import Ended, run_alone
from tests.conformance.java.kafka_tools import PACKAGE, KafkaTools, table

CLIENT = "Kafka's Java client"
TOOLS = "Kafka's tools"
ACKNOWLEDGED, ARCHIVED = 2, 4
pytestmark = pytest.mark.peer


@pytest.fixture
def group(kafka: KafkaTools, name: str) -> str:
    """A share group that begins with the oldest of the hundred records in a topic of its own name."""
    kafka.new_topic(name, 2)
    earliest = ("--alter", "--entity-type", "groups", "--entity-name", name)
    kafka.configs(*earliest, "--add-config", "share.auto.offset.reset=earliest").ok()
    for partition in (0, 1):
        kafka.java("Records", name, partition, partition * 50, partition * 50 + 50)
    return name


def share_groups(kafka: KafkaTools, *args: object) -> Ended:
    return kafka.tool("consumer.group.ShareGroupCommand", *args)


@pytest.mark.proves(client=CLIENT, feature="share groups")
def test_members_end_each_record_once_in_every_way(kafka: KafkaTools, group: str) -> None:
    assert kafka.java("ShareMembers", group, group, 100) == [
        {"accepted": 90, "rejected": 10},
        {"accepted again": 0, "rejected again": 0},
        {"released": 10, "renewed": 10},
        {"wrong delivery counts": 0, "failed acknowledgements": 0},
    ]
    rows = table(share_groups(kafka, "--describe", "--group", group))
    assert [(row["PARTITION"], row["START-OFFSET"], row["LAG"]) for row in rows] == [("0", "50", "0"), ("1", "50", "0")]


@pytest.mark.proves(client=TOOLS, feature="console share consumer")
def test_the_console_share_consumer_prints_each_record(kafka: KafkaTools, group: str) -> None:
    how = ("--topic", group, "--group", group, "--max-messages", 100, "--timeout-ms", 120_000)
    said = kafka.tool("consumer.ConsoleShareConsumer", *how)
    assert (said.code, said.err) == (0, "Processed a total of 100 messages\n")
    assert Counter(map(int, said.lines)) == Counter(range(100))


@pytest.mark.proves(client=TOOLS, feature="share-consumer-perf-test")
def test_the_share_consumer_perf_test_reads_all(kafka: KafkaTools, group: str) -> None:
    how = ("--topic", group, "--group", group, "--num-records", 100, "--timeout", 120_000)
    names, values = kafka.tool("ShareConsumerPerformance", *how).ok().lines
    assert dict(zip(names.split(", "), values.split(", "), strict=True))["data.consumed.in.nMsg"] == "100"


@pytest.mark.proves(client=TOOLS, feature="verifiable share consumer")
def test_the_verifiable_share_consumer_acknowledges_what_it_reads(kafka: KafkaTools, group: str) -> None:
    how = ("--topic", group, "--group-id", group, "--max-messages", 100, "--acknowledgement-mode", "sync")
    said = run_alone(f"{PACKAGE}.VerifiableShareConsumer", "--bootstrap-server", kafka.bootstrap, *how)
    assert said.code == 0, said.err
    events = [json.loads(line) for line in said.lines]
    done = {
        (each["partition"], offset)
        for event in events
        if event["name"] == "offsets_acknowledged" and event["success"]
        for each in event["partitions"]
        for offset in each["offsets"]
    }
    assert done == {(partition, offset) for partition in (0, 1) for offset in range(50)}


@pytest.mark.proves(client=TOOLS, feature="share-groups")
def test_a_share_group_is_listed_described_reset_and_deleted(kafka: KafkaTools, group: str) -> None:
    kafka.java("ShareMembers", group, group, 100)
    assert group in share_groups(kafka, "--list").ok().lines
    states = {row["GROUP"]: row["STATE"] for row in table(share_groups(kafka, "--list", "--state"))}
    assert states[group] == "Empty"
    said = share_groups(kafka, "--describe", "--group", group, "--state")
    assert said.lines[-1].split()[-2:] == ["Empty", "0"]
    assert f"Share group '{group}' has no active members." in said.err
    earliest = ("--reset-offsets", "--group", group, "--topic", group, "--to-earliest", "--execute")
    assert sorted(row["NEW-OFFSET"] for row in table(share_groups(kafka, *earliest))) == ["0", "0"]
    rows = table(share_groups(kafka, "--describe", "--group", group))
    assert [(row["START-OFFSET"], row["LAG"]) for row in rows] == [("0", "50"), ("0", "50")]
    assert "Successful" in share_groups(kafka, "--delete-offsets", "--group", group, "--topic", group).ok().out
    assert "was successful" in share_groups(kafka, "--delete", "--group", group).ok().out
    assert group not in share_groups(kafka, "--list").ok().lines
    gone = share_groups(kafka, "--describe", "--group", group)
    assert f"GroupIdNotFoundException: Group {group} not found." in gone.out


@pytest.mark.proves(client=TOOLS, feature="share state records")
def test_kafkas_own_reader_reads_the_state_of_share_groups(kafka: KafkaTools, group: str) -> None:
    kafka.java("ShareMembers", group, group, 100)
    formatter = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
    begins, ends = (state_offsets(kafka, which) for which in ("earliest", "latest"))
    how = ("--formatter", formatter, "--from-beginning", "--partition")
    records = []
    for partition, end in ends.items():
        if end > begins[partition]:
            text = "".join(kafka.consume("__share_group_state", end - begins[partition], *how, partition))
            records += objects(text)
    assert len(records) == sum(ends.values()) - sum(begins.values())
    states = [each["value"]["data"] for each in records if each["key"]["data"]["groupId"] == group]
    assert max(each["startOffset"] for each in states) == 50
    assert {batch["deliveryState"] for each in states for batch in each["stateBatches"]} >= {ACKNOWLEDGED, ARCHIVED}


def state_offsets(kafka: KafkaTools, which: str) -> dict[str, int]:
    lines = kafka.get_offsets("--topic", "__share_group_state", "--time", which).ok().lines
    return {partition: int(offset) for _, partition, offset in (line.rsplit(":", 2) for line in lines)}


def objects(text: str) -> list[dict]:
    """JSON objects that stand one behind the other."""
    found, at = [], 0
    while at < len(text):
        each, at = json.JSONDecoder().raw_decode(text, at)
        found.append(each)
    return found
