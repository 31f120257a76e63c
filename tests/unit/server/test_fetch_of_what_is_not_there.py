"""A topic that is not there is said with every answer, and is no reason to answer all the time."""

import asyncio
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.server.socketless_broker import Peer, Slot, SocketlessBroker, decoded

VERSION = 12
MAX_WAIT_MS = 500
UNKNOWN, MOVED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER


class Reader:
    """A consumer of a few topics, each from its beginning."""

    def __init__(self, peer: Peer, *, has_session: bool) -> None:
        self.peer = peer
        self.session_id, self.epoch = 0, 0 if has_session else -1

    def fetch(self, *topics: str, offset: int = 0) -> Slot:
        """A fetch of these topics, in addition to those of the session."""
        partitions = (FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20),)
        request = FetchRequest(
            topics=tuple(FetchTopic(topic=topic, partitions=partitions) for topic in topics),
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.epoch,
        )
        return self.peer.send(request, VERSION)

    def heard(self, slot: Slot) -> dict[str, int]:
        """The error of each topic that the answer speaks of."""
        answer = decoded(slot, ApiKey.FETCH, VERSION)
        assert answer.error_code == 0
        if self.epoch >= 0:
            self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return {topic.topic: each.error_code for topic in answer.responses for each in topic.partitions}


async def append(broker: SocketlessBroker, topic: str) -> None:
    data = (PartitionProduceData(records=bytes(build_batch([(0, b"k", b"v", ())]))),)
    request = ProduceRequest(
        acks=-1, timeout_ms=60_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )
    answer = await broker.connect().ask(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    await asyncio.sleep(0)  # readers are told when producers have been


async def delete(broker: SocketlessBroker, topic: str) -> None:
    answer = await broker.connect().ask(DeleteTopicsRequest(topic_names=(topic,), timeout_ms=60_000), 3)
    assert answer.responses[0].error_code == 0


async def test_a_session_is_told_of_a_missing_topic_at_once_and_then_with_the_others(
    socketless_broker: SocketlessBroker,
) -> None:
    await socketless_broker.create_topic("there")
    reader = Reader(socketless_broker.connect(), has_session=True)
    assert reader.heard(reader.fetch("there", "missing")) == {"there": 0, "missing": UNKNOWN}
    for _ in range(3):
        waiting = reader.fetch()
        socketless_broker.timer.advance(MAX_WAIT_MS - 1)
        assert waiting.frame is None
        socketless_broker.timer.advance(1)
        assert reader.heard(waiting) == {"missing": UNKNOWN}
    waiting = reader.fetch()
    await append(socketless_broker, "there")
    assert reader.heard(waiting) == {"there": 0, "missing": UNKNOWN}


async def test_a_session_of_missing_topics_only_is_told_once_at_once(socketless_broker: SocketlessBroker) -> None:
    reader = Reader(socketless_broker.connect(), has_session=True)
    assert reader.heard(reader.fetch("missing")) == {"missing": UNKNOWN}
    waiting = reader.fetch()
    assert waiting.frame is None
    socketless_broker.timer.advance(MAX_WAIT_MS)
    assert reader.heard(waiting) == {"missing": UNKNOWN}
    assert reader.heard(reader.fetch("missing")) == {"missing": UNKNOWN}
    assert reader.heard(reader.fetch("another")) == {"missing": UNKNOWN, "another": UNKNOWN}
    await socketless_broker.create_topic("missing")
    waiting = reader.fetch()
    await append(socketless_broker, "missing")
    assert reader.heard(waiting) == {"missing": 0, "another": UNKNOWN}


async def test_a_session_hears_at_once_that_a_topic_is_deleted_and_does_not_go_round_then(
    socketless_broker: SocketlessBroker,
) -> None:
    for topic in ("there", "deleted"):
        await socketless_broker.create_topic(topic)
    reader = Reader(socketless_broker.connect(), has_session=True)
    waiting = reader.fetch("there", "deleted")
    await delete(socketless_broker, "deleted")
    assert reader.heard(waiting)["deleted"] == MOVED
    assert reader.heard(reader.fetch()) == {"deleted": UNKNOWN}
    waiting = reader.fetch()
    assert waiting.frame is None
    await append(socketless_broker, "there")
    assert reader.heard(waiting) == {"there": 0, "deleted": UNKNOWN}


async def test_an_error_that_goes_away_and_comes_again_is_news(socketless_broker: SocketlessBroker) -> None:
    await socketless_broker.create_topic("t")
    reader = Reader(socketless_broker.connect(), has_session=True)
    out_of_range = {"t": ErrorCode.OFFSET_OUT_OF_RANGE}
    assert reader.heard(reader.fetch("t", offset=1)) == out_of_range
    assert reader.fetch().frame is None
    socketless_broker.timer.advance(MAX_WAIT_MS)
    reader.epoch += 1
    await append(socketless_broker, "t")
    waiting = reader.fetch()
    socketless_broker.timer.advance(MAX_WAIT_MS)
    assert reader.heard(waiting) == {"t": 0}
    await delete(socketless_broker, "t")
    assert reader.heard(reader.fetch()) == {"t": UNKNOWN}


async def test_without_a_session_a_missing_topic_is_told_with_the_others(socketless_broker: SocketlessBroker) -> None:
    await socketless_broker.create_topic("there")
    reader = Reader(socketless_broker.connect(), has_session=False)
    for _ in range(3):
        waiting = reader.fetch("there", "missing")
        assert waiting.frame is None
        socketless_broker.timer.advance(MAX_WAIT_MS)
        assert reader.heard(waiting) == {"there": 0, "missing": UNKNOWN}
    assert reader.heard(reader.fetch("missing")) == {"missing": UNKNOWN}


@pytest.mark.parametrize(("version", "error"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)])
async def test_a_topic_that_is_kept_in_zstd_is_refused_to_readers_who_do_not_know_it(
    socketless_broker: SocketlessBroker, version: int, error: ErrorCode
) -> None:
    await socketless_broker.create_topic("t")
    settings = (AlterableConfig(name="compression.type", value="zstd"),)
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=settings)
    await socketless_broker.connect().ask(AlterConfigsRequest(resources=(resource,)), 1)
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(),)),), max_bytes=1 << 20)
    answer: Any = await socketless_broker.connect().ask(request, version)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [error]
