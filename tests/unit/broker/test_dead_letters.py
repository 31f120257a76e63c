"""Letters of many records that lie apart are appended together: each append waits for the disk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from ottla.broker.dead_letters import GROUP_ENABLE, DeadLetters
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_offsets, decode_records
from ottla.queues.letters import Letter
from ottla.queues.share_state import ShareKey
from ottla.runtime.clock import ManualClock


async def test_letters_of_records_that_lie_apart_are_one_batch() -> None:
    batches: list[bytearray] = []

    async def append_batch(principal: object, place: TopicPartition, batch: bytearray, timeout_ms: int) -> int:
        batches.append(batch)
        return 0

    letters = DeadLetters(
        cast("Any", SimpleNamespace(append_batch=append_batch)),
        cast("Any", None),
        lambda: cast("Any", SimpleNamespace(topic=lambda name: SimpleNamespace(name=name, partitions=[0]))),
        lambda name: {GROUP_ENABLE: "true"},
        1,
        ManualClock(),
        auto_create=False,
    )
    partition = SimpleNamespace(topic_partition=TopicPartition("jobs", 0))
    limits = SimpleNamespace(letters_topic="dlq.jobs", copies_records=False)
    apart = [Letter(offset, offset, 1, "no") for offset in range(0, 200, 2)]
    await letters.write(ShareKey("jobs", UUID(int=1), 0), cast("Any", partition), apart, cast("Any", limits))
    assert len(batches) == 1
    assign_offsets(batches[0], 0, 0)
    found = decode_records(bytes(batches[0]), max_decompressed_bytes=1 << 20)
    assert [dict(each[4])["__dlq.errors.offset"] for each in found] == [b"%d" % each.first for each in apart]
