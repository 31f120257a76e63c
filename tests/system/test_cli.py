"""The command line as a user has it: processes, pipes, signals, and a broker that dies and comes back."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla import __version__
from tests.broker_process import LOG_LINE, BrokerProcess
from tests.waiting_lines import ended, without_waiting

NewBroker = Callable[..., BrokerProcess]

OTTLA = [sys.executable, "-m", "ottla.cli"]
DEADLINE_S = 300


class Cli:
    """`ottla` against one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.env = {**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap}

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [*OTTLA, *arguments], input=stdin, capture_output=True, env=self.env, timeout=DEADLINE_S, check=False
        )
        return ended(done)

    def ok(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        return done.stdout

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*OTTLA, *arguments], env=self.env, **streams)

    def topic(self, partitions: int = 1) -> str:
        name = f"cli-{uuid4().hex[:8]}"
        self.ok("topic", "create", name, "--partitions", str(partitions))
        return name


@pytest.fixture
def cli(broker: BrokerProcess) -> Cli:
    return Cli(broker)


def read_all(broker: BrokerProcess, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, object]]:
    """Key, value and headers of the records in partition 0, read by another client."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None
        found.append((message.key(), message.value(), message.headers()))
    consumer.close()
    return found


# --- topics ---------------------------------------------------------------------------------------------------------


def test_the_life_of_a_topic(cli: Cli) -> None:
    name = f"cli-{uuid4().hex[:8]}"
    assert cli.ok("topic", "create", name, "-p", "2", "-c", "retention.ms=1000") == (
        f"created topic {name} with 2 partitions\n".encode()
    )
    assert name.encode() in cli.ok("topic", "list", "-q").split()
    cli.ok("topic", "alter", name, "--partitions", "4", "--delete-config", "retention.ms", "-c", "segment.ms=60000")
    [described] = json.loads(cli.ok("topic", "describe", name, "--json"))
    assert described["partition_count"] == 4
    assert [(each["name"], each["value"]) for each in described["configs"]] == [("segment.ms", "60000")]
    assert b"segment.ms=60000" in cli.ok("topic", "describe", name)
    cli.ok("topic", "delete", name)
    assert name.encode() not in cli.ok("topic", "list", "-q").split()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("topic", "describe", "nosuch"), 4),
        (("topic", "delete", "nosuch"), 4),
        (("topic", "alter", "nosuch", "-c", "retention.ms=1"), 4),
        (("topic", "create", "bad name"), 1),
        (("topic", "create", "fine", "-c", "nosuch.setting=1"), 1),
        (("consume", "nosuch"), 4),
        (("consume", "nosuch", "--group", "g"), 4),
        (("group", "describe", "nosuch"), 4),
        (("topic", "offsets", "nosuch"), 4),
        (("config", "list", "--topic", "nosuch"), 4),
        (("config", "set", "--topic", "nosuch", "retention.ms=1"), 4),
        (("config", "list", "--broker", "4711"), 4),
        (("config", "get", "--broker", "all", "nosuch.setting"), 4),
        (("config", "set", "--broker", "all", "node.id=5"), 1),
        (("topic", "delete-records", "nosuch"), 4),
        (("group", "delete", "nosuch"), 4),
        (("group", "delete-offsets", "g", "nosuch"), 4),
        (("group", "reset", "g", "nosuch", "--to-latest"), 4),
        (("group", "reset", "nosuch", "--all-topics", "--to-latest"), 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_what_fails_is_said_in_one_line_with_its_exit_code(cli: Cli, arguments: tuple[str, ...], code: int) -> None:
    done = cli.run(*arguments)
    assert done.returncode == code
    assert done.stdout == b""
    assert done.stderr.startswith(b"ottla: ")
    assert done.stderr.count(b"\n") == 1


def test_scripts_can_ask_for_what_is_there_already(cli: Cli) -> None:
    name = cli.topic()
    assert cli.run("topic", "create", name).returncode == 1
    cli.ok("topic", "create", name, "--if-not-exists")
    cli.ok("topic", "delete", name, "--if-exists")
    cli.ok("topic", "delete", name, "--if-exists")


def test_whoever_sets_what_changes_nothing_is_told_so_and_why(cli: Cli) -> None:
    name = f"cli-{uuid4().hex[:8]}"
    told = b"warning: compression.lz4.level has no effect yet: lz4 is written in one way, the fast one\n"
    settings = ("-c", "compression.lz4.level=3", "-c", "retention.ms=1000")
    for arguments in (("create", name), ("alter", name)):
        done = cli.run("topic", *arguments, *settings)
        assert (done.returncode, done.stderr) == (0, told)
    assert cli.run("topic", "alter", name, "-d", "compression.lz4.level").stderr == b""


# --- produce --------------------------------------------------------------------------------------------------------


def test_lines_of_a_pipe_are_records_to_every_client(cli: Cli) -> None:
    topic = cli.topic()
    cli.ok("produce", topic, "-K", ":", "-H", "h=1", "-Z", stdin=b"a:1\n:2\nc\nd:\n\xff:\xfe")
    assert read_all(cli.broker, topic, 5) == [
        (b"a", b"1", [("h", b"1")]),
        (b"", b"2", [("h", b"1")]),
        (None, b"c", [("h", b"1")]),
        (b"d", None, [("h", b"1")]),
        (b"\xff", b"\xfe", [("h", b"1")]),
    ]


def test_files_are_produced_by_line_or_whole(cli: Cli, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1\n2\n")
    second.write_bytes(b"3")
    by_line, whole = cli.topic(), cli.topic()
    cli.ok("produce", by_line, str(first), str(second))
    cli.ok("produce", whole, "--whole-files", str(first), str(second))
    assert [value for _, value, _ in read_all(cli.broker, by_line, 3)] == [b"1", b"2", b"3"]
    assert [value for _, value, _ in read_all(cli.broker, whole, 2)] == [b"1\n2\n", b"3"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_by_another_client(cli: Cli, codec: str) -> None:
    topic = cli.topic()
    lines = [b"%d" % number * 50 for number in range(500)]
    cli.ok("produce", topic, "-z", codec, stdin=b"\n".join(lines))
    assert [value for _, value, _ in read_all(cli.broker, topic, 500)] == lines


def test_a_line_that_is_no_record_is_named_and_those_before_it_are_delivered(cli: Cli) -> None:
    topic = cli.topic()
    done = cli.run("produce", topic, "--json", stdin=b'{"value": "a"}\n{"value": "b"}\nnonsense\n')
    assert done.returncode == 1
    assert b"standard input:3: not JSON" in done.stderr


def test_records_arrive_once_and_in_order_although_the_broker_is_killed_meanwhile(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    cli = Cli(broker)
    topic = cli.topic()
    count = 60_000
    producing = cli.start("produce", topic, "--linger-ms", "1", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert producing.stdin is not None

    def feed() -> None:
        for start in range(0, count, 1_000):
            producing.stdin.write(b"".join(b"%07d\n" % number for number in range(start, start + 1_000)))
            producing.stdin.flush()
            if start in {20_000, 40_000}:
                seen.set()
                restarted.wait(DEADLINE_S)
                restarted.clear()
        producing.stdin.close()

    seen, restarted = threading.Event(), threading.Event()
    feeding = threading.Thread(target=feed)
    feeding.start()
    for _ in range(2):
        assert seen.wait(DEADLINE_S)
        seen.clear()
        broker.kill()
        restarted.set()
        broker.start()
    feeding.join(DEADLINE_S)
    code = producing.wait(DEADLINE_S)
    assert producing.stderr is not None
    assert (code, without_waiting(producing.stderr.read())) == (0, b"")
    assert cli.ok("consume", topic, "--exit") == b"".join(b"%07d\n" % number for number in range(count))


# --- consume --------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(cli: Cli) -> str:
    """A topic of two partitions with 10 records each, written by another client, a second apart."""
    topic = cli.topic(2)
    producer = Producer({"bootstrap.servers": cli.broker.bootstrap})
    for number in range(20):
        producer.produce(
            topic,
            key=b"k%d" % number,
            value=b"v%d" % number,
            headers=[("n", b"%d" % number)],
            partition=number % 2,
            timestamp=1_700_000_000_000 + number * 1_000,
        )
    assert producer.flush(60) == 0
    return topic


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ((), range(20)),
        (("-o", "end"), []),
        (("-o", "-2"), range(16, 20)),
        (("-o", "8"), range(16, 20)),
        (("-o", "1000"), []),
        (("-o", "-1000"), range(20)),
        (("-o", "@1700000010000"), range(10, 20)),
        (("-o", "@2023-11-14T22:13:35Z"), range(15, 20)),
        (("-o", "@2030-01-01T00:00:00Z"), []),
        (("--until", "@1700000004000"), range(4)),
        (("-o", "2", "--until", "4"), range(4, 8)),
        (("-p", "1"), range(1, 20, 2)),
        (("-p", "0-1", "-o", "-1"), [18, 19]),
    ],
    ids=str,
)
def test_records_are_read_from_where_it_was_said(cli: Cli, filled: str, flags: tuple[str, ...], numbers) -> None:
    lines = cli.ok("consume", filled, "--exit", *flags).split()
    assert sorted(lines) == sorted(b"v%d" % number for number in numbers)


def test_each_partition_is_written_in_its_order(cli: Cli, filled: str) -> None:
    lines = cli.ok("consume", filled, "-e", "-f", r"%p %o %k %v %T %h\n").decode().splitlines()
    for partition in range(2):
        assert [line for line in lines if line.startswith(f"{partition} ")] == [
            f"{partition} {index} k{number} v{number} {1_700_000_000_000 + number * 1_000} n={number}"
            for index, number in enumerate(range(partition, 20, 2))
        ]


def test_a_count_ends_reading(cli: Cli, filled: str) -> None:
    assert len(cli.ok("consume", filled, "-c", "7").split()) == 7


def test_nothing_coming_ends_reading_when_asked(cli: Cli, filled: str) -> None:
    assert cli.ok("consume", filled, "-o", "end", "--timeout-ms", "300") == b""


def test_a_topic_is_copied_through_a_pipe(cli: Cli, filled: str) -> None:
    copy = cli.topic(2)
    cli.ok("produce", copy, "--json", stdin=cli.ok("consume", filled, "--exit", "--json"))
    format_of = ("-e", "-f", r"%p %o %k %v %T %h\n")
    assert sorted(cli.ok("consume", copy, *format_of).splitlines()) == sorted(
        cli.ok("consume", filled, *format_of).splitlines()
    )


def test_output_is_what_the_records_hold_byte_for_byte(cli: Cli) -> None:
    topic = cli.topic()
    content = bytes(range(256)) * 3
    cli.ok("produce", topic, "-D", r"\xff\x00", stdin=content)
    assert cli.ok("consume", topic, "-e", "-D", r"\xff\x00") == content + b"\xff\x00"


def test_a_group_goes_on_where_it_stopped_writing(cli: Cli, filled: str) -> None:
    group = f"g-{uuid4().hex[:8]}"
    first = cli.ok("consume", filled, "--group", group, "-c", "5").split()
    [described] = json.loads(cli.ok("group", "describe", group, "--json"))
    assert (described["state"], described["lag"]) == ("Empty", 15)
    second = cli.ok("consume", filled, "--group", group, "--exit").split()
    assert sorted(first + second) == sorted(b"v%d" % number for number in range(20))
    assert group.encode() in cli.ok("group", "list", "-q").split()
    assert f"{filled}          0         10   10    0" in cli.ok("group", "describe", group).decode()


def test_what_comes_while_a_group_reads_to_the_end_is_not_lost(cli: Cli) -> None:
    topic, group = cli.topic(), f"g-{uuid4().hex[:8]}"
    producing = cli.start("produce", topic, stdin=subprocess.PIPE)
    assert producing.stdin is not None
    found = []
    for start in range(0, 3_000, 500):
        producing.stdin.write(b"".join(b"%d\n" % number for number in range(start, start + 500)))
        producing.stdin.flush()
        found += cli.ok("consume", topic, "--group", group, "--exit").split()
    producing.stdin.close()
    assert producing.wait(DEADLINE_S) == 0
    found += cli.ok("consume", topic, "--group", group, "--exit").split()
    assert found == [b"%d" % number for number in range(3_000)]


def test_two_members_of_a_group_share_a_topic(cli: Cli, tmp_path: Path) -> None:
    topic, group = cli.topic(2), f"g-{uuid4().hex[:8]}"
    outputs = [tmp_path / "one", tmp_path / "two"]
    members = []
    for output in outputs:
        with output.open("wb") as stream:
            members.append(cli.start("consume", topic, "--group", group, "-o", "beginning", stdout=stream.fileno()))
    try:
        wait_until(lambda: group_members(cli, group) == [1, 1])
        cli.ok("produce", topic, "-p", "0", stdin=b"zero\n" * 10)
        cli.ok("produce", topic, "-p", "1", stdin=b"one\n" * 10)
        wait_until(lambda: sum(len(output.read_bytes().split()) for output in outputs) == 20)
    finally:
        for member in members:
            member.send_signal(signal.SIGINT)
            assert member.wait(DEADLINE_S) == 130
    assert sorted(set(output.read_bytes().split()).pop() for output in outputs) == [b"one", b"zero"]


def group_members(cli: Cli, group: str) -> list[int]:
    """How many partitions each member has."""
    done = cli.run("group", "describe", group, "--json")
    if done.returncode:
        return []
    [described] = json.loads(done.stdout)
    return sorted(len(member["partitions"]) for member in described["members"])


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; fail when it does not within the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


# --- settings and brokers -------------------------------------------------------------------------------------------


def config_rows(shown: bytes) -> dict[str, tuple[str, str, bool]]:
    return {each["name"]: (each["value"], each["source"], each["default"]) for each in json.loads(shown)}


def test_settings_of_a_topic_are_set_shown_and_taken_away(cli: Cli) -> None:
    whose = ("--topic", cli.topic())
    before = config_rows(cli.ok("config", "list", *whose, "--json"))
    assert before["retention.ms"] == ("604800000", "default", True)
    assert config_rows(cli.ok("config", "list", *whose, "--changed", "--json")) == {}
    done = cli.ok("config", "set", *whose, "retention.ms=1000", "segment.ms=60000")
    assert done.decode() == f"changed 2 settings of topic {whose[1]!r}\n"
    assert config_rows(cli.ok("config", "list", *whose, "--changed", "--json")) == {
        "retention.ms": ("1000", "topic", False),
        "segment.ms": ("60000", "topic", False),
    }
    assert cli.ok("config", "get", *whose, "segment.ms", "retention.ms", "-q").split() == [b"60000", b"1000"]
    shown = cli.ok("config", "get", *whose, "retention.ms").decode().splitlines()
    assert [line.split() for line in shown] == [
        ["NAME", "VALUE", "SOURCE", "DEFAULT"],
        ["retention.ms", "1000", "topic", "no"],
    ]
    refused = cli.run("config", "set", *whose, "segment.ms=5000", "retention.ms=soon")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"retention.ms" in refused.stderr
    cli.ok("config", "delete", *whose, "retention.ms", "segment.ms")
    assert config_rows(cli.ok("config", "list", *whose, "--json")) == before
    assert cli.run("config", "get", *whose, "nosuch.setting").returncode == 4


def test_settings_of_one_broker_stand_over_those_of_all(cli: Cli) -> None:
    own = str(json.loads(cli.ok("cluster", "--json"))["brokers"][0]["broker"])
    key = "log.retention.ms"
    try:
        changed = cli.ok("config", "set", "--broker", "all", f"{key}=70000", "--json")
        assert config_rows(changed) == {key: ("70000", "dynamic_default_broker", False)}
        get = ("config", "get", "--broker", own, key, "--json")
        assert config_rows(cli.ok(*get)) == {key: ("70000", "dynamic_default_broker", False)}
        cli.ok("config", "set", "--broker", own, f"{key}=80000")
        assert config_rows(cli.ok(*get)) == {key: ("80000", "dynamic_broker", False)}
        assert config_rows(cli.ok("config", "list", "--broker", "all", "--json")) == config_rows(changed)
    finally:
        cli.ok("config", "delete", "--broker", own, key)
        cli.ok("config", "delete", "--broker", "all", key)
    assert key not in config_rows(cli.ok("config", "list", "--broker", own, "--changed", "--json"))


def test_the_cluster_is_shown_as_another_client_sees_it(new_broker: NewBroker) -> None:
    cli = Cli(new_broker(broker_rack="north").start())
    seen = AdminClient({"bootstrap.servers": cli.broker.bootstrap}).list_topics(timeout=60)
    [number] = seen.brokers
    assert json.loads(cli.ok("cluster", "--json")) == {
        "cluster_id": seen.cluster_id,
        "controller": seen.controller_id,
        "brokers": [{"broker": number, "host": "127.0.0.1", "port": cli.broker.port, "rack": "north"}],
    }
    first, *rows = cli.ok("cluster").decode().splitlines()
    assert first == f"cluster {seen.cluster_id}  controller {number}  1 broker"
    assert [row.split() for row in rows] == [
        ["BROKER", "ADDRESS", "RACK", "CONTROLLER"],
        [str(number), cli.broker.bootstrap, "north", "yes"],
    ]


# --- offsets of topics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), [(10, None), (10, None)]),
        (("--time", "earliest"), [(0, None), (0, None)]),
        (("--time", "-3"), [(9, 1_700_000_018_000), (9, 1_700_000_019_000)]),
        (("--time", "max-timestamp"), [(9, 1_700_000_018_000), (9, 1_700_000_019_000)]),
        (("--time", "1700000018001"), [(None, None), (9, 1_700_000_019_000)]),
        (("--time", "2023-11-14T22:13:22Z"), [(1, 1_700_000_002_000), (1, 1_700_000_003_000)]),
    ],
    ids=str,
)
def test_offsets_of_partitions_are_shown(cli: Cli, filled: str, flags: tuple[str, ...], expected) -> None:
    shown = json.loads(cli.ok("topic", "offsets", filled, *flags, "--json"))
    assert [(each["offset"], each["timestamp"]) for each in shown] == expected
    assert [(each["topic"], each["partition"]) for each in shown] == [(filled, 0), (filled, 1)]


def test_records_are_deleted_up_to_an_offset(cli: Cli, filled: str) -> None:
    assert json.loads(cli.ok("topic", "delete-records", f"{filled}:0=4", "--json")) == [
        {"topic": filled, "partition": 0, "log_start_offset": 4, "error": None}
    ]
    assert [
        line.split() for line in cli.ok("topic", "offsets", filled, "--time", "earliest").decode().splitlines()
    ] == [
        ["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP"],
        [filled, "0", "4", "-"],
        [filled, "1", "0", "-"],
    ]
    done = cli.run("topic", "delete-records", f"{filled}:0=11,1=2")
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.decode().splitlines()[1:]] == [
        [filled, "0", "-", "OFFSET_OUT_OF_RANGE"],
        [filled, "1", "2", "cut"],
    ]
    assert b"the offset is after its end" in done.stderr
    assert len(read_all(cli.broker, filled, 6)) == 6
    cli.ok("topic", "delete-records", f"{filled}:1=latest")
    cli.ok("topic", "delete-records", filled)
    assert cli.ok("consume", filled, "--exit") == b""


def test_a_compacted_topic_keeps_its_records(cli: Cli) -> None:
    name = f"cli-{uuid4().hex[:8]}"
    cli.ok("topic", "create", name, "-c", "cleanup.policy=compact")
    done = cli.run("topic", "delete-records", name)
    assert done.returncode == 1
    assert b"its cleanup.policy has no delete in it" in done.stderr


# --- what moves groups ------------------------------------------------------------------------------------------------


def committed_by(cli: Cli, group: str, topic: str) -> list[int]:
    """What another client sees as committed for two partitions."""
    consumer = Consumer({"bootstrap.servers": cli.broker.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(2)], timeout=60)
    consumer.close()
    return [each.offset for each in found]


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (("--to-earliest",), [2, 0]),
        (("--to-latest",), [10, 10]),
        (("--to-offset", "4"), [4, 4]),
        (("--to-datetime", "2023-11-14T22:13:35"), [8, 7]),
        (("--shift-by", "-3"), [7, 7]),
    ],
    ids=str,
)
def test_a_group_goes_on_where_it_is_moved_to(cli: Cli, filled: str, flags: tuple[str, ...], offsets) -> None:
    group = f"g-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cli.broker.bootstrap})
    [deleted] = admin.delete_records([TopicPartition(filled, 0, 2)]).values()
    assert deleted.result(60).low_watermark == 2
    cli.ok("consume", filled, "--group", group, "--exit")
    shown = cli.ok("group", "reset", group, filled, *flags, "--dry-run", "--json")
    assert committed_by(cli, group, filled) == [10, 10]
    assert cli.ok("group", "reset", group, filled, *flags, "--json") == shown
    assert committed_by(cli, group, filled) == offsets
    assert [(each["partition"], each["committed_offset"], each["new_offset"]) for each in json.loads(shown)] == [
        (0, 10, offsets[0]),
        (1, 10, offsets[1]),
    ]
    assert len(cli.ok("consume", filled, "--group", group, "--exit").split()) == 20 - sum(offsets)


def test_a_group_seeks_an_offset_of_its_own_in_each_partition(cli: Cli, filled: str) -> None:
    group = f"g-{uuid4().hex[:8]}"
    cli.ok("consume", filled, "--group", group, "--exit")
    shown = cli.ok("group", "seek", group, f"{filled}:0=3,1=latest", "--dry-run", "--json")
    assert committed_by(cli, group, filled) == [10, 10]
    assert cli.ok("group", "seek", group, f"{filled}:0=3,1=latest", "--json") == shown
    assert committed_by(cli, group, filled) == [3, 10]
    assert [each["new_offset"] for each in json.loads(shown)] == [3, 10]
    cli.ok("group", "seek", group, f"{filled}:1=earliest")
    assert committed_by(cli, group, filled) == [3, 0]


def test_a_new_group_is_of_the_kind_that_was_asked_for_and_another_kind_is_refused(cli: Cli, filled: str) -> None:
    share, consumer = f"g-{uuid4().hex[:8]}", f"g-{uuid4().hex[:8]}"
    cli.ok("group", "seek", share, f"{filled}:0=3", "--type", "share")
    [described] = json.loads(cli.ok("group", "describe", share, "--json"))
    assert [each["start_offset"] for each in described["partitions"]] == [3]
    done = cli.run("group", "reset", consumer, filled, "--to-latest")
    assert done.returncode == 0
    assert done.stderr.decode().startswith(f"note: group {consumer!r} is new, and a consumer group; for a share group")
    for group, wanted in ((share, "consumer"), (consumer, "share")):
        done = cli.run("group", "reset", group, filled, "--to-latest", "--type", wanted)
        assert (done.returncode, done.stderr.decode().count("\n")) == (1, 1)
        assert f"not a {wanted} group" in done.stderr.decode()
    assert cli.run("group", "reset", share, filled, "--to-latest").stderr == b""


def test_what_is_asked_of_several_topics_by_expression_is_done_to_each(cli: Cli) -> None:
    prefix = f"cli-{uuid4().hex[:8]}"
    cli.ok("topic", "create", f"{prefix}-a", f"{prefix}-b")
    cli.ok("topic", "alter", "--regex", f"{prefix}-.*", "-c", "retention.ms=1000")
    described = json.loads(cli.ok("topic", "describe", "--regex", f"{prefix}-.*", "--json"))
    assert [each["configs"][0]["value"] for each in described] == ["1000", "1000"]
    assert cli.ok("topic", "list", f"{prefix}-[a]", "-q") == f"{prefix}-a\n".encode()
    cli.ok("topic", "delete", "--regex", f"{prefix}-.*")
    assert cli.run("topic", "delete", "--regex", f"{prefix}-.*").returncode == 4


def test_quotas_are_set_listed_and_taken_away(cli: Cli) -> None:
    client = f"cli-{uuid4().hex[:8]}"
    cli.ok("quota", "set", "--client-id", client, "producer_byte_rate=1024", "request_percentage=12.5")
    (listed,) = json.loads(cli.ok("quota", "list", "--client-id", client, "--json"))
    assert listed == {
        "entity": {"client-id": client},
        "quotas": {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
    }
    assert cli.run("quota", "set", "--client-id", client, "producer_byte_rate=0").returncode == 1
    assert cli.run("quota", "delete", "--client-id", client, "consumer_byte_rate").returncode == 4
    cli.ok("quota", "delete", "--client-id", client, "producer_byte_rate", "request_percentage")
    assert json.loads(cli.ok("quota", "list", "--client-id", client, "--json")) == []


def test_settings_of_groups_and_levels_of_features(cli: Cli) -> None:
    group = f"g-{uuid4().hex[:8]}"
    cli.ok("config", "set", "--group", group, "consumer.session.timeout.ms=50000")
    assert cli.ok("config", "get", "--group", group, "consumer.session.timeout.ms", "-q") == b"50000\n"
    assert cli.run("config", "set", "--group", group, "consumer.session.timeout.ms=1").returncode == 1
    cli.ok("config", "delete", "--group", group, "consumer.session.timeout.ms")
    features = {each["feature"]: each for each in json.loads(cli.ok("feature", "list", "--json"))}
    level = features["metadata.version"]["level"]
    assert level == features["metadata.version"]["highest"]
    cli.ok("feature", "set", f"metadata.version={level}", "--dry-run")
    assert cli.run("feature", "set", "no.such.version=1").returncode == 1


def test_programs_are_told_what_was_changed(cli: Cli) -> None:
    name = f"cli-{uuid4().hex[:8]}"
    first, second = f"{name}-1", f"{name}-2"

    def told(*arguments: str, code: int = 0) -> Any:
        done = cli.run(*arguments, "--json")
        assert done.returncode == code, done.stderr.decode()
        return json.loads(done.stdout)

    (created,) = told("topic", "create", first, "-p", "2", "-c", "retention.ms=1000")
    (shown,) = told("topic", "describe", first)
    numbers = ("topic", "topic_id", "internal", "partition_count", "replication_factor")
    assert created == {**{key: shown[key] for key in numbers}, "created": True}
    there, new = told("topic", "create", first, second, "--if-not-exists")
    assert (there, new["topic"], new["created"]) == ({**created, "created": False}, second, True)
    assert told("topic", "alter", first, "-p", "3", "-c", "segment.ms=60000", "-d", "retention.ms") == [
        {
            "topic": first,
            "configs": [{"name": "segment.ms", "value": "60000"}, {"name": "retention.ms", "value": None}],
            "partition_count": 3,
        }
    ]
    # What was changed before the command failed is told as well.
    assert told("topic", "alter", second, "-c", "segment.ms=60000", "-p", "1", code=1) == [
        {"topic": second, "configs": [{"name": "segment.ms", "value": "60000"}], "partition_count": None}
    ]
    assert told("cluster", "elect", second) == [{"topic": second, "partition": 0, "elected": False, "error": None}]
    assert told("topic", "reassign", second, "--execute") == {"state": "moved", "moves": []}
    assert told("topic", "reassign", second, "--verify") == {
        "moving": [],
        "cancelled": [],
        "throttle_removed": False,
        "throttled_topics": [],
    }
    assert told("topic", "delete", second) == [{"topic": second, "deleted": True}]
    assert told("topic", "delete", second, first, "--if-exists") == [
        {"topic": second, "deleted": False},
        {"topic": first, "deleted": True},
    ]

    entity = {"client-id": name}
    assert told("quota", "set", "--client-id", name, "producer_byte_rate=1024") == {
        "entity": entity,
        "quotas": {"producer_byte_rate": 1024.0},
    }
    assert told("quota", "delete", "--client-id", name, "producer_byte_rate") == {
        "entity": entity,
        "quotas": {"producer_byte_rate": None},
    }
    (level,) = [each["level"] for each in told("feature", "list") if each["feature"] == "metadata.version"]
    assert told("feature", "set", f"metadata.version={level}", "--dry-run") == [
        {"feature": "metadata.version", "level": level, "set": False}
    ]


def test_what_is_measured_is_what_was_done(cli: Cli) -> None:
    name = cli.topic(2)
    produced = json.loads(cli.ok("perf", "produce", name, "-n", "500", "-s", "100", "--json", "-X", "linger.ms=1"))
    assert (produced["records"], produced["bytes"], produced["acks"]) == (500, 50_000, "all")
    assert 0 < produced["latency_ms"]["p50"] <= produced["latency_ms"]["max"]
    consumed = json.loads(cli.ok("perf", "consume", name, "--json"))
    assert (consumed["records"], consumed["bytes"]) == (500, 50_000)
    assert cli.run("perf", "consume", name, "-n", "501", "--timeout-ms", "100").returncode == 1
    latency = json.loads(cli.ok("perf", "latency", name, "-n", "5", "-s", "10", "--json"))
    assert latency["acknowledged_ms"]["max"] <= latency["consumed_ms"]["max"]


@pytest.mark.parametrize("what", ["latency", "produce"])
def test_a_topic_that_a_measurement_creates_is_announced(cli: Cli, what: str) -> None:
    name = f"typo-{uuid4().hex[:8]}"
    done = cli.run("perf", what, name, "-n", "1", "-q")
    assert (done.returncode, done.stderr.decode()) == (
        0,
        f"ottla: topic {name} did not exist; it was created with 1 partition\n",
    )


def test_only_the_partitions_that_are_named_are_moved_and_never_out_of_the_log(cli: Cli, filled: str) -> None:
    group = f"g-{uuid4().hex[:8]}"
    first = cli.run("group", "reset", group, f"{filled}:1", "--to-offset", "99", "--type", "consumer")
    assert (first.returncode, first.stderr.decode()) == (
        0, f"warning: {filled}-1: offset 99 is after its end: 10 is taken\n",
    )  # fmt: skip
    assert committed_by(cli, group, filled) == [OFFSET_INVALID, 10]
    long_ago = cli.ok("group", "reset", group, "--all-topics", "--by-duration", "P20000D").decode().splitlines()
    assert [line.split() for line in long_ago] == [
        ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "NEW-OFFSET"],
        [group, filled, "1", "10", "0"],
    ]
    shifted = cli.run("group", "reset", group, filled, "--shift-by", "1")
    assert (shifted.returncode, shifted.stdout) == (1, b"")
    assert b"has no committed offset for " in shifted.stderr
    assert committed_by(cli, group, filled) == [OFFSET_INVALID, 0]


def test_a_running_group_is_moved_and_goes_on_from_there(cli: Cli, filled: str) -> None:
    group = f"g-{uuid4().hex[:8]}"
    member = cli.start("consume", filled, "--group", group, stdout=subprocess.PIPE)
    try:
        assert member.stdout is not None
        first = sorted(member.stdout.readline() for _ in range(20))
        wait_until(lambda: group_members(cli, group) == [2])
        done = cli.run("group", "reset", group, filled, "--to-earliest", "--json")
        assert done.returncode == 0, done.stderr
        assert done.stderr.decode().startswith("removed 1 member of group ")
        assert sorted(member.stdout.readline() for _ in range(20)) == first
        assert member.poll() is None
    finally:
        member.send_signal(signal.SIGINT)
        assert member.wait(DEADLINE_S) == 130


def test_a_group_with_members_is_not_deleted(cli: Cli, filled: str) -> None:
    group, idle = f"g-{uuid4().hex[:8]}", f"g-{uuid4().hex[:8]}"
    cli.ok("group", "reset", idle, filled, "--to-latest", "--type", "consumer")
    member = cli.start("consume", filled, "--group", group, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: group_members(cli, group) == [2])
        stop_them = f"it has members; stop them first, `ottla group describe {group}` shows them\n"
        done = cli.run("group", "reset", group, filled, "--to-earliest", "--dry-run", "--json")
        assert (done.returncode, [each["new_offset"] for each in json.loads(done.stdout)]) == (0, [0, 0])
        assert group_members(cli, group) == [2], "a dry run sends nobody away"
        done = cli.run("group", "delete", group, idle)
        assert (done.returncode, done.stdout.decode()) == (1, f"deleted group {idle}\n")
        assert done.stderr.decode() == f"ottla: group '{group}' was not deleted: {stop_them}"
        done = cli.run("group", "delete-offsets", group, filled)
        assert done.returncode == 1
        assert done.stdout.count(b"GROUP_SUBSCRIBED_TO_TOPIC") == 2
        assert done.stderr.count(b"\n") == 1
        assert b"stop the members that read it first" in done.stderr
    finally:
        member.send_signal(signal.SIGINT)
        assert member.wait(DEADLINE_S) == 130
    cli.ok("group", "delete", group)
    assert cli.run("group", "describe", group).returncode == 4


def test_offsets_of_partitions_are_forgotten(cli: Cli, filled: str) -> None:
    group = f"g-{uuid4().hex[:8]}"
    cli.ok("group", "reset", group, filled, "--to-latest", "--type", "consumer")
    assert json.loads(cli.ok("group", "delete-offsets", group, f"{filled}:0", "--json")) == [
        {"topic": filled, "partition": 0, "error": None}
    ]
    assert committed_by(cli, group, filled) == [OFFSET_INVALID, 10]


def test_every_group_that_was_not_deleted_has_a_line(cli: Cli) -> None:
    done = cli.run("group", "delete", "nosuch-1", "nosuch-2", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (4, [])
    assert done.stderr.decode().splitlines() == [
        f"ottla: consumer group '{name}' does not exist; `ottla group list` shows those that do"
        for name in ("nosuch-1", "nosuch-2")
    ]


# --- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_reading_without_a_traceback(cli: Cli, filled: str, signal_number: int, code: int) -> None:
    consuming = cli.start("consume", filled, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert consuming.stdout is not None
    assert consuming.stderr is not None
    assert consuming.stdout.readline().startswith(b"v")
    consuming.send_signal(signal_number)
    assert consuming.wait(DEADLINE_S) == code
    assert b"Traceback" not in consuming.stderr.read()


def test_a_reader_that_has_seen_enough_ends_it_quietly(cli: Cli, filled: str) -> None:
    consuming = cli.start("consume", filled, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert consuming.stdout is not None
    assert consuming.stderr is not None
    assert consuming.stdout.readline().startswith(b"v")
    consuming.stdout.close()
    assert consuming.wait(DEADLINE_S) == 0
    assert without_waiting(consuming.stderr.read()) == b""


@pytest.fixture
def long_topic(cli: Cli) -> str:
    """A topic whose records are more than a pipe holds."""
    topic = cli.topic()
    cli.ok("produce", topic, stdin=b"".join(b"%0999d\n" % number for number in range(1_000)))
    return topic


@pytest.mark.parametrize(
    "command", ["consume {}", "consume {} -g {}", "topic list", "topic --help", "log dump -r {dir}/{}-0"]
)
def test_every_command_ends_quietly_when_nobody_reads_what_it_writes(cli: Cli, long_topic: str, command: str) -> None:
    arguments = command.replace("{dir}", str(cli.broker.data_dir)).replace("{}", long_topic).split()
    reading, writing = os.pipe()
    os.close(reading)
    ending = cli.start(*arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert ending.stderr is not None
    assert (ending.wait(DEADLINE_S), without_waiting(ending.stderr.read())) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_closed_pipe_did_not_take_is_read_again_by_the_group(cli: Cli, long_topic: str, unbuffered: str) -> None:
    cli.env["PYTHONUNBUFFERED"] = unbuffered
    group = f"g-{uuid4().hex[:8]}"
    consuming = cli.start("consume", long_topic, "-g", group, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert consuming.stdout is not None
    assert consuming.stderr is not None
    seen = [int(consuming.stdout.readline()) for _ in range(3)]
    consuming.stdout.close()
    assert (consuming.wait(DEADLINE_S), without_waiting(consuming.stderr.read())) == (0, b"")
    seen += map(int, cli.ok("consume", long_topic, "-g", group, "--exit").split())
    assert set(seen) == set(range(1_000))


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_member_whose_reader_takes_nothing(
    cli: Cli, long_topic: str, signal_number: int, code: int
) -> None:
    group = f"g-{uuid4().hex[:8]}"
    consuming = cli.start("consume", long_topic, "-g", group, stdout=subprocess.PIPE)
    assert consuming.stdout is not None
    assert os.read(consuming.stdout.fileno(), 1) == b"0"
    consuming.send_signal(signal_number)
    assert consuming.wait(DEADLINE_S) == code
    consuming.stdout.close()
    assert len(cli.ok("consume", long_topic, "-g", group, "--exit").split()) == 1_000


@pytest.mark.parametrize("arguments", ["topic list", "consume {} --exit", "consume {} -g {} --exit"])
def test_output_that_finds_no_room_is_an_error_and_is_not_committed(cli: Cli, long_topic: str, arguments: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ending = cli.start(*arguments.replace("{}", long_topic).split(), stdout=full.fileno(), stderr=subprocess.PIPE)
    assert ending.stderr is not None
    assert (ending.wait(DEADLINE_S), without_waiting(ending.stderr.read())) == (
        1,
        b"ottla: No space left on device; the disk is full; free some space\n",
    )
    if "-g" in arguments:
        assert len(cli.ok("consume", long_topic, "-g", long_topic, "--exit").split()) == 1_000


@pytest.mark.parametrize(
    ("command", "closed"), [("topic list", ">&-"), ("consume {} --exit", ">&-"), ("produce {}", "<&-")]
)
def test_a_standard_stream_that_is_not_there_is_an_error(cli: Cli, long_topic: str, command: str, closed: str) -> None:
    line = f'"$@" {closed}'
    ending = subprocess.run(
        ["sh", "-c", line, "sh", *OTTLA, *command.replace("{}", long_topic).split()],
        env=cli.env, capture_output=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert (ending.returncode, without_waiting(ending.stderr)) == (1, b"ottla: Bad file descriptor\n")


def test_reading_goes_on_when_the_broker_comes_back(new_broker: NewBroker) -> None:
    broker = new_broker().start()
    cli = Cli(broker)
    topic = cli.topic()
    cli.ok("produce", topic, stdin=b"before\n")
    consuming = cli.start("consume", topic, "-c", "2", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert consuming.stdout is not None
    assert consuming.stderr is not None
    assert consuming.stdout.readline() == b"before\n"
    broker.kill()
    broker.start()
    cli.ok("produce", topic, stdin=b"after\n")
    assert consuming.wait(DEADLINE_S) == 0
    assert consuming.stdout.read() == b"after\n"
    assert consuming.stderr.read().startswith(b"ottla: reading from broker 1 is interrupted, trying again: ")


# --- files ----------------------------------------------------------------------------------------------------------


def test_the_files_of_a_running_broker_are_shown(cli: Cli, filled: str) -> None:
    place = cli.broker.data_dir / f"{filled}-0"
    shown = [json.loads(line) for line in cli.ok("log", "dump", "--records", "--json", str(place)).splitlines()]
    records = [row for row in shown if row["kind"] == "record"]
    assert [(row["offset"], row["value"]) for row in records] == [(index, f"v{2 * index}") for index in range(10)]
    assert b"RECORDS" in cli.ok("log", "dump", str(place))


def test_transactions_are_listed_described_found_and_aborted(cli: Cli) -> None:
    topic, transactional_id = cli.topic(), f"cli-{uuid4().hex[:8]}"
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}  # it outlasts all commands
    producer = Producer({"bootstrap.servers": cli.broker.bootstrap, **settings})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(DEADLINE_S)
    listed = json.loads(cli.ok("transaction", "list", "--state", "Ongoing", "--json"))
    assert transactional_id in {each["transactional_id"] for each in listed}
    assert transactional_id.encode() in cli.ok("transaction", "list", "--longer-than", "0")
    (described,) = json.loads(cli.ok("transaction", "describe", transactional_id, "--json"))
    assert (described["state"], described["partitions"]) == ("Ongoing", [[topic, 0]])
    assert b"Ongoing" in cli.ok("transaction", "describe", transactional_id)
    assert json.loads(cli.ok("transaction", "find-hanging", topic, "--older-than", "0", "--json")) == []
    assert json.loads(cli.ok("transaction", "abort", transactional_id, "--json")) == {
        "transactional_id": transactional_id,
        "aborted": True,
    }
    (aborted,) = json.loads(cli.ok("transaction", "describe", transactional_id, "--json"))
    assert aborted["state"] in ("Empty", "CompleteAbort")
    assert cli.run("transaction", "describe", f"{transactional_id}-none").returncode == 4
    assert cli.run("transaction", "abort", f"{topic}:0", "--start-offset", "0").returncode == 4
    assert cli.run("transaction", "abort", topic, "--start-offset", "0").returncode == 2


# --- serve ----------------------------------------------------------------------------------------------------------


def serve(data: Path | str, *flags: str) -> subprocess.Popen[str]:
    command = [*OTTLA, "serve", "--data", str(data), "--kafka", "127.0.0.1:0", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def in_a_terminal() -> Iterator[None]:
    """SIGHUP is not ignored, as it is where somebody runs the tests under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize("processes", [(), ("--processes", "1"), ("--processes", "2")], ids=" ".join)
def test_a_closed_terminal_stops_a_broker_cleanly_and_its_log_is_json_where_asked(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    flags = (*processes, "--log-format", "json", "--log-level", "info")
    with serve(tmp_path / "data", *flags) as serving:
        assert serving.stdout is not None
        while "2 brokers" not in (line := serving.stdout.readline()) and "2" in processes:
            assert line
        serving.send_signal(signal.SIGHUP)
        _, log = serving.communicate(timeout=DEADLINE_S)
    assert serving.returncode == 0
    said = [json.loads(line) for line in log.splitlines()]
    assert ("INFO", "server.serve", "stopping") in {(each["level"], each["part"], each["message"]) for each in said}
    assert all({"time", "level", "part", "message"} <= each.keys() for each in said)


def test_under_nohup_a_closed_terminal_stops_nothing(tmp_path: Path) -> None:
    command = ["nohup", *OTTLA, "serve", "--data", str(tmp_path / "data"), "--kafka", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        assert serving.stdout is not None
        ready = serving.stdout.readline()
        port = ready.split("127.0.0.1:")[1].split(",")[0]
        serving.send_signal(signal.SIGHUP)
        listed = subprocess.run([*OTTLA, "topic", "list", "-b", f"127.0.0.1:{port}"], timeout=DEADLINE_S, check=False)
        assert listed.returncode == 0
        serving.terminate()
    assert serving.returncode == 0


def test_a_data_directory_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in ("/proc/ottla/data", "/proc/ottla", str(tmp_path / "file" / "data")):
        for processes in ((), ("--processes", "2")):
            with serve(directory, *processes) as serving:
                ready, said = serving.communicate(timeout=DEADLINE_S)
            assert (serving.returncode, ready) == (1, "")
            assert said.startswith(f"ottla: data directory {directory} cannot be used: ")
            assert said.count("\n") == 1


def test_a_data_directory_of_a_newer_release_says_which_one_it_needs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serve(data) as serving:
        assert serving.stdout is not None
        assert "ready" in serving.stdout.readline()
        serving.terminate()
    properties = data / "meta.properties"
    ours = properties.read_text()
    properties.write_text(ours.replace("version=1", "version=9").replace(f"release={__version__}", "release=7.1.0"))
    with serve(data) as serving:
        ready, said = serving.communicate(timeout=DEADLINE_S)
    needs = (
        f"has layout 9 of Ottla 7.1.0, and this is Ottla {__version__}, which reads layout 0 or 1: start Ottla 7.1.0"
    )
    assert (serving.returncode, ready, said.count("\n")) == (1, "", 1)
    assert said.startswith(f"ottla: {properties} cannot be read: it {needs} or newer")
    properties.write_text(ours)
    with closing(sqlite3.connect(data / "metadata.db")) as connection:
        connection.execute("PRAGMA user_version = 9")
    with serve(data) as serving:
        ready, said = serving.communicate(timeout=DEADLINE_S)
    assert (serving.returncode, ready, said.count("\n")) == (1, "", 1)
    assert said.startswith(f"ottla: {data}/metadata.db has layout 9, and this is Ottla {__version__}, ")
    assert "start a newer release" in said


def test_where_programs_read_the_log_the_reason_of_a_failed_start_is_a_record(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bad = str(tmp_path / "file" / "data")
    for flags, code, count, said in (
        ((), 1, 1, f"data directory {bad} cannot be used: "),
        (("--processes", "2"), 1, 1, f"data directory {bad} cannot be used: "),
        (
            ("--set", "num.partitions=0", "--set", "log.segment.bytes=1"),
            2,
            2,
            "--set: Invalid value 1 for configuration log.segment.bytes: ",
        ),
        (("--config", str(tmp_path / "none")), 4, 1, f"{tmp_path}/none: No such file"),
        (("--brokers", "2", "--processes", "2"), 2, 1, "give either --brokers"),
    ):
        with serve(bad, "--log-format", "json", *flags) as serving:
            ready, log = serving.communicate(timeout=DEADLINE_S)
        records = [json.loads(line) for line in log.splitlines()]
        assert (serving.returncode, ready, len(records)) == (code, "", count), log
        assert {each["level"] for each in records} == {"ERROR"}
        assert any(each["message"].startswith(said) for each in records), log


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_lines_of_several_brokers_say_which_one_wrote_them(tmp_path: Path, log_format: str) -> None:
    with serve(tmp_path / "data", "--processes", "2", "--log-format", log_format, "--log-level", "info") as serving:
        assert serving.stdout is not None
        while "2 brokers" not in (line := serving.stdout.readline()):
            assert line
        serving.terminate()
        _, log = serving.communicate(timeout=DEADLINE_S)
    if log_format == "json":
        records = [json.loads(line) for line in log.splitlines()]
        stopping = {each["broker"] for each in records if each["message"] == "stopping"}
    else:
        assert all(LOG_LINE.match(line) for line in log.splitlines())
        stopping = {int(number) for number in re.findall(r" server\.serve: broker (\d+): stopping$", log, re.MULTILINE)}
    assert stopping == {1, 2}


# --- nothing is silent ----------------------------------------------------------------------------------------------


def test_a_topic_made_by_a_typo_is_announced(cli: Cli) -> None:
    name = f"ordrs-{uuid4().hex[:8]}"
    done = cli.run("produce", name, stdin=b"x\n")
    assert (done.returncode, done.stderr.decode()) == (
        0,
        f"ottla: topic {name} did not exist; it was created with 1 partition\n",
    )
    cli.ok("produce", name, stdin=b"x\n")
    cli.ok("produce", f"{name}-quiet", "-q", stdin=b"x\n")
    cli.ok("produce", f"{name}-nothing", stdin=b"")
    assert f"{name}-nothing".encode() not in cli.ok("topic", "list", "-q").split()
