"""Records appended and read at a broker that does not lead them: as gateways do whose clients do not find leaders."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.records import RecordRead, RecordService
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_records
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.unit.server.socketless_broker import Peer
from tests.unit.server.whole_cluster import WholeBroker, cluster, until

PLACE = TopicPartition("orders", 0)
TIMEOUT_MS = 30_000


async def led_by(brokers: list[WholeBroker], leader: int) -> None:
    """A topic of one partition that a broker leads, known to all."""
    assignment = CreatableReplicaAssignment(0, (leader,))
    topic = CreatableTopic(PLACE.topic, -1, -1, (assignment,))
    answer = await Peer(brokers[0].server).ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer
    await until(lambda: all(each.image.topic(PLACE.topic) for each in brokers))


def records_of(broker: WholeBroker) -> RecordService:
    return broker.server.services.broker.records


async def append(broker: WholeBroker, *values: bytes) -> int:
    return await records_of(broker).append(
        ANONYMOUS, PLACE, [(None, value, (("source", b"test"),)) for value in values], TIMEOUT_MS
    )


def values_of(read: RecordRead) -> list[bytes | None]:
    return [value for _, _, _, value, _ in decode_records(read.records, max_decompressed_bytes=1 << 20)]


async def read(broker: WholeBroker, offset: int, wait_ms: int = 0) -> RecordRead:
    return await records_of(broker).read(
        ANONYMOUS, PLACE, offset, max_bytes=1 << 20, wait_ms=wait_ms, timeout_ms=TIMEOUT_MS
    )


@pytest.mark.parametrize("leader", [1, 2])
async def test_values_are_appended_and_read_at_any_broker(tmp_path: Path, leader: int) -> None:
    async with cluster(tmp_path, 2) as brokers:
        await led_by(brokers, leader)
        offsets = [await append(broker, b"a", b"b") for broker in brokers]
        assert offsets == [0, 2]
        for broker in brokers:
            found = await read(broker, 0)
            assert values_of(found) == [b"a", b"b", b"a", b"b"]
            assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (4, 4, 0)


@pytest.mark.parametrize("leader", [1, 2])
async def test_a_reader_that_waits_gets_what_arrives(tmp_path: Path, leader: int) -> None:
    async with cluster(tmp_path, 2) as brokers:
        await led_by(brokers, leader)
        waiting = [asyncio.create_task(read(broker, 0, wait_ms=60_000)) for broker in brokers]
        await asyncio.sleep(0)
        await append(brokers[0], b"new")
        assert [values_of(await each) for each in waiting] == [[b"new"], [b"new"]]


async def test_what_a_leader_refuses_is_raised_with_its_reason(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as brokers:
        await led_by(brokers, 2)
        for broker in brokers:
            with pytest.raises(ApiError) as refused:
                await read(broker, 7)
            assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            with pytest.raises(ApiError) as refused:
                await records_of(broker).append(ANONYMOUS, TopicPartition("nowhere", 0), [(None, b"x", ())], TIMEOUT_MS)
            assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(ApiError) as refused:
                await records_of(broker).append(
                    ANONYMOUS, TopicPartition("__consumer_offsets", 0), [(None, b"x", ())], TIMEOUT_MS
                )
            assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
