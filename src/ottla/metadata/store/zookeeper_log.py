"""The metadata log and its snapshots, in ZooKeeper.

    append      check /controller_epoch, make the node of the offset, move /metadata/end from the version that was seen

Pieces of a large append are written first, and are nothing until the node of its offset is. A snapshot's pointer moves
when all its pieces are there; the one before it, and the log since then, stay for those who read them.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kazoo.exceptions import NodeExistsError, NoNodeError

from ottla.metadata.store import zookeeper_nodes as nodes
from ottla.metadata.store.conditions import require_end_offset
from ottla.metadata.store.interface import StoredRecords, StoreError
from ottla.metadata.store.zookeeper_access import ZooKeeperAccess
from ottla.metadata.store.zookeeper_client import Operation, Refusal
from ottla.metadata.store.zookeeper_election import ZooKeeperElection

READS_AT_ONCE: Final = 256
"""Nodes asked for before the first has answered, so that a long log is not read one round trip after another."""

DELETES_AT_ONCE: Final = 500
"""Nodes deleted by one transaction: their names together are far below what a request may have."""


class ZooKeeperLog:
    """Belongs to the event loop. Each method is one attempt: its caller repeats it (`ZooKeeperAccess.repeated`)."""

    def __init__(self, access: ZooKeeperAccess, election: ZooKeeperElection) -> None:
        """Whoever appends has been elected by `election`."""
        self._access = access
        self._election = election
        self._end: tuple[int, int] | None = None
        """The end offset and the version of its node, as this process wrote or read them last."""
        access.before_repeating(self.forget)

    def forget(self) -> None:
        """Ask for the end before it is relied on again: others may have appended."""
        self._end = None

    async def append(
        self, pieces: Sequence[bytes], writer: bytes, controller_epoch: int, offset: int, end_offset: int
    ) -> None:
        """Append what was encoded, or nothing. Raises FencedError, StaleOffsetError."""
        client = self._access.client
        if await self._is_written(offset, writer):
            return
        check = await self._election.epoch_check(controller_epoch)
        end, version = await self._read_end()
        if end != offset:
            self.forget()
            self._election.forget()
            await self._election.epoch_check(controller_epoch)
            require_end_offset(offset, end)
        if len(pieces) > 1:
            await asyncio.gather(
                *(
                    self._put(nodes.log_path(offset, number), piece, check)
                    for number, piece in enumerate(pieces)
                    if number
                )
            )
        await client.commit(
            check,
            Operation("create", nodes.log_path(offset), pieces[0]),
            Operation("set_data", nodes.END, nodes.encode_number(end_offset), version),
        )
        self._end = end_offset, version + 1

    async def _is_written(self, offset: int, writer: bytes) -> bool:
        """Whether an attempt to write this was made whose answer was lost."""
        if self._end is not None and self._end[0] == offset:
            return False
        try:
            data, _ = await self._access.client.get(nodes.log_path(offset))
        except NoNodeError:
            return False
        return nodes.batch_of(data).writer == writer

    async def _read_end(self) -> tuple[int, int]:
        if self._end is None:
            data, status = await self._access.client.get(nodes.END)
            self._end = nodes.decode_number(data), status.version
        return self._end

    async def _put(self, path: str, data: bytes, check: Operation) -> None:
        """Make a node that counts for nothing yet, or write over what a controller that died has left there."""
        client = self._access.client
        try:
            await client.commit(check, Operation("create", path, data))
        except Refusal as refusal:
            if not isinstance(refusal.reason, NodeExistsError):
                raise
            await client.commit(check, Operation("set_data", path, data))

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on. Raises NoNodeError when it is moved away meanwhile."""
        client = self._access.client
        data, _ = await client.get(nodes.SNAPSHOT)
        pointer = nodes.decode_pointer(data)
        data, _ = await client.get(nodes.END)
        end_offset = nodes.decode_number(data)
        snapshot: tuple[bytes, ...] | None = None
        if from_offset < pointer.start_offset:
            paths = [f"{nodes.SNAPSHOTS}/{pointer.name}/{number}" for number in range(pointer.pieces)]
            pieces = await self._data_of(paths)
            snapshot = tuple(nodes.decode_records(b"".join(pieces))) if pieces else ()
            from_offset = pointer.start_offset
        from_offset = max(from_offset, 0)
        return StoredRecords(snapshot, await self._records(from_offset, end_offset), from_offset, end_offset)

    async def _records(self, from_offset: int, end_offset: int) -> tuple[bytes, ...]:
        """The records of the log between two offsets. Raises NoNodeError when it is moved away meanwhile."""
        if from_offset >= end_offset:
            return ()
        try:
            records = await self._batch(from_offset)
        except NoNodeError:
            records = []
        if from_offset + len(records) < end_offset:
            offsets = nodes.log_offsets(await self._access.client.children(nodes.LOG))
            first = max((offset for offset in offsets if offset <= from_offset), default=None)
            if first is None:
                raise NoNodeError
            wanted = [offset for offset in offsets if first <= offset < end_offset]
            records = []
            for position in range(0, len(wanted), READS_AT_ONCE):
                for batch in await asyncio.gather(*map(self._batch, wanted[position : position + READS_AT_ONCE])):
                    records += batch
            records = records[from_offset - first :]
        if from_offset + len(records) < end_offset:
            raise StoreError(f"{self._access.where}: the metadata log lacks records before {end_offset}")
        return tuple(records[: end_offset - from_offset])

    async def _batch(self, offset: int) -> list[bytes]:
        data, _ = await self._access.client.get(nodes.log_path(offset))
        pieces = nodes.batch_of(data).pieces
        rest = await self._data_of([nodes.log_path(offset, number) for number in range(1, pieces)])
        return nodes.decode_records(b"".join((data, *rest)))

    async def _data_of(self, paths: Sequence[str]) -> list[bytes]:
        return [data for data, _ in await asyncio.gather(*map(self._access.client.get, paths))]

    async def write_snapshot(
        self, pieces: Sequence[bytes], pointer: nodes.SnapshotPointer, controller_epoch: int
    ) -> nodes.SnapshotPointer:
        """Write a snapshot and move the pointer to it; returns where it pointed before."""
        data, status = await self._access.client.get(nodes.SNAPSHOT)
        before = nodes.decode_pointer(data)
        if before == pointer:
            return before
        check = await self._election.epoch_check(controller_epoch)
        path = f"{nodes.SNAPSHOTS}/{pointer.name}"
        await self._put(path, b"", check)
        for number, piece in enumerate(pieces):
            await self._put(f"{path}/{number}", piece, check)
        await self._access.client.commit(check, Operation("set_data", nodes.SNAPSHOT, pointer.encode(), status.version))
        return before

    async def remove_before(
        self, before: nodes.SnapshotPointer, newest: nodes.SnapshotPointer, controller_epoch: int
    ) -> None:
        """Remove what was there before the last snapshot but one, and snapshots that nobody finished.

        For the controller alone: a snapshot that is not known here may be the one that its successor goes by.
        """
        client = self._access.client
        check = await self._election.epoch_check(controller_epoch)
        kept = {before.name, newest.name}
        for name in await client.children(nodes.SNAPSHOTS):
            if name not in kept:
                path = f"{nodes.SNAPSHOTS}/{name}"
                await self._remove([*(f"{path}/{piece}" for piece in await client.children(path)), path], check)
        names = await client.children(nodes.LOG)
        old = [name for name in names if int(name.partition("-")[0]) < before.start_offset]
        # The node of an append goes before its pieces: what is left of it by a crash is nothing.
        paths = [f"{nodes.LOG}/{name}" for name in sorted(old, key=lambda name: ("-" in name, name))]
        await self._remove(paths, check)

    async def _remove(self, paths: Sequence[str], check: Operation) -> None:
        for position in range(0, len(paths), DELETES_AT_ONCE):
            await self._access.client.commit(
                check, *(Operation("delete", path) for path in paths[position : position + DELETES_AT_ONCE])
            )
