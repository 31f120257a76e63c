"""An archive of a running broker, restored into a broker of its own; confluent-kafka is on the other side of both."""

from __future__ import annotations

import fcntl
import json
import shutil
import signal
import subprocess
import sys
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.main import run
from ottla.client.blocking import BlockingClient
from ottla.native import build_batch
from ottla.pipelines.archive import restoring
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.comparison import archived_records
from ottla.pipelines.archive.file_writer import arrow_schema
from ottla.pipelines.archive.restoring import broker_on
from ottla.pipelines.archive.segments import SegmentWriter
from ottla.runtime.disk import OsDisk
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.committed_records import wait_until_ended
from tests.waiting_lines import ended, without_waiting

QUIET = {"log_level": 0}


def ottla(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli", *map(str, arguments)]
    return ended(subprocess.run(command, capture_output=True, text=True, timeout=300, check=False))


def done(*arguments: object) -> Any:
    """What a command says as JSON; it must succeed."""
    answer = ottla(*arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def everything(bootstrap: str) -> dict[tuple[str, int], list[tuple]]:
    """All records of all topics, with all that a consumer sees of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **QUIET,
        }
    )
    places = [
        TopicPartition(name, number, consumer.get_watermark_offsets(TopicPartition(name, number), timeout=60)[0])
        for name, topic in consumer.list_topics(timeout=60).topics.items()
        if not name.startswith("__")
        for number in topic.partitions
    ]
    found: dict[tuple[str, int], list[tuple]] = {(each.topic, each.partition): [] for each in places}
    consumer.assign(places)
    at_end: set[tuple[str, int]] = set()
    while len(at_end) < len(places):
        message = consumer.poll(60)
        assert message is not None, "nothing came for a minute"
        place = message.topic(), message.partition()
        if message.error():
            at_end.add(place)
        else:
            found[place].append(
                (message.offset(), message.key(), message.value(), message.headers(), message.timestamp())
            )
    consumer.close()
    return found


def watermarks(bootstrap: str, places: list[tuple[str, int]]) -> list[tuple[int, int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **QUIET})
    found = [consumer.get_watermark_offsets(TopicPartition(*place), timeout=60) for place in places]
    consumer.close()
    return found


def topic_ids(bootstrap: str) -> dict[str, str]:
    """As a client of Kafka's own protocol is told."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    described = admin.describe_topics(TopicCollection(["events.x", "stamped", "nothing"]))
    return {name: str(future.result().topic_id) for name, future in described.items()}


def checkpoint(directory: Path, topic: str, topic_id: str, ends: dict[str, int], number: int = 3) -> None:
    """What Spark leaves of a query that has read up to there."""
    (directory / "offsets").mkdir(parents=True)
    (directory / "commits").mkdir()
    (directory / "metadata").write_text('{"id":"q"}')
    end = json.dumps({topic: ends, "#topicIds": {topic: topic_id}})
    (directory / "offsets" / str(number)).write_text(f"v1\n{{}}\n{end}")


def fill(bootstrap: str) -> None:
    """Records of every kind in `events.x` and `stamped`; aborted transactions; a beginning that was deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topics = [
        NewTopic("events.x", 2, 1, config={"retention.ms": "-1", "segment.bytes": "1048576"}),
        NewTopic("stamped", 1, 1, config={"message.timestamp.type": "LogAppendTime"}),
        NewTopic("nothing", 1, 1),
    ]
    for creation in admin.create_topics(topics).values():
        creation.result()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "t", "compression.type": "lz4", "linger.ms": 0, **QUIET}
    )
    producer.init_transactions(60)
    for round_ in range(6):
        producer.begin_transaction()
        for number in range(200):
            producer.produce(
                "events.x",
                None if number % 7 == 0 else b"value-%d" % number,
                None if number % 5 == 0 else b"key-%d" % number,
                partition=number % 2,
                timestamp=1_000 * round_ + number,
                headers=[("n", b"%d" % number), ("none", None), ("n", b"\xff")] if number % 3 else None,
            )
        producer.produce("stamped", b"round %d" % round_)
        assert producer.flush(60) == 0
        if round_ % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    wait_until_ended(bootstrap, "t")
    cut = admin.delete_records([TopicPartition("events.x", 1, 33), TopicPartition("stamped", 0, 1)])
    for deletion in cut.values():
        deletion.result()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", **QUIET})
    consumer.commit(offsets=[TopicPartition("events.x", 0, 77, metadata="a note")], asynchronous=False)
    consumer.close()


def restore_and_kill(archive: Path, restored: Path) -> None:
    """A restore that is killed in the middle, while a broker runs for it, which must not stay."""
    command = [sys.executable, "-m", "ottla.cli", "archive", "restore", str(archive), "--data", str(restored)]
    making = restored.with_name(f"{restored.name}.restoring")
    while not making.exists():
        shutil.rmtree(restored, ignore_errors=True)  # it was at its end before it could be killed
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_until(lambda: (making / "events.x-0").exists() or process.poll() is not None, "a topic is made")
            process.kill()
        assert process.returncode in (0, -signal.SIGKILL)
    with (making / ".lock").open() as lock:
        wait_until(lambda: is_free(lock.fileno()), "its broker has ended")
    again = ottla("archive", "restore", archive, "--data", restored)
    assert (again.returncode, again.stderr.count("\n"), restored.exists()) == (1, 1, False), again
    assert f"{making}: left by a restore that did not come to its end; remove it, and restore again" in again.stderr
    shutil.rmtree(making)


def is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_an_archive_is_restored_as_equal_records_at_equal_offsets(tmp_path: Path):
    archive, restored = tmp_path / "archive", tmp_path / "restored"
    places = [("events.x", 0), ("events.x", 1), ("stamped", 0), ("nothing", 0)]
    with BrokerProcess(tmp_path / "data") as broker:
        fill(broker.bootstrap)
        ran = done("archive", "run", "--bootstrap", broker.bootstrap, archive)
        assert {each["topic"] for each in ran} == {"events.x", "stamped", "nothing"}
        assert sum(each["records"] for each in done("archive", "run", "--bootstrap", broker.bootstrap, archive)) == 0
        original, bounds = everything(broker.bootstrap), watermarks(broker.bootstrap, places)
        ids = topic_ids(broker.bootstrap)
    assert [len(original[place]) for place in places] == [400, 400 - 33, 4 - 1, 0]
    assert not any(each["damage"] for each in done("archive", "verify", archive))
    listed = {(each["topic"], each["partition"]): each for each in done("archive", "list", archive)}
    assert [(listed[place]["start"], listed[place]["end"]) for place in places] == bounds
    assert [listed[place]["records"] for place in places] == [len(original[place]) for place in places]

    answer = ottla("archive", "sql", archive, 'select count(*) as n, count(value) as v from "events.x"', "--json")
    values = [record[2] for place in places[:2] for record in original[place]]
    assert json.loads(answer.stdout) == {"n": len(values), "v": sum(value is not None for value in values)}

    restore_and_kill(archive, restored)
    answer = done("archive", "restore", archive, "--data", restored)
    read_back = {(each["topic"], part["partition"]): part for each in answer for part in each["verified"]}
    assert [(read_back[place]["start"], read_back[place]["end"]) for place in places] == bounds
    assert [read_back[place]["records"] for place in places] == [len(original[place]) for place in places]
    assert {part["difference"] for part in read_back.values()} == {None}
    assert ottla("archive", "restore", archive, "--data", restored).returncode == 1
    with BrokerProcess(restored) as broker:
        assert everything(broker.bootstrap) == original
        assert watermarks(broker.bootstrap, places) == bounds
        assert topic_ids(broker.bootstrap) == ids
        described = done("topic", "describe", "--bootstrap", broker.bootstrap, "events.x", "stamped")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", **QUIET})
        [position] = consumer.committed([TopicPartition("events.x", 0)], timeout=60)
        consumer.close()
        assert (position.offset, position.metadata) == (77, "a note")
        producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
        offsets: list[int] = []
        for place in places:
            producer.produce(
                place[0], b"new", partition=place[1], on_delivery=lambda _, sent: offsets.append(sent.offset())
            )
            assert producer.flush(60) == 0
        assert offsets == [end for _, end in bounds]
    text = json.dumps(described)
    assert "segment.bytes" in text
    assert "LogAppendTime" in text


def alter(segment: Path, found: Archive) -> None:
    """Write a segment of `events.x` again, with another value in its record at offset 4."""
    [topic] = found.selected(("events.x",))
    rows = [row for each in archived_records(found, "events.x", topic.partitions[0]) for row in each.to_pylist()]
    rows[4]["value"] = b"another"
    segment.unlink()
    writer = SegmentWriter(segment.parent, 0, OsDisk())
    writer.append(pa.RecordBatch.from_pylist(rows, schema=arrow_schema()))
    writer.finish(topic.partitions[0].end)


def test_a_restored_record_that_is_not_the_archived_one_fails_the_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    archive, restored = tmp_path / "archive", tmp_path / "restored"
    with BrokerProcess(tmp_path / "data") as broker:
        fill(broker.bootstrap)
        done("archive", "run", "--bootstrap", broker.bootstrap, archive)

    @contextmanager
    def disturbed(directory: Path) -> Iterator[Any]:
        """A broker with an altered segment, and a record that somebody produces when all seems done."""
        if (segment := directory / "events.x-0" / f"{0:020d}.log").exists() and segment.stat().st_size:
            alter(segment, Archive.open(str(archive)))
        with broker_on(directory) as cluster:
            assert isinstance(cluster, BlockingClient)
            commit = cluster.commit_offsets

            def commit_and_produce(*arguments: Any) -> None:
                commit(*arguments)
                cluster.produce_raw("stamped", 0, build_batch([(0, None, b"late", [])]))

            monkeypatch.setattr(cluster, "commit_offsets", commit_and_produce)
            yield cluster

    making = restored.with_name(f"{restored.name}.restoring")
    monkeypatch.setattr(restoring, "broker_on", disturbed)
    code = run(["archive", "restore", str(archive), "--data", str(restored), "--json"])
    said = capsys.readouterr()
    assert (code, without_waiting(said.err).count("\n"), restored.exists()) == (1, 1, False), said
    assert "events.x-0: offset 4: not as archived: value; 2 of 4 partitions are not restored" in said.err
    differences = {
        (each["topic"], part["partition"]): part["difference"]
        for each in json.loads(said.out)
        for part in each["verified"]
    }
    assert differences == {
        ("events.x", 0): "offset 4: not as archived: value",
        ("events.x", 1): None,
        ("stamped", 0): "offset 12: the log has records that the archive does not have",
        ("nothing", 0): None,
    }
    shutil.rmtree(making)
    [row] = done("archive", "restore", archive, "nothing", "--data", restored, "--no-verify")
    assert (row["topic"], row["verified"]) == ("nothing", None)


def test_no_new_record_gets_an_offset_that_a_checkpoint_has_read_already(tmp_path: Path):
    archive, restored, checkpoints = tmp_path / "archive", tmp_path / "restored", tmp_path / "checkpoints"
    with BrokerProcess(tmp_path / "data") as broker:
        fill(broker.bootstrap)
        done("archive", "run", "--bootstrap", broker.bootstrap, archive)
        topic_id = str(UUID(bytes=urlsafe_b64decode(topic_ids(broker.bootstrap)["events.x"] + "==")))
        bounds = watermarks(broker.bootstrap, [("events.x", 0), ("events.x", 1)])
    checkpoint(checkpoints / "p" / "behind", "events.x", topic_id, {"0": 5, "1": bounds[1][1]})
    checkpoint(checkpoints / "p" / "ahead", "events.x", topic_id, {"0": bounds[0][1] + 7, "1": 40, "2": 3})

    def refused(*arguments: object) -> str:
        answer = ottla("archive", "restore", archive, *arguments, "--data", restored)
        assert (answer.returncode, answer.stderr.count("\n"), restored.exists()) == (1, 1, False), answer
        return answer.stderr

    assert "there is no checkpoint in it or below it" in refused("--checkpoints", archive)
    assert "reads topic 'events.x', which is not restored" in refused("stamped", "--checkpoints", checkpoints)
    other = "00000000-0000-0000-0000-000000000001"
    checkpoint(tmp_path / "other", "events.x", other, {"0": 5})
    assert f"with the id {other}" in refused("--checkpoints", checkpoints, "--checkpoints", tmp_path / "other")

    rows = done("archive", "restore", archive, "events.x", "--data", restored, "--checkpoints", checkpoints)
    assert [(each["topic"], each["partitions"], each["beyond"]) for each in rows] == [("events.x", 3, 7 + 3)]
    with BrokerProcess(restored) as broker:
        places = [("events.x", number) for number in range(3)]
        ends = [bounds[0][1] + 7, bounds[1][1], 3]
        assert watermarks(broker.bootstrap, places) == list(zip([bounds[0][0], bounds[1][0], 0], ends, strict=True))
        assert len(everything(broker.bootstrap)["events.x", 0]) == 400
