"""Records that no producer may send: each is refused with Kafka's error for it, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.errors import ClientError
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.replication.batch_decompressor import OPEN_BYTES_MAX
from tests.broker_process import BrokerProcess
from tests.hostile.conftest import create_topic, end_offset
from tests.hostile.process_memory import peak_mib
from tests.hostile.raw_peer import RawPeer
from tests.unit.native.independent_codec import GZIP, LZ4, SNAPPY, ZSTD, pack, with_header, with_payload

NOW_MS = time.time_ns() // 1_000_000
YEAR_MS = 365 * 24 * 3_600_000
GOOD = bytes(build_batch([(NOW_MS, b"key", b"value %d" % number, []) for number in range(5)]))
ALL, LEADER, NONE = -1, 1, 0


def produce(peer: RawPeer, topic: str, records: bytes | None, *, acks: int = ALL, index: int = 0, version: int = 9):
    """The error and the message of a produce request."""
    data = (PartitionProduceData(index=index, records=records),)
    request = ProduceRequest(
        acks=acks, timeout_ms=60_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    ((answer,),) = (each.partition_responses for each in peer.ask(request, version).responses)
    return ErrorCode(answer.error_code), answer.error_message


def header_of(**changes: int) -> bytes:
    return bytes(with_header(GOOD, **changes))


def payload_of(payload: bytes, **changes: int) -> bytes:
    return bytes(with_payload(GOOD, payload, **changes))


PRODUCER = {"producer_id": 7, "producer_epoch": 0}
BAD_RECORDS = {
    "message format 0": (header_of(magic=0), ErrorCode.INVALID_RECORD),
    "message format 1": (header_of(magic=1), ErrorCode.INVALID_RECORD),
    "message format 3": (header_of(magic=3), ErrorCode.INVALID_RECORD),
    "message format -1": (header_of(magic=-1), ErrorCode.INVALID_RECORD),
    "a bad checksum": (header_of(crc=1), ErrorCode.CORRUPT_MESSAGE),
    "a changed byte": (GOOD[:-3] + b"?" + GOOD[-2:], ErrorCode.CORRUPT_MESSAGE),
    "a batch without its last byte": (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
    "half a header": (GOOD[:40], ErrorCode.CORRUPT_MESSAGE),
    "one byte": (b"\0", ErrorCode.CORRUPT_MESSAGE),
    "a byte behind the batch": (GOOD + b"x", ErrorCode.CORRUPT_MESSAGE),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "a negative length": (header_of(length=-1), ErrorCode.CORRUPT_MESSAGE),
    "no length": (header_of(length=0), ErrorCode.CORRUPT_MESSAGE),
    "the largest length": (header_of(length=2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
    "no records at all": (None, ErrorCode.INVALID_RECORD),
    "empty records": (b"", ErrorCode.INVALID_RECORD),
    "a codec that does not exist": (header_of(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a control batch": (header_of(attributes=0x20), ErrorCode.INVALID_RECORD),
    "a control batch of a transaction": (header_of(attributes=0x30, **PRODUCER), ErrorCode.INVALID_RECORD),
    "a transaction": (
        header_of(attributes=0x10, base_sequence=0, **PRODUCER),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "a transaction without a producer": (
        header_of(attributes=0x10),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "the cleaner's attribute": (header_of(attributes=0x40), ErrorCode.INVALID_RECORD),
    "the broker's timestamp type": (header_of(attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
    "a first timestamp in a year": (header_of(base_timestamp=NOW_MS + YEAR_MS), ErrorCode.INVALID_TIMESTAMP),
    "the least timestamp": (header_of(base_timestamp=-(2**63)), ErrorCode.INVALID_TIMESTAMP),
    "a batch that begins at another offset": (header_of(base_offset=1), ErrorCode.INVALID_RECORD),
    "a producer without a sequence": (header_of(**PRODUCER), ErrorCode.INVALID_RECORD),
    "a negative sequence": (header_of(base_sequence=-9, **PRODUCER), ErrorCode.INVALID_RECORD),
    "a count of 0": (header_of(count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "a negative count": (header_of(count=-5), ErrorCode.INVALID_RECORD),
    "a count without its offsets": (header_of(count=4), ErrorCode.INVALID_RECORD),
    "offsets without their count": (header_of(last_offset_delta=9), ErrorCode.INVALID_RECORD),
    "fewer records than there are": (header_of(count=4, last_offset_delta=3), ErrorCode.INVALID_RECORD),
    "more records than there are": (header_of(count=6, last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "a giant count": (header_of(count=2**31 - 1, last_offset_delta=2**31 - 2), ErrorCode.INVALID_RECORD),
    "a giant count, compressed": (
        payload_of(pack(ZSTD, GOOD[61:]), attributes=ZSTD, count=2**31 - 1, last_offset_delta=2**31 - 2),
        ErrorCode.INVALID_RECORD,
    ),
    "records of another codec": (payload_of(pack(LZ4, GOOD[61:]), attributes=GZIP), ErrorCode.INVALID_RECORD),
    "records that are not compressed": (payload_of(GOOD[61:], attributes=ZSTD), ErrorCode.INVALID_RECORD),
    "noise for records": (payload_of(b"\xff" * 100), ErrorCode.INVALID_RECORD),
    "a header and nothing": (payload_of(b""), ErrorCode.INVALID_RECORD),
    "a batch above the topic's limit": (
        bytes(build_batch([(NOW_MS, None, bytes(1_100_000), [])])),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
}


@pytest.mark.parametrize("acks", [ALL, LEADER])
@pytest.mark.parametrize(("records", "error"), BAD_RECORDS.values(), ids=list(BAD_RECORDS))
def test_bad_records_are_refused_with_their_error(
    peer: RawPeer, topic: str, records: bytes | None, error: ErrorCode, acks: int
):
    said, message = produce(peer, topic, records, acks=acks)
    assert said is error
    assert message
    assert peer.is_served()


def test_without_an_answer_bad_records_close_the_connection(broker: BrokerProcess, topic: str):
    data = (PartitionProduceData(index=0, records=header_of(crc=1)),)
    request = ProduceRequest(acks=NONE, topic_data=(TopicProduceData(name=topic, partition_data=data),))
    with RawPeer(broker.port) as stranger:
        stranger.send(encode_request(7, "hostile", request, 9))
        assert stranger.closed_with() == b""


@pytest.mark.parametrize("acks", [2, -2, 2**15 - 1])
def test_acks_that_do_not_exist_are_refused(peer: RawPeer, topic: str, acks: int):
    assert produce(peer, topic, GOOD, acks=acks)[0] is ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("index", [-1, 1, 2**31 - 1])
def test_partitions_that_do_not_exist_are_unknown(peer: RawPeer, topic: str, index: int):
    assert produce(peer, topic, GOOD, index=index)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "x" * 32_000, "a\0b", "a\nb"])
def test_records_for_a_topic_that_cannot_be_are_refused(peer: RawPeer, name: str):
    assert produce(peer, name, GOOD)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nobody_writes_to_the_topics_of_coordinators(broker: BrokerProcess, peer: RawPeer):
    while peer.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 6).coordinators[0].error_code:
        pass
    before = end_offset(broker.port, "__consumer_offsets")
    for acks in (ALL, LEADER):
        assert produce(peer, "__consumer_offsets", GOOD, acks=acks)[0] is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert end_offset(broker.port, "__consumer_offsets") == before


def test_a_good_partition_is_written_beside_a_bad_one(broker: BrokerProcess, peer: RawPeer):
    name = create_topic(broker.port, f"both-{NOW_MS}", partitions=2)
    data = (PartitionProduceData(index=0, records=GOOD), PartitionProduceData(index=1, records=header_of(crc=1)))
    request = ProduceRequest(
        acks=ALL, timeout_ms=60_000, topic_data=(TopicProduceData(name=name, partition_data=data),)
    )
    ((good, bad),) = (each.partition_responses for each in peer.ask(request, 9).responses)
    assert (good.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)
    assert end_offset(broker.port, name) == 5


@pytest.mark.parametrize("claimed", [-(2**63), 0, NOW_MS + YEAR_MS, 2**63 - 1], ids=["least", "0", "in a year", "most"])
def test_a_largest_timestamp_that_no_record_has_is_put_right(broker: BrokerProcess, peer: RawPeer, claimed: int):
    name = create_topic(broker.port, f"claimed-{claimed}-{NOW_MS}")
    assert produce(peer, name, header_of(max_timestamp=claimed))[0] is ErrorCode.NONE
    wanted = ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=-3),))
    ((answer,),) = (each.partitions for each in peer.ask(ListOffsetsRequest(replica_id=-1, topics=(wanted,)), 7).topics)
    assert (answer.timestamp, answer.offset) == (NOW_MS, 0)


def test_a_sequence_without_a_producer_means_nothing(broker: BrokerProcess, peer: RawPeer):
    name = create_topic(broker.port, f"sequence-{NOW_MS}")
    for _ in range(2):
        assert produce(peer, name, header_of(base_sequence=5))[0] is ErrorCode.NONE
    assert end_offset(broker.port, name) == 10


def test_the_log_says_who_sent_bad_records_and_escapes_what_was_sent(quiet_broker: BrokerProcess):
    name = create_topic(quiet_broker.port, "watched")
    with RawPeer(quiet_broker.port, "127.0.0.99") as stranger:
        data = (PartitionProduceData(index=0, records=header_of(crc=1)),)
        request = ProduceRequest(acks=ALL, topic_data=(TopicProduceData(name=name, partition_data=data),))
        stranger.ask(request, 9, client_id="me\nottla: all is well\x1b[2J")
        address = stranger.address
    (line,) = quiet_broker.stopped_log()
    assert (
        f"Z WARNING network.listener: {address} to 127.0.0.1:{quiet_broker.port}: "
        "client 'me\\nottla: all is well\\x1b[2J'"
    ) in line
    assert "CORRUPT_MESSAGE: watched-0: the CRC is" in line


def bomb(codec: int) -> bytes:
    """A batch below a megabyte that holds one record of as many megabytes as the codec can pack into it."""
    megabytes = {GZIP: 200, SNAPPY: 18, LZ4: 200, ZSTD: 200}[codec]
    records = bytes(build_batch([(NOW_MS, None, bytes(megabytes << 20), [])]))[61:]
    return bytes(with_payload(GOOD, pack(codec, records), attributes=codec, count=1, last_offset_delta=0))


@pytest.mark.long
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_costs_the_broker_its_own_bytes_and_no_more(new_broker: Callable[..., BrokerProcess], codec: int):
    broker = new_broker().start()
    name = create_topic(broker.port, "bombs")
    before = peak_mib(broker)
    packed = bomb(codec)
    with RawPeer(broker.port) as peer:
        assert len(packed) < 1_048_588
        for _ in range(20):
            assert produce(peer, name, packed)[0] is ErrorCode.NONE
    assert peak_mib(broker) - before < 16


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=["gzip", "snappy", "lz4", "zstd"])
async def test_a_consumer_names_a_bomb_and_where_it_is(quiet_broker: BrokerProcess, codec: int):
    name = create_topic(quiet_broker.port, f"bomb-for-consumers-{codec}")
    with RawPeer(quiet_broker.port) as peer:
        assert produce(peer, name, GOOD)[0] is ErrorCode.NONE
        assert produce(peer, name, bomb(codec))[0] is ErrorCode.NONE
        assert produce(peer, name, GOOD)[0] is ErrorCode.NONE
    partition = TopicPartition(name, 0)
    options = ConsumerOptions(
        decompressed_bytes_max=1 << 20, partition_fetch_bytes_max=1, auto_offset_reset=OffsetReset.EARLIEST
    )
    async with Consumer(ClientOptions.of(f"127.0.0.1:{quiet_broker.port}"), options) as consumer:
        consumer.assign([partition])
        assert [record.offset for record in await consumer.poll(timeout_ms=30_000)] == [0, 1, 2, 3, 4]
        with pytest.raises(ClientError, match=f"{name}-0 at offset 5: .*limit"):
            await consumer.poll(timeout_ms=30_000)
        # Whoever knows better than to read it goes on behind it.
        consumer.seek(partition, 6)
        consumer.resume([partition])
        assert [record.offset for record in await consumer.poll(timeout_ms=30_000)] == [6, 7, 8, 9, 10]


def produced(peer: RawPeer, topic: str, records: bytes, version: int) -> PartitionProduceResponse:
    """The answer for the one partition."""
    data = (PartitionProduceData(index=0, records=records),)
    request = ProduceRequest(
        acks=ALL, timeout_ms=60_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    ((answer,),) = (each.partition_responses for each in peer.ask(request, version).responses)
    return answer


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD], ids=["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
def test_a_compacted_topic_names_the_records_without_a_key_where_the_answer_can(
    quiet_broker: BrokerProcess, codec: int, version: int
):
    name = create_topic(quiet_broker.port, f"compacted-{codec}-{version}", cleanup_policy="compact")
    records = build_batch([(NOW_MS, key, b"v", []) for key in (b"a", None, b"c", None)], codec=codec)
    with RawPeer(quiet_broker.port) as peer:
        answer = produced(peer, name, bytes(records), version)
        if version < 7 and codec == ZSTD:
            assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            return
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == ([1, 3] if version >= 8 else [])
        assert all("key" in (each.batch_index_error_message or "") for each in answer.record_errors)
        assert (answer.error_message is not None) == (version >= 8)
        keyed = build_batch([(NOW_MS, b"a", b"v", [])], codec=codec)
        assert produced(peer, name, bytes(keyed), version).base_offset == 0
    assert end_offset(quiet_broker.port, name) == 1


@pytest.mark.parametrize("version", [3, 6, 7, 12])
def test_zstd_comes_with_version_7(quiet_broker: BrokerProcess, version: int):
    name = create_topic(quiet_broker.port, f"zstd-{version}")
    batch = build_batch([(NOW_MS, None, b"v", [])], codec=ZSTD)
    with RawPeer(quiet_broker.port) as peer:
        answer = produced(peer, name, bytes(batch), version)
    assert answer.error_code == (ErrorCode.NONE if version >= 7 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def test_a_connection_that_goes_while_its_batches_are_opened_disturbs_nobody(quiet_broker: BrokerProcess):
    name = create_topic(quiet_broker.port, f"gone-{NOW_MS}", cleanup_policy="compact")
    large = bytes(build_batch([(NOW_MS, b"k", b"value of a record" * 40_000, [])], codec=ZSTD))
    data = (PartitionProduceData(index=0, records=large),)
    for acks in (NONE, LEADER, ALL):
        request = ProduceRequest(acks=acks, topic_data=(TopicProduceData(name=name, partition_data=data),))
        with RawPeer(quiet_broker.port) as stranger:
            for number in range(20):
                stranger.send(encode_request(number, "gone", request, 9))
    with RawPeer(quiet_broker.port) as peer:
        assert produced(peer, name, bytes(build_batch([(NOW_MS, b"k", b"", [])])), 9).error_code == ErrorCode.NONE
    assert quiet_broker.stopped_log() == []


@pytest.mark.long
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("settings", [{"cleanup_policy": "compact"}, {"compression_type": "uncompressed"}])
def test_a_bomb_for_a_topic_that_opens_batches_is_refused_in_bounded_memory(
    new_broker: Callable[..., BrokerProcess], codec: int, settings: dict[str, Any]
):
    broker = new_broker().start()
    name = create_topic(broker.port, "bombs", max_message_bytes="4000000", **settings)
    packed = bomb(codec) if codec != SNAPPY else bytes(build_batch([(NOW_MS, b"k", bytes(70 << 20), [])], codec=SNAPPY))
    before = peak_mib(broker)
    with RawPeer(broker.port) as peer:
        for number in range(20):
            data = (PartitionProduceData(index=0, records=packed),)
            request = ProduceRequest(acks=ALL, topic_data=(TopicProduceData(name=name, partition_data=data),))
            peer.send(encode_request(number, "hostile", request, 9))
        for _ in range(20):
            peer.receive_frame()
        answer = produced(peer, name, packed, 9)
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert "max.message.bytes" in (answer.error_message or "")
    assert peak_mib(broker) - before < (OPEN_BYTES_MAX >> 20) + 64
    assert end_offset(broker.port, name) == 0
