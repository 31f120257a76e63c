"""`ottla consume` counts a record as read, and commits it for a group, when it is written out and not before."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.cli.reading import Reading, Wanted
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import BrokerError
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.client.readable_broker import ReadableBroker

PLACE = TopicPartition("t", 0)
OPTIONS = ConsumerOptions(
    group_id="g",
    auto_commit=True,
    auto_commit_interval_ms=1,
    auto_offset_reset=OffsetReset.EARLIEST,
    fetch_max_wait_ms=5,
)


class Output:
    """Takes records until it has `room` for no more; then `full` happens instead."""

    def __init__(self, room: int, full: Callable[[], Awaitable[None]]) -> None:
        self.values: list[bytes | None] = []
        self._room = room
        self._full = full

    async def write(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            if len(self.values) == self._room:
                await self._full()
            self.values.append(record.value)


async def consume(
    broker: ReadableBroker, output: Output, *, exit_at_end: bool = False, count: int | None = None
) -> None:
    client = ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=3_000)
    wanted = Wanted("t", (), None, None, count, exit_at_end, None)
    async with Consumer(client, OPTIONS) as consumer:
        reading = Reading(consumer, wanted)
        await reading.begin()
        while not reading.finished:
            await reading.give(output.write)


async def reader_gone() -> None:
    raise BrokenPipeError


async def test_what_was_not_written_out_is_not_committed():
    with ReadableBroker(partitions=2, records=10) as broker:
        output = Output(7, reader_gone)
        with pytest.raises(BrokenPipeError):
            await consume(broker, output)
        assert len(output.values) == 7
        # Both partitions came with one poll, of which a part was written: it is written again next time.
        assert not any(broker.committed.values())


async def test_what_was_written_before_stays_committed():
    with ReadableBroker(records=10) as broker:
        output = Output(4, reader_gone)
        await consume(broker, output, count=4)
        with pytest.raises(BrokenPipeError):
            await consume(broker, output)
    assert output.values == [b"0", b"1", b"2", b"3"]
    assert broker.committed == {PLACE: 4}


async def test_a_command_that_is_ended_while_it_writes_commits_nothing_of_it():
    with ReadableBroker(records=10) as broker:
        writing = asyncio.Event()

        async def blocked() -> None:
            writing.set()
            await asyncio.Event().wait()

        consuming = asyncio.create_task(consume(broker, Output(5, blocked)))
        await writing.wait()
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        assert not any(broker.committed.values())


async def test_records_that_came_are_not_lost_when_the_end_cannot_be_found():
    def refused(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        if request.topics[0].partitions[0].timestamp == OffsetAt.EARLIEST:
            return list_offsets(request, version)
        [topic] = request.topics
        error = ListOffsetsPartitionResponse(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=topic.name, partitions=(error,)),))

    with ReadableBroker(records=10) as broker:
        list_offsets = broker.handlers[ListOffsetsRequest]
        broker.handlers[ListOffsetsRequest] = refused
        output = Output(100, reader_gone)
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consume(broker, output, exit_at_end=True)
    assert output.values == []
    assert not any(broker.committed.values())
