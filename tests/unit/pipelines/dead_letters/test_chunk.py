"""A transaction has each letter once, in order within each target partition, in batches of a bounded size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.errors import BrokerError, ClientError
from ottla.client.producing.delivery import BatchOutcome, Delivery
from ottla.client.producing.partitioner import partition_for_key
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_records
from ottla.pipelines.dead_letters.chunk import BATCH_BYTES, Chunk
from ottla.pipelines.dead_letters.redrive import Destination


class Sending:
    """A producer that keeps what it is given, and fails the batches of one partition."""

    def __init__(self, fails: int | None = None) -> None:
        self.batches: dict[int, list[bytes]] = defaultdict(list)
        self.fails = fails
        self.outcomes: list[BatchOutcome] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield

    async def send_encoded(self, topic: str, partition: int, batch: bytearray, count: int) -> Delivery:
        self.batches[partition].append(bytes(batch))
        outcome = BatchOutcome(TopicPartition(topic, partition))
        if partition == self.fails:
            outcome.fail(BrokerError(ErrorCode.INVALID_RECORD, "no key"))
        else:
            outcome.succeed(0, 0)
        return Delivery(outcome, 0)

    async def send_offsets_to_transaction(self, *arguments: object) -> None:
        pass

    async def flush(self) -> None:
        pass

    def records(self, partition: int) -> list[bytes | None]:
        return [
            record[3]
            for batch in self.batches[partition]
            for record in decode_records(batch, max_decompressed_bytes=1 << 30)
        ]


def letter(number: int) -> ConsumerRecord:
    return ConsumerRecord("dead", 0, number, 0, None, None, [])


def destination(number: int, partition: int | None, key: bytes | None = b"k", size: int = 0) -> Destination:
    return Destination("jobs", partition, key, b"%d" % number + bytes(size), number, [])


async def test_letters_of_a_partition_are_in_order_and_batches_are_bounded() -> None:
    chunk, sending = Chunk(1), Sending()
    size = BATCH_BYTES // 4
    for number in range(20):
        chunk.add(letter(number), destination(number, number % 2, size=size), 4)
    chunk.add(letter(20), destination(20, 3, size=2 * BATCH_BYTES), 4)
    chunk.close()
    await chunk.send(cast("Any", sending), "group")
    for partition in (0, 1):
        values = [(value or b"").rstrip(b"\0") for value in sending.records(partition)]
        assert values == [b"%d" % number for number in range(partition, 20, 2)]
    assert all(len(batch) <= BATCH_BYTES for each in (0, 1) for batch in sending.batches[each])
    assert len(sending.batches[3]) == 1


async def test_without_a_partition_the_key_decides_and_records_without_one_stay_together() -> None:
    chunk, sending = Chunk(6), Sending()
    for number, key in enumerate((b"a", b"b", None, None)):
        chunk.add(letter(number), destination(number, None, key), 4)
    chunk.close()
    await chunk.send(cast("Any", sending), "group")
    for number, key in enumerate((b"a", b"b")):
        assert b"%d" % number in sending.records(partition_for_key(key, 4))
    assert [value for value in sending.records(2) if value in (b"2", b"3")] == [b"2", b"3"]


async def test_a_batch_that_is_refused_is_named_by_its_letters() -> None:
    chunk, sending = Chunk(0), Sending(fails=1)
    for number in range(6):
        chunk.add(letter(number), destination(number, number % 2), 4)
    chunk.close()
    with pytest.raises(ClientError, match="one of 3 letters from dead-0@1 to dead-0@5 cannot be sent back: no key"):
        await chunk.send(cast("Any", sending), "group")
