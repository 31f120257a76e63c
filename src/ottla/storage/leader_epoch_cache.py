"""Which leader epoch begins at which offset (KIP-101, KIP-279): how replicas find where their logs part ways.

epoch   0    2     3
start   0    40    91        offsets 0-39 were written in epoch 0, 40-90 in 2, from 91 on in 3
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.model.errors import InvalidInputError
from ottla.runtime.disk import Disk
from ottla.storage.offset_checkpoint import MalformedCheckpointError, format_checkpoint, parse_checkpoint

UNKNOWN_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log, oldest first; both columns grow strictly.

    Changes are in memory until `write`: `is_dirty` says so. They can be found again in the batches above the recovery
    point, so the file must be written before the recovery point moves.
    """

    __slots__ = ("_entries", "is_dirty", "latest_epoch")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest_epoch = UNKNOWN_EPOCH
        """The newest epoch, -1 when nothing was written yet."""
        for entry in entries:
            self.assign(*entry)
        self.is_dirty = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All epochs, oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`; whatever said otherwise from there on is forgotten."""
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset):
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest_epoch = epoch
        self.is_dirty = True

    def epoch_of(self, offset: int) -> int:
        """The epoch in which `offset` was or will be written; -1 when that is not known."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else UNKNOWN_EPOCH

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """The newest epoch not after `epoch`, and the offset at which it ends; (-1, -1) when there is none to tell.

        When every known epoch is newer than `epoch`, the answer is `epoch` itself and the start of the first.
        """
        entries = self._entries
        if not entries or epoch < 0 or epoch > entries[-1].epoch:
            return EpochEntry(UNKNOWN_EPOCH, UNKNOWN_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        index = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        return EpochEntry(entries[index - 1].epoch if index else epoch, entries[index].start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after `end_offset`, which the log no longer reaches."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.is_dirty = True
        self.latest_epoch = self._entries[-1].epoch if self._entries else UNKNOWN_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at or before `start_offset`; the one it lies in begins there now."""
        index = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if index and self._entries[0].start_offset < start_offset:
            self._entries[:index] = [EpochEntry(self._entries[index - 1].epoch, start_offset)]
            self.is_dirty = True

    def write(self, disk: Disk, path: str) -> None:
        """Replace `leader-epoch-checkpoint`, durably. BLOCKING."""
        self.is_dirty = False
        try:
            disk.write_atomic(path, format_checkpoint(tuple(self._entries)))
        except OSError:
            self.is_dirty = True
            raise


def read_leader_epochs(disk: Disk, path: str) -> LeaderEpochCache:
    """The epochs in `leader-epoch-checkpoint`, none when there is no such file. BLOCKING.

    Raises MalformedCheckpointError, OSError.
    """
    try:
        content = disk.read_bytes(path)
    except FileNotFoundError:
        return LeaderEpochCache()
    try:
        return LeaderEpochCache(EpochEntry(int(epoch), int(offset)) for epoch, offset in parse_checkpoint(content, 2))
    except InvalidInputError:
        raise
    except ValueError as error:
        raise MalformedCheckpointError(f"{path}: {error}") from error
