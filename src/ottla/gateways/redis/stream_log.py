"""The topic behind a stream: what is journaled is appended to it, and nodes are read back from it.

journal --> batch --> appended with acks=all --> Flush is done: whoever waits for it may answer
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.broker.produce import TIMED_OUT
from ottla.broker.record_deletion import RecordsBefore
from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.adopted_reader import fill_nodes, read_runs
from ottla.gateways.redis.adopted_records import Record, own_records, runs_of, sort_batches
from ottla.gateways.redis.listpack import entry_bytes, node_bytes
from ottla.gateways.redis.stream_id import SEQUENCE_MAX
from ottla.gateways.redis.stream_index import FILE_NAME, part_of, read_parts, restore
from ottla.gateways.redis.stream_snapshot import Prepared, SnapshotReader, is_worth_cleaning, write
from ottla.metadata.image.image import topic_resource
from ottla.model import redis_key
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.native import StreamAdds, build_stream_batch, decode_records, encode_logged_entries
from ottla.native.errors import KernelError
from ottla.replication.leader import ACKS_ALL
from ottla.replication.partition import NO_EPOCH
from ottla.runtime.disk import OsDisk
from ottla.runtime.turns import Pace, next_turn
from ottla.settings.topic_settings import REDIS_KEY
from ottla.storage.append_origin import AppendOrigin

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.node import Node
    from ottla.gateways.redis.stream import Stream
    from ottla.replication.acknowledgement import AppendAck, OnAck
    from ottla.replication.partition import Partition, WritableBuffer

logger = logging.getLogger(__name__)

_DISK: Final = OsDisk()
_ANEW: Final = 1 << 60
"""Rows of an index that is to be written as a whole the next time."""

BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""A batch with more than one record is not larger, nor than half of what the topic takes: headers are not counted."""
APPEND_TIMEOUT_MS: Final = 30_000
BATCH_OVERHEAD: Final = 512
COMMIT_LOOK_MS: Final = 5
LOAD_BYTES: Final = 4 * 1024 * 1024
FREED_RECORDS_MIN: Final = 10_000
"""So many records at least are to be freed at a time: that costs a snapshot of the groups."""
READ_BYTES: Final = 64 * 1024
NODES_READ_BYTES: Final = 256 * 1024
"""So much of what nodes need is read and made entries of in one turn."""
REPLY_READ_BYTES: Final = 128 * 1024
NEIGHBOURS: Final = 8
"""So many nodes before the one that is needed are read with it at least, where a stream is read from its end."""
NODES_MAX: Final = 4096
NODES_A_TURN: Final = 20_000
MARKS_A_TURN: Final = 200
"""So many changes of a log are made in one turn while it is read."""
INDEX_RECORDS: Final = 20_000
"""So many records are read from the log at a start at least, without anything that the index says."""
PENDING_A_TURN: Final = 2_000
"""So much of what is pending is written to the index in the turn in which it is due."""
INDEX_PENDING_FACTOR: Final = 4
"""An index has all that is pending in it: it is written less often where that is much."""
DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024


class Flush:
    """Changes of one stream on their way to the disk."""

    __slots__ = ("error", "is_done", "undecided", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Callable[[], None]] = []
        """Called once when it is done."""
        self.undecided = 0
        self.is_done = False
        self.error: str | None = None

    def decide(self, error: str | None) -> None:
        """One of its batches is decided."""
        self.error = self.error or error
        self.undecided -= 1
        if self.undecided:
            return
        self.is_done = True
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()


async def are_lost(awaited: set[Flush]) -> bool:
    """Wait until changes are on disk; returns whether they are not, or it is not known."""
    for flush in awaited:
        if not flush.is_done:
            done = asyncio.get_running_loop().create_future()
            flush.waiters.append(lambda done=done: done.done() or done.set_result(None))  # type: ignore[misc]
            await done
    return any(flush.error is not None for flush in awaited)


class _Write:
    """A batch on its way to the log of a stream."""

    __slots__ = ("_batch", "_log", "is_over")

    def __init__(self, log: StreamLog, *batch: Any) -> None:
        """`batch` is what `StreamLog.written` is told of it."""
        self._log = log
        self._batch = batch
        self.is_over = False

    def decide(self, ack: AppendAck, /) -> None:
        """It is committed, or not known to be."""
        if not self.is_over:
            self.is_over = True
            self._log.written(ack, *self._batch)

    def expire(self) -> None:
        """Its time is up."""
        self.decide(TIMED_OUT)


class StreamLog:
    """Belongs to the event loop."""

    def __init__(self, stream: Stream, topic: str, broker: Broker, on_failed: Callable[[Stream], None]) -> None:
        """`on_failed` is called when changes could not be written: the stream in memory is ahead of its log."""
        self.topic = topic
        self.latest: Flush | None = None
        """The last that is not done; changes that are not being written yet are of it."""
        self._stream = stream
        self._broker = broker
        self._on_failed = on_failed
        self._principal = broker_principal(broker.config.node_id)
        self._opened: tuple[Partition, int] | None = None  # the partition, and the leader epoch it was read in
        self._end_offset = 0  # behind the last record that was written here
        self._unindexed = 0  # records since the index was written
        self._index_rows = 0
        self._is_indexing = False
        self._is_preparing = False
        self._unclear: tuple[int, Exception] | None = None  # a change that does not go with what was read before it
        self._ends: Flush | None = None  # with the mark by which the key was deleted last
        self.adopted_by = 0
        """The stream is not served before it is decided below this offset which records of other writers are entries.
        """
        self.adoption: Any = None
        """Makes records of other writers entries (`ottla.gateways.redis.adoption`)."""
        self.begin_offset = 0
        """Below it all records are of other writers: they were there before the topic became a stream."""
        self.has_own = False
        """Whether the log has a record of the stream itself."""

    def open(self) -> None:
        """Serve the stream from now on. Raises ApiError where another broker leads its topic."""
        partition = self._partition()
        partition.require_leader_epoch(NO_EPOCH)
        self._opened = partition, partition.leader_epoch

    @property
    def is_current(self) -> bool:
        """Whether this broker has led the topic ever since the stream was read."""
        if self._opened is None:
            return False
        partition, leader_epoch = self._opened
        return partition.is_leader and partition.leader_epoch == leader_epoch

    @property
    def _bytes_max(self) -> int:
        """Of a batch, as the topic has it."""
        assert self._opened is not None, "it is served"
        return self._opened[0].log.config.max_message_bytes

    @property
    def batch_bytes_max(self) -> int:
        """Of a batch with more than one record."""
        return min(BATCH_BYTES_MAX, self._bytes_max // 2)

    def has_room(self, size: int) -> bool:
        """Whether the topic takes so many bytes of entries in one batch."""
        return size + BATCH_OVERHEAD <= self._bytes_max

    def journal_began(self) -> Flush:
        """There are changes that are to be written soon."""
        self.latest = Flush()
        return self.latest

    async def settled(self) -> None:
        """Wait until all changes are written, or are not to be."""
        while self.latest is not None:
            done = asyncio.get_running_loop().create_future()
            self.latest.waiters.append(lambda done=done: done.done() or done.set_result(None))  # type: ignore[misc]
            await done

    def flush(self) -> None:
        """Write what is journaled."""
        stream, flush = self._stream, self.latest
        journal = stream.take_journal()
        nodes, stream.unwritten = stream.unwritten, []
        assert flush is not None
        assert journal
        parts = _parts_of(journal, self.batch_bytes_max)
        flush.undecided = len(parts)
        marks = [(node, node.last_id) for node in nodes]
        before = 0
        for number, part in enumerate(parts, 1):
            count = sum(len(each) if type(each) is StreamAdds else 1 for each in part)
            self._write(flush, build_stream_batch(part), before, count, marks if number == len(parts) else ())
            before += count

    async def append(self, some: Sequence[records.Record]) -> int:
        """Write records of a stream that has no key yet, and wait until they are on disk; returns the offset of the
        first. Raises ApiError.
        """
        self._index_rows = _ANEW  # the nodes are not those that it has
        flush = Flush()
        flush.undecided = 1
        self._write(flush, build_stream_batch(some), 0, len(some), ())
        if await are_lost({flush}):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, flush.error or "")
        return self._end_offset - len(some)

    def discard(self) -> None:
        """What is journaled is of no use, because the key has got another stream: it counts as written."""
        flush = self.latest
        if self._stream.journal and flush is not None:
            self._stream.take_journal()
            self._stream.unwritten = []
            self.latest = None
            flush.undecided = 1
            flush.decide(None)

    def _write(self, flush: Flush, batch: bytearray, start: int, count: int, marks: Sequence[tuple[Node, int]]) -> None:
        self._broker.produce.produce_one(
            _Write(self, flush, start, count, marks),
            self._principal,
            (self.topic, 0),
            batch,
            ACKS_ALL,
            APPEND_TIMEOUT_MS,
            _keep,
            _append_own,
        )

    def written(self, ack: AppendAck, flush: Flush, start: int, count: int, marks: Sequence[tuple[Node, int]]) -> None:
        """What became of a batch of `count` records, the first of which was at `start` in the journal; `marks` are
        nodes with the last ids that they have by it.
        """
        if ack.error is not ErrorCode.NONE:
            logger.error("changes of the stream in topic %s were not written: %s", self.topic, ack.message)
            self._decided(flush, ack.message or ack.error.name)
            return
        stream, end_offset = self._stream, ack.base_offset + count
        if flush is self._ends or stream.adopted_to == ack.base_offset:
            stream.adopted_to = max(stream.adopted_to, end_offset)
        self.has_own = True
        self._end_offset = end_offset
        self._unindexed += count
        for node, last_id in marks:
            if node.offset < 0:  # in an earlier batch it would lie lower: reading begins early then, not late
                node.offset = max(0, ack.base_offset + node.journal_index - start)
            node.written_id = last_id
        self._decided(flush, None)

    def _decided(self, flush: Flush, error: str | None) -> None:
        flush.decide(error)
        if flush.is_done:
            if self.latest is flush:
                self.latest = None
                if flush.error is None:
                    self._index_soon()
            if flush.error is not None:
                self._on_failed(self._stream)

    def is_held(self, now_ms: int) -> bool:
        """Whether replies that are being sent may need what is deleted by now."""
        held = [span.holds(now_ms) for span in self._stream.spans]  # each begins to count
        return any(held)

    async def free(self, now_ms: int) -> None:
        """Write a snapshot, if it is worth that, behind which the cleaner removes what is needed no more; and let go of
        the beginning of the log in which nothing is that is still needed.

        Not while long replies are read from it. Raises ApiError.
        """
        if self.is_held(now_ms):
            return
        stream, partition = self._stream, self._partition()
        first = min(stream.adopted_to, await self._first_needed(partition))
        is_prefix = first - partition.log.log_start_offset >= FREED_RECORDS_MIN
        cleans = is_worth_cleaning(stream, partition.high_watermark)
        if self._is_preparing or (not is_prefix and not cleans):
            return
        prepared, self._is_preparing = Prepared(stream, now_ms), True
        try:
            for _ in prepared.slices(self._end_offset):
                await next_turn()
                if not self.is_current:
                    return
            if stream.key is None or self.is_held(now_ms):
                return
            if not write(stream, prepared, now_ms, self._end_offset, cleans=cleans):
                return
        finally:
            prepared.end()
            self._is_preparing = False
        await self.settled()
        if not is_prefix:
            return
        wanted = [RecordsBefore(self.topic, 0, first)]
        principal = broker_principal(self._broker.config.node_id)
        (outcome,) = await self._broker.record_deletion.delete(principal, wanted, APPEND_TIMEOUT_MS)
        if isinstance(outcome, ApiError):
            raise outcome

    async def _first_needed(self, partition: Partition) -> int:
        """The least offset of the nodes. Those of the stream's own entries rise with ids."""
        nodes, offset = self._stream.nodes, partition.high_watermark
        for at, node in enumerate(nodes.live, 1):
            if node.is_adopted:
                offset = min(offset, node.offset)
            if not at % NODES_A_TURN:
                await next_turn()
        for at, node in enumerate(nodes, 1):
            if not node.is_adopted:
                return min(offset, node.offset)
            if not at % NODES_A_TURN:
                await next_turn()
        return offset

    # --- reading ----------------------------------------------------------------------------------------------------

    def _partition(self) -> Partition:
        return self._broker.replicas.get(self.topic, 0)

    async def load(self, replaced: set[str]) -> None:
        """Make of an empty stream the one that the log holds; adds the topics in whose place it came to `replaced`."""
        self.open()
        partition = self._partition()
        await self._until_committed(partition)
        self.begin_offset = await self._find_begin(partition)
        start_offset = partition.log.log_start_offset
        offset = await self._restore(partition)
        self.has_own = offset is not None
        offset = start_offset if offset is None else offset
        stream, snapshots = self._stream, SnapshotReader(self._stream)
        stream.adopted_to = max(stream.adopted_to, start_offset)
        pace = Pace(MARKS_A_TURN)
        is_decided = stream.adopted_to >= offset  # about the records of other writers so far
        while offset < partition.high_watermark:
            data = await partition.read_bytes(offset, LOAD_BYTES)
            batches = await self._broker.tasks.in_thread(sort_batches, data, self.begin_offset)
            for at, _, _, value, headers in await self._broker.tasks.in_thread(own_records, data, batches, offset):
                self.has_own = True
                header = records.kind_of(headers)
                if header is None or value is None:
                    continue
                entry_id = records.entry_id_of(header)
                if entry_id is not None:
                    snapshots.give_up()
                    stream.load_entry(entry_id, at, begins=header[:1] == records.NODE)
                else:
                    mark = self._apply(at, value, snapshots)
                    if pace.is_enough():
                        await next_turn()
                    if snapshots.is_whole:
                        await self._take_snapshot(snapshots, at)
                    if isinstance(mark, records.Began) and mark.replaced:
                        replaced.add(mark.replaced)
                    if isinstance(mark, records.Ended):
                        stream.adopted_to = max(stream.adopted_to, at)
            self._unindexed += sum(each.record_count for each in batches.all)
            offset = batches.all[-1].last_offset + 1 if batches.all else partition.high_watermark
            is_decided = is_decided and not any(each.batch.last_offset >= stream.adopted_to for each in batches.foreign)
            if is_decided:
                stream.adopted_to = max(stream.adopted_to, offset)

        if snapshots.is_reading:  # else changes that follow would be taken for its parts
            stream.mark(self._broker.clock.now_ms(), records.Snapshot(0, [], cleans=False))
        if self._unclear is not None:
            logger.warning("topic %s: record %d is not read as a change: %s", self.topic, *self._unclear)

    def ended(self) -> None:
        """The key is deleted, and with it what other writers have appended before the mark that says so."""
        self._ends = self.latest
        self._stream.adopted_to = max(self._stream.adopted_to, self._partition().log.log_end_offset)

    @property
    def is_ending(self) -> bool:
        """Whether it is not known yet where the mark lies by which the key was deleted last."""
        return self._ends is not None and not self._ends.is_done

    @property
    def has_undecided(self) -> bool:
        """Whether there are records of which it is not decided whether they are entries: no commit, or no look yet."""
        partition = self._broker.replicas.find(self.topic, 0)
        return partition is not None and self._stream.adopted_to < partition.log.log_end_offset

    @property
    def was_made_elsewhere(self) -> bool:
        """Whether the log has records, and all of them are of other writers."""
        return not self.has_own and self.has_undecided

    async def _find_begin(self, partition: Partition) -> int:
        """Where the stream begins in its log: where this ends, if the topic has got its key just now. From then on no
        producer's record can look like one of the stream's own. Raises ApiError.
        """
        setting = self._key_setting
        begin = redis_key.begin_of_setting(setting)
        if begin is not None and begin <= partition.log.log_end_offset:
            return begin
        for _ in range(APPEND_TIMEOUT_MS // COMMIT_LOOK_MS):
            if partition.log.config.is_stream and not partition.role.has_waiting:
                break
            await self._broker.timer.sleep(COMMIT_LOOK_MS)
        end_offset = partition.log.log_end_offset
        await self._until_committed(partition)
        told = redis_key.setting_from(end_offset, setting)
        await self._broker.cluster_topics.configure(self._principal, REDIS_KEY, {self.topic: told})
        for _ in range(APPEND_TIMEOUT_MS // COMMIT_LOOK_MS):
            if redis_key.begin_of_setting(self._key_setting) == end_offset:
                return end_offset
            await self._broker.timer.sleep(COMMIT_LOOK_MS)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"where topic {self.topic} begins as a stream is not known yet")

    @property
    def _key_setting(self) -> str:
        setting: str = self._broker.image.config(topic_resource(self.topic)).get(REDIS_KEY, "")
        return setting

    async def _until_committed(self, partition: Partition) -> None:
        """Wait until all that was in the log when this broker came to lead it is committed: some of it has been
        answered, and only the leader before knows which. Raises ApiError.
        """
        end_offset = partition.log.log_end_offset
        for _ in range(APPEND_TIMEOUT_MS // COMMIT_LOOK_MS):
            if partition.high_watermark >= end_offset:
                return
            await self._broker.timer.sleep(COMMIT_LOOK_MS)
            if not self.is_current:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"topic {self.topic} is led elsewhere")
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"topic {self.topic} lacks in-sync replicas")

    def _apply(self, offset: int, value: bytes, snapshots: SnapshotReader) -> records.Mark | None:
        try:
            mark = records.decode_mark(value)
            if isinstance(mark, records.Snapshot):
                snapshots.begin(mark)
            elif snapshots.is_reading:
                snapshots.take(mark)
            else:
                self._stream.apply_mark(mark)
        except msgspec.DecodeError as error:
            logger.warning("topic %s: record %d is not read as a change: %s", self.topic, offset, error)
            return None
        except (KeyError, IndexError) as error:
            self._unclear = self._unclear or (offset, error)
            return None
        return mark

    async def _take_snapshot(self, snapshots: SnapshotReader, offset: int) -> None:
        try:
            for _ in snapshots.slices():
                await next_turn()
        except (KeyError, IndexError) as error:
            self._unclear = self._unclear or (offset, error)
            snapshots.give_up()
        else:
            self._index_rows = _ANEW
            self._unclear = None

    async def _restore(self, partition: Partition) -> int | None:
        """Begin with what the index says; up to which offset that is, None where nothing of it goes with the log."""
        log = partition.log
        try:
            data = await self._broker.tasks.in_thread(_DISK.read_bytes, f"{log.directory}/{FILE_NAME}")
        except OSError:
            return None
        self._index_rows = _ANEW
        found = await self._broker.tasks.in_thread(read_parts, data)
        if found is None:
            return None
        part, nodes, is_whole = found
        offset = part.end_offset
        if not log.log_start_offset < offset <= partition.high_watermark:
            return None
        if log.epoch_of_offset(offset - 1) != part.leader_epoch or nodes.least_offset < log.log_start_offset:
            return None
        for _ in restore(self._stream, part, nodes):
            await next_turn()
        if is_whole:
            self._index_rows = len(nodes)
        self._stream.changed.clear()
        return offset

    async def read_parts(self, parts: Sequence[tuple[Node, int]]) -> dict[int, list[bytes]]:
        """The entries of some nodes, each up to an id, be they deleted or not; nodes and entries are in the order of
        ids. Raises ApiError, KernelError.
        """
        found: dict[int, list[bytes]] = {}
        for is_adopted, group in groupby(parts, key=lambda part: part[0].is_adopted):
            some = list(group)
            if is_adopted:
                runs = [run for node, last_id in some for run in runs_of(node.runs) if run.first_id <= last_id]
                found |= await read_runs(self._partition(), self._broker.tasks, runs)
            else:
                found |= await self.read_entries(some[0][0].offset, some[0][0].first_id, some[-1][1])
        return found

    async def read_entries(self, offset: int, first_id: int, last_id: int) -> dict[int, list[bytes]]:
        """What lies in the log from an offset on of an interval of ids, be it deleted or not. Raises ApiError."""
        partition = self._partition()
        found: dict[int, list[bytes]] = {}
        while offset < partition.high_watermark:
            decoded, end_offset = _decoded(await partition.read_bytes(offset, READ_BYTES), offset)
            for _, _, _, value, headers in decoded:
                kind = records.kind_of(headers)
                entry_id = None if kind is None else records.entry_id_of(kind)
                if entry_id is None or value is None:
                    continue
                if first_id <= entry_id <= last_id:
                    found[entry_id] = records.decode_fields(value)
                if entry_id >= last_id:
                    return found
            if end_offset <= offset:
                break
            offset = end_offset
        return found

    async def encode_entries(
        self, offset: int, intervals: list[tuple[int, int]], removed: list[int], count_max: int
    ) -> tuple[bytes, int] | None:
        """What lies in the log from an offset on of intervals of ids, which ascend, without what is removed: as clients
        get it, and how many entries that are. None where it has to be read record by record, as `read_entries` does.
        Raises ApiError.
        """
        partition = self._partition()
        pieces: list[bytes] = []
        count = 0
        while offset < partition.high_watermark:
            data = await partition.read_bytes(offset, REPLY_READ_BYTES)
            try:
                found = encode_logged_entries(data, offset, intervals, removed, count_max - count)
            except KernelError:  # what other writers have written may be beyond reading
                return None
            piece, found_count, end_offset, is_over = found
            pieces.append(piece)
            count += found_count
            if is_over or end_offset <= offset:
                break
            offset = end_offset
        return b"".join(pieces), count

    # --- the index ----------------------------------------------------------------------------------------------------

    def _index_soon(self) -> None:
        """Write what the index lacks, if it is worth that: nothing is under way now."""
        stream = self._stream
        if self._is_indexing or self._is_preparing or self._unindexed < INDEX_RECORDS:
            return
        pending = sum(len(group.pending) for group in stream.groups.values())
        if self._unindexed < max(INDEX_RECORDS, INDEX_PENDING_FACTOR * pending):
            return
        if pending <= PENDING_A_TURN:
            self._index_now(Prepared(stream, self._broker.clock.now_ms()))
        else:
            self._is_preparing = True
            self._broker.tasks.spawn(self._index_prepared(), "redis-index")

    async def _index_prepared(self) -> None:
        """The same where much is pending, which is encoded bit by bit beside other work."""
        prepared = Prepared(self._stream, self._broker.clock.now_ms())
        try:
            for _ in prepared.pending_slices():
                await next_turn()
            while self.latest is not None:
                await self.settled()
            if self.is_current:
                self._index_now(prepared)
        finally:
            prepared.end()
            self._is_preparing = False

    def _index_now(self, prepared: Prepared) -> None:
        stream = self._stream
        partition = self._broker.replicas.find(self.topic, 0)
        if partition is None or stream.key is None:
            return
        is_whole = stream.is_anew or self._index_rows + len(stream.changed) > 3 * len(stream.nodes) + INDEX_RECORDS
        nodes = stream.nodes.live if is_whole else [node for node in stream.changed if node.is_written]
        if any(not node.is_written for node in nodes):
            return
        end_offset = self._end_offset
        leader_epoch = partition.log.epoch_of_offset(end_offset - 1)
        data = part_of(stream, end_offset, leader_epoch, None if is_whole else nodes, prepared.groups())
        self._index_rows = len(stream.nodes) if is_whole else len(nodes) + self._index_rows
        self._unindexed = 0
        changed = tuple(stream.changed)
        stream.changed.clear()
        stream.nodes.settle_all(changed)
        stream.gone.clear()
        stream.is_anew = False
        self._is_indexing = True
        path = f"{partition.log.directory}/{FILE_NAME}"
        self._broker.tasks.spawn(self._write_index(path, data, is_whole=is_whole), "redis-index")

    async def _write_index(self, path: str, data: bytes, *, is_whole: bool) -> None:
        write = _DISK.write_atomic if is_whole else _DISK.append
        try:
            await self._broker.tasks.in_thread(write, path, data)
        except OSError as error:
            # The topic may be deleted. Otherwise the next part would build on one that is not there.
            logger.info("the index of the stream in topic %s was not written: %s", self.topic, error)
            self._index_rows = _ANEW
        finally:
            self._is_indexing = False

    # --- reading nodes ------------------------------------------------------------------------------------------------

    def _neighbours(self, index: int, read_bytes: int) -> list[Node]:
        """A node and those of the same kind that are read with it, which have about so many bytes: of those before it
        where the next one of the kind is there, for then the stream is read from its end.
        """
        nodes, wanted = self._stream.nodes, self._stream.nodes[index]
        found = [wanted, *self._missing(range(index + 1, len(nodes)), wanted, read_bytes, at_least=0)]
        if len(found) == 1:
            before = self._missing(range(index - 1, -1, -1), wanted, read_bytes, at_least=NEIGHBOURS)
            found = [*reversed(before), wanted]
        return [node for node in found if node.is_written]

    def _missing(self, indexes: range, wanted: Node, read_bytes: int, *, at_least: int) -> list[Node]:
        """Nodes of the same kind up to one that is in memory, of some that may have others in between."""
        nodes, size = self._stream.nodes, wanted.size
        found: list[Node] = []
        for index in indexes[:NODES_MAX]:
            node = nodes[index]
            size += node.size or (read_bytes // NEIGHBOURS if at_least else 0)
            if size > read_bytes and len(found) >= at_least:
                break
            if node.is_adopted == wanted.is_adopted:
                if node.entries is not None:
                    break
                found.append(node)
        return found

    async def load_nodes(self, index: int, read_bytes: int) -> tuple[list[Node], int]:
        """Have the entries of a node in memory again, and of its neighbours within some bytes: of those before it where
        the one behind it is there, for then the stream is read from its end.

        Returns the nodes, and how many bytes were read. Raises ApiError.
        """
        stream, partition = self._stream, self._partition()
        wanted = stream.nodes[index]
        nodes = self._neighbours(index, max(READ_BYTES, read_bytes))
        if wanted.is_adopted:
            return await fill_nodes(stream, partition, self._broker.tasks, nodes, wanted, read_bytes)
        filling = _Filling(stream, nodes)
        offset, used = filling.nodes[0].offset, 0
        while filling.nodes and offset < partition.high_watermark:
            if used:
                await next_turn()
            data = await partition.read_bytes(offset, min(max(READ_BYTES, read_bytes - used), NODES_READ_BYTES))
            used += len(data)
            decoded, end_offset = _decoded(data, offset)
            for _, _, _, value, headers in decoded:
                kind = records.kind_of(headers)
                entry_id = None if kind is None else records.entry_id_of(kind)
                if entry_id is not None and value is not None:
                    filling.add(entry_id, value)
                if not filling.nodes:
                    break
            offset = end_offset if end_offset > offset else partition.high_watermark
            if wanted.entries is not None and used >= read_bytes:
                break
        if offset >= partition.high_watermark:
            filling.end()
        return filling.filled, used


class _Filling:
    """Nodes that are read from the log, in their order. The last entries of one may be deleted, and not in the log."""

    def __init__(self, stream: Stream, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.filled: list[Node] = []
        self._stream = stream
        self._found: dict[int, list[bytes]] = {}

    def add(self, entry_id: int, value: bytes) -> None:
        """The next entry of the log, be it deleted or not."""
        while self.nodes and entry_id > self.nodes[0].last_id:
            self._next()
        if self.nodes and entry_id >= self.nodes[0].first_id:
            self._found[entry_id] = records.decode_fields(value)
            if entry_id == self.nodes[0].last_id:
                self._next()

    def end(self) -> None:
        """There are no more entries."""
        while self.nodes:
            self._next()

    def _next(self) -> None:
        node = self.nodes.pop(0)
        _fill(node, self._found, self._stream)
        self.filled.append(node)
        self._found = {}


def _fill(node: Node, found: dict[int, list[bytes]], stream: Stream) -> None:
    first = node.first_id
    if not node.names and found:
        node.names = next(iter(found.values()))[::2]
    if not node.size:
        node.size = node_bytes(node.names) + sum(
            entry_bytes(
                fields,
                ((entry_id >> 64) - (first >> 64), (entry_id & SEQUENCE_MAX) - (first & SEQUENCE_MAX)),
                same_names=fields[::2] == node.names,
            )
            for entry_id, fields in found.items()
        )
    if node.entries is None:
        node.entries = {entry_id: fields for entry_id, fields in found.items() if not node.has_removed(entry_id)}
    stream.touch(node)


def _decoded(data: bytes, offset: int) -> tuple[list[Record], int]:
    """The records of a part of a log from an offset on, at least the stream's own, and the offset where it ends."""
    with suppress(KernelError):  # what other writers have written may be beyond reading
        found = decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=offset)
        if found:
            return found, found[-1][0] + 1
    batches = sort_batches(data)
    return own_records(data, batches, offset), batches.all[-1].last_offset + 1 if batches.all else offset


def _parts_of(journal: list[records.Journaled], bytes_max: int) -> list[list[records.Journaled]]:
    """What goes into each batch: as few as hold the records within the limit."""
    if len(journal) == 1:
        return [journal]
    parts: list[list[records.Journaled]] = [[]]
    size = 0
    for each in journal:
        each_bytes = each.size_bytes if isinstance(each, StreamAdds) else len(each[2])
        size += each_bytes
        if size > bytes_max and parts[-1]:
            parts.append([])
            size = each_bytes
        parts[-1].append(each)
    return parts


def _append_own(
    partition: Partition, batch: WritableBuffer, acks: int, on_ack: OnAck, on_buffer_free: Callable[[], None]
) -> None:
    """Append what producers may not: records with the header that makes them the stream's own."""
    origin = AppendOrigin.COORDINATOR
    partition.role.append(batch, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free, origin=origin)


def _keep() -> None:
    """The batch is nobody else's."""
