"""Cleaning the logs of streams of Redis: what is left says the same, and what is deleted is gone from the disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.deletion import delete
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes
from ottla.gateways.redis.stream_records import Assigned, Began, Ended, GroupSet, Released
from ottla.gateways.redis.stream_snapshot import Prepared, SnapshotReader, write
from ottla.gateways.redis.trimming import Options, trim
from ottla.native import StreamAdds, build_batch, decode_records
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import (
    NOW_MS,
    OpenDirectory,
    batches_in,
    bytes_of,
    copy_as_after_a_kill,
    opened,
)

pytestmark = pytest.mark.slow

CONFIG = LogConfig(segment_bytes=8_000, index_interval_bytes=200, is_stream=True)
FOREIGN = b"of another writer"
LIMIT = 1 << 20

Row = tuple[int, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Model:
    """A stream, and the log that it is written to."""

    def __init__(self, directory: OpenDirectory, log: Log, rng: random.Random) -> None:
        self.log = log
        self.stream = Stream(NodeLimits(4096, 7), lambda _: None)
        self._directory = directory
        self._rng = rng
        self.stream.mark(NOW_MS, Began(0, b"orders"))
        self.stream.mark(NOW_MS, GroupSet(b"g", id_bytes(0), 0))

    def change(self) -> None:
        stream, rng = self.stream, self._rng
        match rng.choices(("add", "delete", "trim", "acknowledge", "end"), (50, 30, 3, 10, 0.3))[0]:
            case "add":
                stream.append(stream.last_id + rng.randint(1, 3), [b"name", rng.randbytes(rng.randint(1, 60))], NOW_MS)
                stream.mark(NOW_MS, Assigned(b"g", b"c", 0, 0, [id_bytes(stream.last_id)], [1]))
            case "delete":
                there = [entry_id for entry_id, _ in stream.range(0, ID_MAX)]
                if there:
                    delete(stream, rng.sample(there, min(len(there), rng.randint(1, 9))), NOW_MS)
            case "trim":
                trim(stream, Options(length_max=rng.randint(0, 60), is_approximate=rng.random() < 0.5), NOW_MS)
            case "acknowledge":
                pending = [entry_id for entry_id, _ in stream.groups[b"g"].pending_from(0, ID_MAX)]
                if pending:
                    stream.mark(NOW_MS, Released(b"g", [id_bytes(rng.choice(pending))]))
            case "end":
                stream.mark(NOW_MS, Ended())
                stream.mark(NOW_MS, Began(0, b"orders"))
                stream.mark(NOW_MS, GroupSet(b"g", id_bytes(0), 0))

    async def flush(self, *, with_foreign: bool = False) -> None:
        """Append what is journaled."""
        stream, start = self.stream, self.log.log_end_offset
        journal = []
        for record in stream.take_journal():
            assert not isinstance(record, StreamAdds)
            journal.append(record)
        starts = {}
        for offset, (_, _, _, headers) in enumerate(journal, start):
            kind = records.kind_of(headers) or b""
            if kind[:1] == records.NODE:
                starts[records.entry_id_of(kind)] = offset
        for node in stream.unwritten:
            if node.offset < 0:
                node.offset = starts[node.first_id]
            node.written_id = node.last_id
        stream.unwritten = []
        batches = [build_batch(journal[at : at + 5]) for at in range(0, len(journal), 5)]
        await self._directory.append_all(self.log, batches)
        if with_foreign:
            await self._directory.append_all(self.log, [build_batch([(NOW_MS, None, FOREIGN, [])])])

    async def run(self, count: int) -> None:
        for _ in range(count):
            self.change()
            if self._rng.random() < 0.5:
                await self.flush(with_foreign=self._rng.random() < 0.05)
        await self.flush()

    async def snapshot(self) -> None:
        write(self.stream, Prepared(self.stream, 0), NOW_MS, 0, cleans=True)
        await self.flush()


def rows_of(log: Log) -> Iterator[Row]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = bytes_of(log.read(offset, LIMIT, max_offset=log.log_end_offset))
        batches = batches_in(data)
        for row in decode_records(data, max_decompressed_bytes=LIMIT, start_offset=offset):
            yield row[0], row[3], tuple(row[4])
        offset = batches[-1][2] + 1


def replayed(log: Log) -> Stream:
    made = Stream(NodeLimits(4096, 7), lambda _: None)
    snapshots = SnapshotReader(made)
    for offset, value, headers in rows_of(log):
        kind = records.kind_of(headers)
        if kind is None or value is None:
            continue
        entry_id = records.entry_id_of(kind)
        if entry_id is not None:
            snapshots.give_up()
            made.load_entry(entry_id, offset, begins=kind[:1] == records.NODE)
            continue
        mark = records.decode_mark(value)
        if isinstance(mark, records.Snapshot):
            snapshots.begin(mark)
        elif snapshots.is_reading:
            snapshots.take(mark)
            if snapshots.is_whole:
                list(snapshots.slices())
        else:
            try:
                made.apply_mark(mark)
            except KeyError:
                made.groups.clear()  # what the cleaner has left of marks before a snapshot
    return made


def told(stream: Stream) -> Any:
    nodes = [
        (node.first_id, node.last_id, node.count, node.deleted, node.floor, node.removed or set())
        for node in stream.nodes
    ]
    group = stream.groups.get(b"g")
    pending = None if group is None else [entry_id for entry_id, _ in group.pending_from(0, ID_MAX)]
    return nodes, pending, stream.length, stream.last_id, stream.max_deleted_id, stream.entries_added, stream.key


def entries_in(log: Log) -> dict[int, bytes | None]:
    found = {}
    for _, value, headers in rows_of(log):
        kind = records.kind_of(headers)
        entry_id = None if kind is None else records.entry_id_of(kind)
        if entry_id is not None:
            found[entry_id] = value
    return found


def live(stream: Stream) -> dict[int, list[bytes]]:
    return dict(stream.range(0, ID_MAX))


def foreign(log: Log) -> list[int]:
    return [offset for offset, value, _ in rows_of(log) if value == FOREIGN]


async def fetch(log: Log, copy: Log, follower: OpenDirectory, start: int = 0) -> None:
    """Append what a log holds from an offset on to another one."""
    while start < log.log_end_offset:
        data = bytes_of(log.read(start, LIMIT, max_offset=log.log_end_offset))
        for position, base_offset, last_offset in batches_in(data):
            size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            if base_offset >= start:
                await follower.append_all(copy, [bytearray(data[position : position + size])])
            start = max(start, last_offset + 1)


@pytest.mark.parametrize("seed", range(8))
async def test_a_cleaned_log_gives_the_same_stream_whenever_the_broker_is_killed(tmp_path: Path, seed: int) -> None:
    rng, path = random.Random(seed), tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(CONFIG)
        model = Model(directory, log, rng)
        for round_number in range(3):
            await model.run(150)
            if rng.random() < 0.8:
                await model.snapshot()
            await model.run(rng.randint(0, 80))
            others, copies = foreign(log), 0
            while await directory.manager.cleaner.run_once() is not None:
                copies += 1
                killed = copy_as_after_a_kill(path, f"killed-{round_number}-{copies}")
                async with opened(killed) as after:
                    found = await after.log(CONFIG)
                    assert told(replayed(found)) == told(model.stream)
            assert foreign(log) == others
            assert told(replayed(log)) == told(model.stream)
            entries = entries_in(log)
            assert {each: records.decode_fields(entries[each] or b"") for each in live(model.stream)} == live(
                model.stream
            )
        await model.snapshot()
        while await directory.manager.cleaner.run_once() is not None:
            pass
        closed = [each.base_offset for each in log.segments][-1]
        dead = [
            offset
            for offset, _, headers in rows_of(log)
            if offset < closed
            and (kind := records.kind_of(headers)) is not None
            and records.entry_id_of(kind) not in live(model.stream)
        ]
        assert not dead, "marks and deleted entries of closed segments are gone"


async def test_without_a_snapshot_nothing_is_cleaned_and_the_log_is_searched_once(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(CONFIG)
        model = Model(directory, log, random.Random(1))
        await model.run(200)
        write(model.stream, Prepared(model.stream, 0), NOW_MS, 0, cleans=False)
        await model.flush()
        size = log.size
        assert await directory.manager.cleaner.run_once() is None
        assert log.size == size
        newest = log.segments.newest.base_offset
    assert (path / "cleaner-offset-checkpoint").read_text() == f"0\n1\norders 0 {newest}\n"


async def test_a_snapshot_that_is_not_whole_cleans_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(CONFIG)
        model = Model(directory, log, random.Random(1))
        await model.run(200)
        write(model.stream, Prepared(model.stream, 0), NOW_MS, 0, cleans=True)
        del model.stream.journal[-1]
        await model.flush()
        model.stream.append(model.stream.last_id + 1, [b"a", b"b"], NOW_MS)
        model.stream.mark(NOW_MS, GroupSet(b"g", id_bytes(0), 0))
        await model.flush()
        assert await directory.manager.cleaner.run_once() is None
        assert told(replayed(log)) == told(model.stream)


async def test_a_follower_that_has_not_the_deletions_cleans_by_the_snapshot(tmp_path: Path) -> None:
    """Its leader had cleaned them away before it fetched them."""
    async with opened(tmp_path / "leader") as leader, opened(tmp_path / "follower") as follower:
        log, copy = await leader.log(CONFIG), await follower.log(CONFIG)
        model = Model(leader, log, random.Random(3))
        for _ in range(100):
            model.stream.append(model.stream.last_id + 1, [b"name", b"x" * 300], NOW_MS)
        await model.flush()
        await fetch(log, copy, follower)
        delete(model.stream, list(live(model.stream))[::2], NOW_MS)
        await model.flush()
        unseen = log.log_end_offset
        await model.snapshot()
        await fetch(log, copy, follower, unseen)
        while await follower.manager.cleaner.run_once() is not None:
            pass
        closed = copy.segments.newest.base_offset
        of_closed = [
            records.entry_id_of(kind)
            for offset, _, headers in rows_of(copy)
            if offset < closed and (kind := records.kind_of(headers)) is not None
        ]
        assert of_closed
        assert set(of_closed) <= live(model.stream).keys()
        assert told(replayed(copy)) == told(model.stream)


async def test_records_from_before_the_topic_was_a_stream_stay_whatever_they_look_like(tmp_path: Path) -> None:
    forged = [
        records.entry(5, [b"n", b"forged"], NOW_MS, begins_node=True),
        records.mark(records.Snapshot(1, [], cleans=True), NOW_MS),
        records.mark(records.NodeRows([]), NOW_MS),
    ]
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(msgspec.structs.replace(CONFIG, stream_begin=4))
        await directory.append_all(log, [build_batch(forged), build_batch([(NOW_MS, None, FOREIGN, [])])])
        model = Model(directory, log, random.Random(5))
        await model.run(300)
        await model.snapshot()
        await model.run(100)
        before = list(rows_of(log))[:4]
        assert await directory.manager.cleaner.run_once() is not None
        rows = list(rows_of(log))
        assert rows[:4] == before
        assert [offset for offset, _, _ in rows[:5]] != [0, 1, 2, 3, 4], "what follows is cleaned"
