"""What a broker makes of the answers of the leader whose records it was asked for."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker.record_channel import READS, WAITING_READS, RecordChannel
from ottla.client.errors import BrokerUnreachableError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.unit.broker.other_brokers import OtherBrokers, settle

PLACE = TopicPartition("orders", 3)


class Channel:
    """A channel to a leader that answers what the test says."""

    def __init__(self) -> None:
        self.others = OtherBrokers()
        self.channel = RecordChannel(cast("Any", self.others), lambda _topic: UUID(int=1))

    async def append(self) -> asyncio.Task[int]:
        task = asyncio.create_task(self.channel.append(2, PLACE, bytearray(b"batch"), 1_000))
        await settle()
        return task

    async def read(self, wait_ms: int) -> asyncio.Task[Any]:
        task = asyncio.create_task(self.channel.read(2, PLACE, 5, 100, wait_ms, read_committed=True))
        await settle()
        return task

    async def code_of_append(self, answer: PartitionProduceResponse) -> ErrorCode:
        task = await self.append()
        await self.others.answer(0, ProduceResponse((TopicProduceResponse("orders", UUID(int=1), (answer,)),)))
        with pytest.raises(ApiError) as refused:
            await task
        return refused.value.code


@pytest.mark.parametrize(
    ("answered", "raised"),
    [
        (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS),
        # It may have led when the records came, and others may have them.
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_an_append_may_be_tried_again_only_where_nothing_was_written(
    answered: ErrorCode, raised: ErrorCode
) -> None:
    assert await Channel().code_of_append(PartitionProduceResponse(3, answered)) is raised


async def test_an_append_whose_connection_is_lost_may_be_there_and_one_that_was_not_sent_is_not() -> None:
    channel = Channel()
    lost = await channel.append()
    await channel.others.lose(0)
    with pytest.raises(ApiError, match="not known whether the records are there") as refused:
        await lost
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    unsent = await channel.append()
    channel.others._answers[1].set_exception(BrokerUnreachableError("refused"))
    with pytest.raises(ApiError) as refused:
        await unsent
    assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE


async def test_reads_that_wait_have_a_connection_each_and_when_all_are_taken_the_next_does_not_wait() -> None:
    channel = Channel()
    waiting = [await channel.read(1_000) for _ in WAITING_READS]
    last = await channel.read(1_000)
    assert channel.others.lanes == [*WAITING_READS, READS]
    assert [request.max_wait_ms for _, request in channel.others.sent] == [1_000] * len(waiting) + [0]
    found = PartitionData(3, high_watermark=6, last_stable_offset=6, log_start_offset=0, records=b"batch")
    answer = FetchResponse(responses=(FetchableTopicResponse("orders", UUID(int=1), (found,)),))
    await channel.others.answer(0, answer)
    assert (await waiting[0]).records == b"batch"
    again = await channel.read(1_000)
    assert channel.others.lanes[-1] == WAITING_READS[0]
    for task in (*waiting[1:], last, again):
        task.cancel()
    await settle()
