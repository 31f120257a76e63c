"""Topics with a codec of their own: whatever a client writes in, the log holds the topic's, and others read it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from kafka.record.default_records import DefaultRecordBatch

from ottla.native import walk_batches
from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import Client, Record, take
from tests.conformance.clients.known import WITH_CODECS
from tests.conformance.topics import new_topic
from tests.unit.native.independent_codec import (
    HEADER_BYTES,
    SNAPPY,
    XERIAL,
    read_by,
    unpack,
    uvarint,
    with_header,
    with_payload,
)

KEPT = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
"""By the number of the codec."""
WRITERS = ("confluent-kafka", "kafka-python", "aiokafka", "Ottla client")
RECORDS = [
    Record(0, b"key", b"value", (("trace", b"abc"),)),
    Record(0, b"key", None),
    # More than the 32 KiB and 64 KiB blocks that snappy and lz4 cut their input into.
    Record(0, b"long", b"the same again and again, " * 10_000),
    *(Record(0, b"%d" % number, b"value of record %d" % number) for number in range(100)),
]


@pytest.mark.alone("its files are read")
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("kept", range(len(KEPT)), ids=KEPT)
@pytest.mark.parametrize(("writer", "reader"), list(zip(WRITERS, WRITERS[1:] + WRITERS[:1], strict=True)))
def test_every_codec_is_kept_as_the_topic_asks_and_read_by_others(
    client_named: Callable[[str], Client],
    group_broker: BrokerProcess,
    writer: str,
    reader: str,
    kept: int,
    idempotent: bool,
) -> None:
    topic = new_topic(group_broker, compression_type=KEPT[kept], cleanup_policy="compact")
    codecs = WITH_CODECS[writer].codecs
    for codec in codecs:
        client_named(writer).produce(topic, RECORDS, codec=codec, idempotent=idempotent)
    expected = [record._replace(offset=at) for at, record in enumerate(RECORDS * len(codecs))]
    opened = client_named(reader).reader(topic)
    records = take(opened, len(expected))
    opened.close()
    assert records == expected
    in_log = log_of(group_broker, topic)
    batches, size, error = walk_batches(in_log, check_crc=True)
    assert (error, size) == (None, len(in_log))
    assert {batch.codec for batch in batches} == {kept}
    assert all((batch.producer_id >= 0) is idempotent for batch in batches)
    found = []
    for batch in batches:
        whole = in_log[batch.position : batch.position + batch.size]
        plain = with_payload(whole[:HEADER_BYTES], opened_by_others(kept, whole[HEADER_BYTES:]))
        found += read_by(DefaultRecordBatch, with_header(plain, attributes=batch.attributes & ~7))
    assert [(offset, key, value) for offset, _, key, value, _ in found] == [
        (at, record.key, record.value) for at, record in enumerate(expected)
    ]


def opened_by_others(codec: int, payload: bytes) -> bytes:
    """The records; snappy that came as snappy may be a bare block, as librdkafka writes it."""
    if codec == SNAPPY and not payload.startswith(XERIAL):
        return pa.decompress(payload, uvarint(payload), codec="snappy", asbytes=True)
    return unpack(codec, payload)


def log_of(broker: BrokerProcess, topic: str) -> bytes:
    """The only segment of the topic's partition."""
    return (broker.data_dir / f"{topic}-0" / f"{0:020}.log").read_bytes()
