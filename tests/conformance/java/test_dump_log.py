"""kafka-dump-log over our files: what Apache Kafka would find on this disk."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.storage.log_config import LogConfig
from tests.broker_process import BrokerProcess
from tests.conformance.java.jvm import Ended, Jvm
from tests.conformance.java.kafka_tools import KafkaTools
from tests.conformance.topics import new_topic
from tests.system.test_streams_groups import Member
from tests.unit.storage.data_directory import opened
from tests.unit.storage.transactional_log import ABORT, COMMIT, append, committed, data, marker

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="dump-log of our files")]
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\w+) crc: \d+ isvalid: (\w+)")
RECORD = re.compile(r"\| offset: (\d+) CreateTime: \d+ keySize: .* payload: (\d+) \w+")
KEYED = re.compile(r"\| offset: (\d+) .*key: key (\d+)")
MARKER = re.compile(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)")
ABORTED = re.compile(r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)")
# The tool counts from -1 in every file: it finds a gap in front of each segment but the first.
FIRST_OFFSET = re.compile(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n")
# A segment of the smallest size that is allowed holds about a hundred records of this length.
SIZE = 10_000
SEGMENT_BYTES = 1024 * 1024
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def written(jvm: Jvm, bootstrap: str, topic: str, first: int, count: int, codec: str = "none") -> None:
    """Records of a number and noise, ten a batch, to partition 0."""
    jvm.run("Payloads", bootstrap, topic, first, count, SIZE, codec).ok()


def files(partition: Path, suffix: str) -> list[Path]:
    return sorted(partition.glob(f"{'[0-9]' * 20}.{suffix}"))


def dump(tools: KafkaTools, paths: list[Path], *how: str) -> Ended:
    ended = tools.dump_log("--files", ",".join(map(str, paths)), *how)
    return replace(ended, err=FIRST_OFFSET.sub("", ended.err)).ok()


def assert_whole(tools: KafkaTools, partition: Path, count: int, codecs: set[str]) -> None:
    """Each record is there once, in order; each batch is valid; both indexes of each segment are right."""
    lines = dump(tools, files(partition, "log"), "--deep-iteration", "--print-data-log").lines
    batches = [found.groups() for line in lines if (found := BATCH.match(line))]
    assert {(codec, valid) for *_, codec, valid in batches} == {(codec, "true") for codec in codecs}
    assert [int(base) for base, *_ in batches] == [0, *[int(last) + 1 for _, last, *_ in batches[:-1]]]
    records = [found.groups() for line in lines if (found := RECORD.match(line))]
    assert records == [(str(number), str(number)) for number in range(count)]
    indexes = [*files(partition, "index"), *files(partition, "timeindex")]
    assert [line for line in dump(tools, indexes, "--verify-index-only").lines if "Dumping" not in line] == []
    sane = [line for line in dump(tools, indexes, "--index-sanity-check").lines if "Dumping" not in line]
    assert sane == [f"{index} passed sanity check." for index in indexes]


@pytest.fixture
def own(new_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker with small segments, whose files are looked at."""
    return new_broker(log_segment_bytes=str(SEGMENT_BYTES), log_index_interval_bytes="4096").start()


@pytest.fixture
def tools(jvm: Jvm, own: BrokerProcess) -> KafkaTools:
    return KafkaTools(jvm, own.bootstrap)


def test_segments_of_every_codec_and_their_indexes_after_rolls(tools: KafkaTools, own: BrokerProcess) -> None:
    tools.new_topic("t")
    for number, codec in enumerate(CODECS):
        written(tools.jvm, tools.bootstrap, "t", number * 120, 120, codec)
    partition = own.data_dir / "t-0"
    assert len(files(partition, "log")) >= 4
    assert_whole(tools, partition, 600, set(CODECS))
    entries = [line for line in dump(tools, files(partition, "index")).lines if line.startswith("offset: ")]
    assert len(entries) > 40


def test_after_a_stop_the_snapshot_has_the_producers(tools: KafkaTools, own: BrokerProcess) -> None:
    tools.new_topic("t")
    written(tools.jvm, tools.bootstrap, "t", 0, 300)
    assert own.stop() == 0
    partition = own.data_dir / "t-0"
    assert_whole(tools, partition, 300, {"none"})
    last = files(partition, "snapshot")[-1]
    assert int(last.stem) == 300
    rows = [line for line in dump(tools, [last]).lines if line.startswith("producerId: ")]
    assert "lastSequence: 299 lastOffset: 299" in rows[-1]
    assert "producerEpoch: 0" in rows[-1]


def test_after_a_kill_and_a_recovery(tools: KafkaTools, own: BrokerProcess) -> None:
    tools.new_topic("t")
    written(tools.jvm, tools.bootstrap, "t", 0, 300, "lz4")
    own.kill()
    partition = own.data_dir / "t-0"
    for index in (files(partition, "index")[1], files(partition, "timeindex")[1]):
        index.unlink()
    with files(partition, "log")[-1].open("ab") as torn:
        torn.write(b"\0" * 7 + b"torn batch")
    own.start()
    written(tools.jvm, tools.bootstrap, "t", 300, 100)
    assert_whole(tools, partition, 400, {"lz4", "none"})


def test_the_offsets_topic_is_read_by_its_decoder(tools: KafkaTools, own: BrokerProcess) -> None:
    tools.new_topic("t")
    tools.produce("t", ["one", "two", "three"])
    tools.consume("t", 2, "--group", "readers", "--from-beginning")
    logs = [log for log in sorted(own.data_dir.glob("__consumer_offsets-*/0*.log")) if log.stat().st_size]
    lines = dump(tools, logs, "--offsets-decoder").lines
    commits = [line for line in lines if '"topic":"t"' in line]
    assert '{"type":"1","data":{"group":"readers","topic":"t","partition":0}}' in commits[-1]
    assert '"version":"4","data":{"offset":2,"leaderEpoch":' in commits[-1]
    assert '"topicId":"' in commits[-1]
    metadata = [line for line in lines if '{"type":"2","data":{"group":"readers"}}' in line]
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in metadata[0]
    assert '"members":[{"memberId":"console-consumer-' in metadata[0]
    assert '"members":[]' in metadata[-1]


def test_the_records_of_a_consumer_group_are_read_by_the_decoder(tools: KafkaTools, own: BrokerProcess) -> None:
    tools.new_topic("t")
    tools.produce("t", ["one", "two", "three"])
    protocol = ("--command-property", "group.protocol=consumer")
    tools.consume("t", 2, "--group", "readers", "--from-beginning", *protocol)
    logs = [log for log in sorted(own.data_dir.glob("__consumer_offsets-*/0*.log")) if log.stat().st_size]
    lines = dump(tools, logs, "--offsets-decoder").lines
    for kind, key, value in (
        (3, '"groupId":"readers"}', '"version":"0","data":{"epoch":2'),
        (5, '"groupId":"readers","memberId":"', '"subscribedTopicNames":["t"]'),
        (6, '"groupId":"readers"}', '"assignmentEpoch":2'),
        (7, '"groupId":"readers","memberId":"', '"topicPartitions":[{"topicId":"'),
        (8, '"groupId":"readers","memberId":"', '"memberEpoch":2,"previousMemberEpoch":0,"state":0'),
    ):
        found = [line for line in lines if f'{{"type":"{kind}","data":{{{key}' in line]
        assert value in found[0], (kind, found)


def test_a_compacted_log_with_its_gaps(tools: KafkaTools, new_broker: Callable[..., BrokerProcess]) -> None:
    own = new_broker("compacting", log_cleaner_backoff_ms="50", log_segment_bytes=str(SEGMENT_BYTES)).start()
    topic = new_topic(own, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    producer = Producer({"bootstrap.servers": own.bootstrap, "enable.idempotence": True, "batch.num.messages": 10})
    for number in range(600):
        value = None if number % 60 == 7 else b"x" * SIZE
        producer.produce(topic, key=f"key {number % 60}", value=value)
        if number % 10 == 9:
            producer.flush()
    partition = own.data_dir / f"{topic}-0"
    while (len(files(partition, "log"))) > 2:
        assert own.process is not None
        assert own.process.poll() is None
    assert own.stop() == 0
    lines = dump(tools, files(partition, "log"), "--deep-iteration", "--print-data-log").lines
    batches = [found.groups() for line in lines if (found := BATCH.match(line))]
    assert {valid for *_, valid in batches} == {"true"}
    assert sum(int(count) for _, _, count, *_ in batches) < 300
    assert int(batches[-1][1]) == 599
    keys = {int(found[2]): int(found[1]) for line in lines if (found := KEYED.match(line))}
    assert keys == {number % 60: number for number in range(540, 600)}
    indexes = [*files(partition, "index"), *files(partition, "timeindex")]
    assert [line for line in dump(tools, indexes, "--verify-index-only").lines if "Dumping" not in line] == []
    sane = [line for line in dump(tools, indexes, "--index-sanity-check").lines if "Dumping" not in line]
    assert sane == [f"{index} passed sanity check." for index in indexes]


async def write_transactions(path: Path) -> None:
    """Two segments: transactions that were committed and aborted, and one that is open."""
    config = LogConfig(segment_bytes=2_000)
    async with opened(path) as directory:
        log = await directory.log(config)
        append(directory, log, data(300, b"open", epoch=5))
        for number in range(10):
            append(directory, log, data(100, b"x" * 100))
            append(directory, log, data(200, b"y" * 100))
            append(directory, log, marker(100, ABORT if number % 2 else COMMIT, coordinator_epoch=7))
            append(directory, log, marker(200, ABORT, coordinator_epoch=8))
        await committed(log)


def test_transactions_in_logs_indexes_and_snapshots(jvm: Jvm, tmp_path: Path) -> None:
    asyncio.run(write_transactions(tmp_path))
    tools, partition = KafkaTools(jvm, ""), tmp_path / "orders-0"
    lines = dump(tools, files(partition, "log"), "--deep-iteration", "--print-data-log").lines
    markers = [found.groups() for line in lines if (found := MARKER.search(line))]
    ends = [("ABORT" if number % 2 else "COMMIT", "7") for number in range(10)]
    assert markers == [each for end in ends for each in (end, ("ABORT", "8"))]
    assert len(files(partition, "txnindex")) == len(files(partition, "log")) == 3
    lines = dump(tools, files(partition, "txnindex")).lines
    aborted = [tuple(map(int, found.groups())) for line in lines if (found := ABORTED.search(line))]
    first = range(1, 41, 4)
    of_both = [((100, at, at + 2, 0), (200, at + 1, at + 3, 0)) for at in first]
    assert aborted == [each for number, pair in enumerate(of_both) for each in (pair if number % 2 else pair[1:])]
    rows = dump(tools, files(partition, "snapshot")[-1:]).lines
    (still_open,) = [row for row in rows if "producerId: 300 " in row]
    assert "producerEpoch: 5 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[0]" in still_open
    ended = [row for row in rows if "producerId: 200 " in row]
    assert all("coordinatorEpoch: 8 currentTxnFirstOffset: OptionalLong.empty" in row for row in ended)


TRANSACTION = re.compile(r'"transactionalId":"writer"\}\} payload: (\{.*\})$')


def test_the_transaction_log_is_read_by_its_decoder(tools: KafkaTools, own: BrokerProcess) -> None:
    tools.new_topic("t")
    producer = Producer({"bootstrap.servers": own.bootstrap, "transactional.id": "writer", "log_level": 0})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("t", b"x")
        producer.flush(60)
        end(60)
    del producer
    logs = [log for log in sorted(own.data_dir.glob("__transaction_state-*/0*.log")) if log.stat().st_size]
    found = [TRANSACTION.search(line) for line in dump(tools, logs, "--transaction-log-decoder").lines]
    states = [json.loads(match[1])["data"] for match in found if match]
    empty, ongoing, prepare_commit, prepare_abort, complete_commit = range(5)
    assert [each["transactionStatus"] for each in states][:6] == [
        *(empty, ongoing, prepare_commit, complete_commit),
        *(ongoing, prepare_abort),
    ]
    assert {each["transactionTimeoutMs"] for each in states} == {60_000}
    partitions = [{"topic": "t", "partitionIds": [0]}]
    assert [each["transactionPartitions"] for each in states[1:4]] == [partitions, partitions, []]


def test_the_records_of_a_streams_group_are_read_by_the_decoder(
    tools: KafkaTools, new_broker: Callable[..., BrokerProcess]
) -> None:
    own = new_broker(
        "streams", group_streams_initial_rebalance_delay_ms="0", group_streams_min_assignment_interval_ms="0"
    ).start()
    KafkaTools(tools.jvm, own.bootstrap).new_topic("lines", 2)
    member = Member(own)
    assert member.get_tasks().active_tasks
    member.close()
    logs = [log for log in sorted(own.data_dir.glob("__consumer_offsets-*/0*.log")) if log.stat().st_size]
    lines = dump(tools, logs, "--offsets-decoder").lines
    for kind, key, value in (
        (17, '"groupId":"app"}', '"validatedTopologyEpoch":1'),
        (19, '"groupId":"app","memberId":"m"}', '"processId":"p"'),
        (20, '"groupId":"app"}', '"assignmentEpoch":'),
        (21, '"groupId":"app","memberId":"m"}', '"activeTasks":[{"subtopologyId":"0","partitions":[0,1]}'),
        (22, '"groupId":"app","memberId":"m"}', '"memberEpoch":'),
        (23, '"groupId":"app"}', '"subtopologies":[{"subtopologyId":"0"'),
    ):
        found = [line for line in lines if f'{{"type":"{kind}","data":{{{key}' in line]
        assert any(value in line for line in found), (kind, found)
