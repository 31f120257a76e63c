"""Many topics and many partitions, with memory and open files that do not grow along."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.face import Record
from tests.conformance.group_members import poll_until

pytestmark = [pytest.mark.long, pytest.mark.proves(client="confluent-kafka")]

TOPICS = [f"topic-{index:04d}" for index in range(1_000)]
HUNDREDS = [TOPICS[first : first + 100] for first in range(0, len(TOPICS), 100)]
PARTITIONS_OF_EACH = 10
PARTITIONS_OF_THE_WIDE = 2_000
ANSWER_WITHIN_S = 120


@pytest.fixture
def large(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for tens of thousands of small files: in memory where that can be, and none of them stays behind."""
    shared_memory = Path("/dev/shm")
    with TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else tmp_path) as folder:
        broker = BrokerProcess(Path(folder, "data"), {"group.initial.rebalance.delay.ms": "0"}).start()
        yield broker
        broker.kill()


def results(futures: dict[Any, Future[Any]]) -> list[Any]:
    return [future.result(ANSWER_WITHIN_S) for future in futures.values()]


def held_by(broker: BrokerProcess) -> tuple[int, int]:
    """Open files and resident bytes of the broker."""
    assert broker.process is not None
    process = psutil.Process(broker.process.pid)
    return process.num_fds(), process.memory_info().rss


@pytest.mark.proves(feature="1,000 topics of 10 partitions")
def test_a_thousand_topics_are_made_listed_described_and_deleted(large: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": large.bootstrap})
    files, resident = held_by(large)
    for names in HUNDREDS:
        new = [NewTopic(name, PARTITIONS_OF_EACH, 1) for name in names]
        results(admin.create_topics(new, request_timeout=ANSWER_WITHIN_S))

    listed = admin.list_topics(timeout=ANSWER_WITHIN_S).topics
    assert {name: len(topic.partitions) for name, topic in listed.items()} == dict.fromkeys(TOPICS, PARTITIONS_OF_EACH)
    described = results(admin.describe_topics(TopicCollection(TOPICS), request_timeout=ANSWER_WITHIN_S))
    assert sorted(topic.name for topic in described) == TOPICS
    assert all(
        [(each.id, each.leader.id) for each in topic.partitions] == [(at, 1) for at in range(PARTITIONS_OF_EACH)]
        for topic in described
    )
    # An idle partition has no open file, and costs a few kilobytes.
    files_now, resident_now = held_by(large)
    assert files_now - files < 100
    assert (resident_now - resident) / (len(TOPICS) * PARTITIONS_OF_EACH) < 10_000

    for names in HUNDREDS:
        results(admin.delete_topics(names, request_timeout=ANSWER_WITHIN_S))
    assert admin.list_topics(timeout=ANSWER_WITHIN_S).topics == {}


@pytest.mark.proves(feature="a topic of 2,000 partitions")
def test_every_partition_of_a_wide_topic_is_written_and_a_group_reads_them_all(large: BrokerProcess) -> None:
    client, admin = ConfluentClient(large), AdminClient({"bootstrap.servers": large.bootstrap})
    new = NewTopic("wide", PARTITIONS_OF_THE_WIDE, 1)
    results(admin.create_topics([new], request_timeout=ANSWER_WITHIN_S))
    records = [Record(at % PARTITIONS_OF_THE_WIDE, None, b"%d" % at) for at in range(2 * PARTITIONS_OF_THE_WIDE)]
    offsets = client.produce("wide", records)
    assert sorted(offsets) == [0] * PARTITIONS_OF_THE_WIDE + [1] * PARTITIONS_OF_THE_WIDE

    members = [client.member("wide-group", "wide", "range") for _ in range(2)]
    got: list[bytes] = []

    def done() -> bool:
        parts = [member.assignment() for member in members]
        shared = all(parts) and sorted(at for part in parts for at in part) == list(range(PARTITIONS_OF_THE_WIDE))
        return shared and len(set(got)) >= len(records)

    poll_until(members, done, got)
    assert set(got) == {record.value for record in records}
    for member in members:
        member.commit()
    for member in members:
        member.close()
    assert held_by(large)[0] < 3 * PARTITIONS_OF_THE_WIDE
