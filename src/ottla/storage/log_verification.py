"""Whether the files of a log are right, and those of a data directory: for a look at one that no broker uses. BLOCKING.

Nothing is changed. What a start would put right by itself (a torn end above the recovery point, a missing index, what a
compaction or a deletion left) is a note; everything else that is not as it was written is damage.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct, field

from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo
from ottla.runtime.disk import Disk
from ottla.storage.file_names import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANED_SUFFIX,
    CLEANER_CHECKPOINT,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_log_directory_name,
    parse_offset_file_name,
)
from ottla.storage.leader_epoch_cache import LeaderEpochCache, read_leader_epochs
from ottla.storage.meta_properties import parse_meta_properties
from ottla.storage.offset_checkpoint import OffsetCheckpointFile
from ottla.storage.partition_metadata import parse_partition_metadata
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.storage.segment_verification import EVERYTHING, FINDINGS_MAX, Finding, SegmentVerification
from ottla.storage.transaction_index_verification import TransactionIndexVerification

SMALL_FILE_BYTES_MAX: Final = 256 << 20
"""Snapshots, transaction indexes and checkpoints are read whole: none is larger by far."""

_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)


class DirectoryState(Struct, frozen=True):
    """How a data directory was left, by its own files, and what is wrong with these.

    Offsets are by partition; `recovery_points` is None when it has none, so that nothing tells a torn end from damage.
    """

    was_clean: bool
    recovery_points: Mapping[TopicPartition, int] | None
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    findings: tuple[Finding, ...] = ()


class VerifiedLog(Struct, frozen=True):
    """What was found in one log: what it holds as far as it is good, and what is wrong with it.

    `missing` counts the offsets from the first segment on that no batch covers; compaction leaves such gaps.
    """

    topic_partition: TopicPartition
    segments: int
    size: int
    batches: int
    start_offset: int
    end_offset: int
    missing: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        """Whether anything is lost or wrong that a start does not put right."""
        return any(finding.is_damage for finding in self.findings)


def read_directory_state(disk: Disk, path: str) -> DirectoryState:
    """Read the files of a data directory that belong to no single log. Raises OSError."""
    findings: list[Finding] = []

    def offsets(name: str) -> dict[TopicPartition, int] | None:
        file = f"{path}/{name}"
        try:
            # Kafka makes its files empty and writes them later.
            return OffsetCheckpointFile(disk, file).read() if disk.exists(file) and disk.size(file) else None
        except (InvalidInputError, OSError) as error:
            findings.append(Finding(name, _said(error)))
            return None

    if disk.exists(f"{path}/{META_PROPERTIES}"):
        try:
            parse_meta_properties(disk.read_bytes(f"{path}/{META_PROPERTIES}"))
        except (InvalidInputError, OSError) as error:
            findings.append(Finding(META_PROPERTIES, _said(error)))
    points, starts, marks, _ = (
        offsets(name)
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT, CLEANER_CHECKPOINT)
    )
    was_clean = disk.exists(f"{path}/{CLEAN_SHUTDOWN_MARKER}")
    return DirectoryState(was_clean, points, starts or {}, marks or {}, tuple(findings))


def log_directories(disk: Disk, path: str) -> Iterator[tuple[str, TopicPartition]]:
    """The directories of logs in a data directory. Raises OSError."""
    for name in disk.list_dir(path):
        topic_partition = parse_log_directory_name(name)
        if topic_partition is not None and disk.is_dir(f"{path}/{name}"):
            yield f"{path}/{name}", topic_partition


class LogVerification:
    """Looks at one log, once."""

    __slots__ = (
        "_directory",
        "_disk",
        "_end",
        "_epochs",
        "_findings",
        "_missing",
        "_name",
        "_sizes",
        "_state",
        "_transactions",
    )

    def __init__(self, disk: Disk, directory: str, name: TopicPartition, state: DirectoryState) -> None:
        self._disk = disk
        self._directory = directory
        self._name = name
        self._state = state
        self._sizes: dict[str, int] = {}
        self._epochs = LeaderEpochCache()
        self._findings: list[Finding] = []
        self._transactions = TransactionIndexVerification()
        self._end = self._missing = 0

    def run(self) -> VerifiedLog:
        """Look. Raises OSError when the directory cannot be listed."""
        self._sizes = self._disk.file_sizes(self._directory)
        bases = sorted(self._offsets_of(LOG_SUFFIX))
        self._end = bases[0] if bases else 0
        self._read_identity()
        self._read_epochs()
        batches = 0
        for base_offset, next_base in zip(bases, [*bases[1:], None][: len(bases)], strict=True):
            verification = SegmentVerification(
                self._disk,
                self._directory,
                base_offset,
                self._sizes,
                next_base=next_base,
                settled_up_to=self._settled_up_to,
                on_batch=self._see,
            )
            try:
                segment = verification.run()
            except OSError as error:
                self._damage(f"{base_offset:020}{LOG_SUFFIX}", f"cannot be read: {error.strerror}")
                continue
            batches += segment.batches
            self._findings += segment.findings
            self._end = max(self._end, segment.end_offset)
        start_offset = max(self._state.log_starts.get(self._name, 0), bases[0] if bases else 0)
        self._see_checkpoints(start_offset)
        self._see_small_files()
        self._see_transaction_indexes(bases)
        size = sum(size for name, size in self._sizes.items() if name.endswith(LOG_SUFFIX))
        return VerifiedLog(
            self._name, len(bases), size, batches, start_offset, self._end, self._missing, self._findings
        )

    @property
    def _settled_up_to(self) -> float:
        """Below this offset the newest segment has to be right."""
        if self._state.was_clean:
            return EVERYTHING
        return 0 if self._state.recovery_points is None else self._state.recovery_points.get(self._name, 0)

    def _see(self, batch: BatchInfo) -> None:
        self._missing += max(0, batch.base_offset - self._end)
        self._end = batch.last_offset + 1
        self._transactions.see(batch)
        epoch = batch.leader_epoch
        known = self._epochs.epoch_of(batch.base_offset)
        # An epoch that began above the recovery point need not be in the file yet: a start finds it in the batches.
        is_new = epoch > self._epochs.latest_epoch and batch.base_offset >= self._settled_up_to
        if is_new and LEADER_EPOCH_CHECKPOINT in self._sizes:
            self._epochs.assign(epoch, batch.base_offset)
        elif epoch >= 0 and known >= 0 and epoch != known:
            reason = f"offset {batch.base_offset} was written in epoch {epoch}, which the file has as {known}"
            self._damage(LEADER_EPOCH_CHECKPOINT, reason)
            self._epochs = LeaderEpochCache()  # said once

    def _read_identity(self) -> None:
        if PARTITION_METADATA not in self._sizes:
            self._note(PARTITION_METADATA, "is missing: the log belongs to whichever topic has its name")
            return
        try:
            parse_partition_metadata(self._read(PARTITION_METADATA))
        except (InvalidInputError, OSError) as error:
            self._damage(PARTITION_METADATA, _said(error))

    def _read_epochs(self) -> None:
        if LEADER_EPOCH_CHECKPOINT in self._sizes:
            try:
                self._read(LEADER_EPOCH_CHECKPOINT)
                self._epochs = read_leader_epochs(self._disk, f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}")
            except (InvalidInputError, OSError) as error:
                self._damage(LEADER_EPOCH_CHECKPOINT, _said(error))

    def _see_checkpoints(self, start_offset: int) -> None:
        end_offset = self._end
        if start_offset > end_offset:
            reason = f"{self._name} starts at offset {start_offset} and ends at {end_offset}: a start begins it anew"
            self._note(LOG_START_CHECKPOINT, reason)
            return
        points = self._state.recovery_points or {}
        for file, what, offset in (
            (RECOVERY_POINT_CHECKPOINT, "on disk", points.get(self._name, 0)),
            (REPLICATION_CHECKPOINT, "committed", self._state.high_watermarks.get(self._name, 0)),
        ):
            if offset > end_offset:
                self._damage(file, f"{self._name} was {what} up to offset {offset}, and ends at {end_offset} now")

    def _see_small_files(self) -> None:
        for offset in sorted(self._offsets_of(SNAPSHOT_SUFFIX)):
            name = f"{offset:020}{SNAPSHOT_SUFFIX}"
            try:
                decode_snapshot(self._read(name))
            except (InvalidInputError, OSError) as error:
                self._damage(name, f"{_said(error)}; a start finds the producers in the batches without this file")
                continue
            if offset > self._end:
                self._note(name, f"is of an offset behind the end of the log, {self._end}")
        for name in self._sizes:
            if name.endswith(_LEFTOVERS):
                self._note(name, "is left of a deletion or a compaction; the next start clears it up")

    def _see_transaction_indexes(self, bases: Sequence[int]) -> None:
        for base_offset, end_offset in zip(bases, [*bases[1:], self._end][: len(bases)], strict=True):
            name = f"{base_offset:020}{TRANSACTION_INDEX_SUFFIX}"
            settled_up_to = self._settled_up_to if base_offset == bases[-1] else EVERYTHING
            try:
                content = self._read(name) if name in self._sizes else b""
            except (InvalidInputError, OSError) as error:
                self._damage(name, _said(error))
                continue
            findings = self._transactions.findings(content, base_offset, end_offset, settled_up_to)
            for reason in islice(findings, FINDINGS_MAX):
                self._damage(name, reason)

    def _offsets_of(self, suffix: str) -> Iterator[int]:
        for name in self._sizes:
            parsed = parse_offset_file_name(name)
            if parsed is not None and parsed[1] == suffix:
                yield parsed[0]

    def _read(self, name: str) -> bytes:
        """The content of a small file. Raises OSError, InvalidInputError when it is not small."""
        if self._sizes[name] > SMALL_FILE_BYTES_MAX:
            raise InvalidInputError(f"{self._sizes[name]} bytes are more than such a file ever has; it was not read")
        return self._disk.read_bytes(f"{self._directory}/{name}")

    def _damage(self, file: str, reason: str) -> None:
        self._findings.append(Finding(file, reason))

    def _note(self, file: str, reason: str) -> None:
        self._findings.append(Finding(file, reason, is_damage=False))


def _said(error: InvalidInputError | OSError) -> str:
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
