"""What every client library does with records: written, read, found by time, in each codec."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import BEGINNING, END, Client, Record, take
from tests.conformance.clients.known import each_client, each_client_and
from tests.conformance.topics import new_topic

START_MS = 1_700_000_000_000
VARIED = [
    Record(0, b"key-1", b"value-1", (("trace", b"abc"), ("trace", b"def")), START_MS + 1),
    Record(0, b"key-2", None, (), START_MS + 2),
    Record(0, None, b"value-3", (), START_MS + 3),
    Record(0, b"", b"", (("empty", b""),), START_MS + 4),
    Record(0, b"key-5", bytes(range(256)) * 40, (), START_MS + 5),
]

ClientNamed = Callable[[str], Client]


def numbered(count: int, partition: int = 0, first: int = 0) -> list[Record]:
    """Records one second apart."""
    return [
        Record(partition, None, b"%d" % number, (), START_MS + number * 1000) for number in range(first, first + count)
    ]


def values(records: list[Record]) -> list[int]:
    return [int(record.value or b"") for record in records]


@each_client()
@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.proves(feature="acks 0, 1, all")
def test_each_kind_of_acknowledgement_stores_the_records(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str, acks: str
) -> None:
    topic, client = new_topic(group_broker), client_named(name)
    offsets = client.produce(topic, numbered(300), acks=acks)
    if acks != "0":
        assert offsets == list(range(300))
    reader = client.reader(topic)
    assert values(take(reader, 300)) == list(range(300))
    reader.close()


@each_client()
@pytest.mark.proves(feature="idempotent produce")
def test_an_idempotent_producer_stores_each_record_once(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, client = new_topic(group_broker, 2), client_named(name)
    records = [*numbered(500), *numbered(500, partition=1)]
    assert client.produce(topic, records, idempotent=True) == [*range(500), *range(500)]
    reader = client.reader(topic, partitions=2)
    assert values(take(reader, 1000)) == [*range(500), *range(500)]
    reader.close()


@each_client()
@pytest.mark.proves(feature="keys, headers, null values, timestamps")
def test_a_record_comes_back_with_all_its_parts(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, client = new_topic(group_broker), client_named(name)
    client.produce(topic, VARIED)
    reader = client.reader(topic)
    assert take(reader, len(VARIED)) == [record._replace(offset=at) for at, record in enumerate(VARIED)]
    reader.close()


@each_client_and("codec", lambda client: client.codecs, "codec {}")
def test_records_come_back_from_a_batch_in_each_codec(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str, codec: str
) -> None:
    topic, client = new_topic(group_broker), client_named(name)
    sent = [*VARIED, *numbered(200)]
    client.produce(topic, sent, codec=codec)
    reader = client.reader(topic)
    assert take(reader, len(sent)) == [record._replace(offset=at) for at, record in enumerate(sent)]
    reader.close()


@each_client()
@pytest.mark.proves(feature="consume from beginning, offset, end")
def test_reading_begins_at_the_beginning_at_an_offset_or_at_the_end(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, client = new_topic(group_broker), client_named(name)
    client.produce(topic, numbered(20))
    for start, first in ((BEGINNING, 0), (13, 13)):
        reader = client.reader(topic, start=start)
        assert values(take(reader, 20 - first)) == list(range(first, 20))
        reader.close()

    reader = client.reader(topic, start=END)
    got: list[Record] = []
    # Where the end is, clients ask some time after they are told to go there: whatever is written before is not read.
    for number in range(20, 2_000):
        client.produce(topic, numbered(1, first=number))
        got = reader.poll()
        if got:
            break
    assert got
    assert values(got)[0] >= 20
    reader.close()


@each_client()
@pytest.mark.proves(feature="seek")
def test_a_reader_goes_back_and_forth(client_named: ClientNamed, group_broker: BrokerProcess, name: str) -> None:
    topic, client = new_topic(group_broker), client_named(name)
    client.produce(topic, numbered(50))
    reader = client.reader(topic)
    assert values(take(reader, 50)) == list(range(50))
    for offset in (10, 49, 0):
        reader.seek(0, offset)
        assert values(take(reader, 50 - offset)) == list(range(offset, 50))
    reader.close()


@each_client()
@pytest.mark.proves(feature="offsets for times")
def test_offsets_are_found_by_time_and_at_both_ends(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, client = new_topic(group_broker), client_named(name)
    client.produce(topic, numbered(100))
    assert client.ends(topic) == (0, 100)
    times = [START_MS, START_MS + 41_001, START_MS + 99_000, START_MS + 99_001]
    late = 100 if client.late_time_is_end else -1
    assert client.offsets_for_times(topic, times) == [0, 42, 99, late]


@each_client()
@pytest.mark.proves(feature="pause and resume")
def test_a_paused_partition_waits_while_another_is_read(
    client_named: ClientNamed, group_broker: BrokerProcess, name: str
) -> None:
    topic, client = new_topic(group_broker, 2), client_named(name)
    client.produce(topic, [*numbered(5), *numbered(5, partition=1)])
    reader = client.reader(topic, partitions=2)
    take(reader, 10)
    reader.pause(0)
    for first in (5, 10, 15):
        client.produce(topic, [*numbered(5, first=first), *numbered(5, partition=1, first=first)])
        assert {record.partition for record in take(reader, 5)} == {1}
    reader.resume(0)
    resumed = take(reader, 15)
    assert {record.partition for record in resumed} == {0}
    assert values(resumed) == list(range(5, 20))
    reader.close()
