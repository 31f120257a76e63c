"""Reads entries that are records of other writers back from the log of their stream.

runs    offsets 7..9 = 5-0..5-2, offset 12 = 6-0        -->   {5-0: fields, 5-1: fields, 5-2: fields, 6-0: fields}
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.adopted_records import VALUE, Run, read_fields, runs_of
from ottla.native import walk_batches

if TYPE_CHECKING:
    from ottla.gateways.redis.node import Node
    from ottla.gateways.redis.stream import Stream
    from ottla.replication.partition import Partition
    from ottla.runtime.tasks import Tasks

READ_BYTES: Final = 256 * 1024
SLICE_RECORDS: Final = 2_000
"""So many records at most are made entries of in one turn of the event loop."""


async def read_runs(partition: Partition, tasks: Tasks, runs: Iterable[Run]) -> dict[int, list[bytes]]:
    """The entries of some runs, by id. One whose record is gone has an empty value. Raises ApiError, KernelError."""
    entries: dict[int, list[bytes]] = {}
    offsets: list[int] = []
    ids: list[int] = []
    for run in runs:
        for start in range(0, run.record_count, SLICE_RECORDS):
            end = min(start + SLICE_RECORDS, run.record_count)
            offsets += range(run.offset + start, run.offset + end)
            ids += range(run.first_id + start, run.first_id + end)
            if len(offsets) >= SLICE_RECORDS:
                await _read_slice(partition, tasks, offsets, ids, entries)
                offsets, ids = [], []
    await _read_slice(partition, tasks, offsets, ids, entries)
    return entries


async def _read_slice(
    partition: Partition, tasks: Tasks, offsets: list[int], ids: list[int], entries: dict[int, list[bytes]]
) -> None:
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(offsets):
        start = max(offsets[at], partition.log.log_start_offset)
        if start >= partition.high_watermark:
            break
        data = await partition.read_bytes(start, READ_BYTES)
        fields, end = await tasks.in_thread(_fields_and_end, data, offsets[at:])
        if end <= start:
            break
        found |= fields
        at = bisect_left(offsets, end, lo=at)
    for entry_id, offset in zip(ids, offsets, strict=True):
        entries[entry_id] = found.get(offset) or [VALUE, b""]


def _fields_and_end(data: bytes, offsets: Sequence[int]) -> tuple[dict[int, list[bytes]], int]:
    """What is there of some records, and the offset behind the last batch that is whole."""
    batches, _, _ = walk_batches(data, check_crc=False)
    return read_fields(data, offsets), batches[-1].last_offset + 1 if batches else -1


async def fill_nodes(
    stream: Stream, partition: Partition, tasks: Tasks, nodes: Sequence[Node], wanted: Node, read_bytes: int
) -> tuple[list[Node], int]:
    """Have the entries of nodes in memory: at least those of one that is among them, the others within some bytes.

    Returns the nodes, and their bytes. Raises ApiError, KernelError.
    """
    filled: list[Node] = []
    used = at = 0
    while at < len(nodes) and (wanted not in filled or used < read_bytes):
        group: list[tuple[Node, bytes]] = []
        count = 0
        while at < len(nodes) and (not group or count + nodes[at].count + nodes[at].deleted <= SLICE_RECORDS):
            group.append((nodes[at], nodes[at].runs))
            count += nodes[at].count + nodes[at].deleted
            at += 1
        found = await read_runs(partition, tasks, (run for _, runs in group for run in runs_of(runs)))
        for node, runs in group:
            if node.runs != runs:  # it has grown meanwhile
                continue
            if node.entries is None:
                node.entries = {
                    entry_id: found[entry_id]
                    for run in runs_of(runs)
                    for entry_id in range(run.first_id, run.last_id + 1)
                    if not node.has_removed(entry_id)
                }
                node.size = sum(len(each) for fields in node.entries.values() for each in fields)
            filled.append(node)
            used += node.size
            stream.touch(node)
        if wanted.runs != next((runs for node, runs in group if node is wanted), wanted.runs):
            break
    return filled, used
