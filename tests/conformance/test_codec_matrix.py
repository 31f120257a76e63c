"""Records in each codec, written by each client library and read by each other one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import Client, Record, take
from tests.conformance.clients.known import PEERS, WITH_CODECS
from tests.conformance.topics import new_topic

RECORDS = [
    Record(0, b"key-1", b"value-1", (("trace", b"abc"), ("trace", b"def"))),
    Record(0, b"key-2", None),
    Record(0, None, b"", (("empty", b""),)),
    Record(0, b"bytes", bytes(range(256)) * 40),
    # More than the 32 KiB and 64 KiB blocks that snappy and lz4 cut their input into.
    Record(0, b"long", b"the same again and again, " * 10_000),
    *(Record(0, b"%d" % number, b"value of record %d" % number) for number in range(300)),
]
PAIRS = [
    pytest.param(
        writer,
        reader,
        marks=[
            pytest.mark.proves(client=writer, feature="codecs: its records are read by others"),
            pytest.mark.proves(client=reader, feature="codecs: reads what others wrote"),
            *([pytest.mark.peer] if {writer, reader} & set(PEERS) else []),
        ],
        id=f"{writer}-to-{reader}",
    )
    for writer, reader in product(WITH_CODECS, repeat=2)
]

TopicOf = Callable[[str, str], str]


@pytest.fixture(scope="module")
def topic_of(client_named: Callable[[str], Client], group_broker: BrokerProcess) -> TopicOf:
    """The topic that one client wrote in one codec, written when it is first asked for."""
    topics: dict[tuple[str, str], str] = {}

    def written(writer: str, codec: str) -> str:
        if (writer, codec) not in topics:
            topic = new_topic(group_broker)
            client_named(writer).produce(topic, RECORDS, codec=codec)
            topics[writer, codec] = topic
        return topics[writer, codec]

    return written


@pytest.mark.parametrize(("writer", "reader"), PAIRS)
def test_what_one_client_writes_the_other_reads(
    client_named: Callable[[str], Client], topic_of: TopicOf, writer: str, reader: str
) -> None:
    client = client_named(reader)
    for codec in WITH_CODECS[writer].codecs:
        opened = client.reader(topic_of(writer, codec))
        records = take(opened, len(RECORDS))
        opened.close()
        assert records == [record._replace(offset=at) for at, record in enumerate(RECORDS)], codec
