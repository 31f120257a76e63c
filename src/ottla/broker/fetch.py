"""Reading for consumers: what is there now, or whatever arrives within the time they give.

A fetch names partitions and offsets. It is answered as soon as `min_bytes` are there, or something is wrong with one of
its partitions, or `max_wait_ms` have passed; until then it waits in the purgatory, watched under each of its
partitions, and is looked at again when the high watermark of one of them moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import field

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.lazy_dataclass import dataclass
from ottla.replication.partition import Partition
from ottla.runtime.purgatory import DelayedOperation, Purgatory
from ottla.storage.log_read_result import LogReadResult


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What the reader asks for as a whole: sizes in bytes, time in milliseconds."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    read_committed: bool = False


@dataclass(slots=True)
class FetchTarget:
    """One partition of a fetch: where to read, or why it cannot be read."""

    partition: Partition | None
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class DivergingEpoch:
    """The reader's log and ours part ways: our end offset of the newest epoch both know (KIP-595)."""

    epoch: int
    end_offset: int


@dataclass(slots=True)
class PartitionRead:
    """What one partition of a fetch gives: an error, or offsets and, when there is something to read, file slices."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: LogReadResult | None = None
    diverging_epoch: DivergingEpoch | None = None
    total_bytes: int = field(default=0)


def read_partitions(targets: Sequence[FetchTarget], limits: FetchLimits) -> list[PartitionRead]:
    """Read every target in order, within `limits.max_bytes` together.

    The first partition that has something gives at least one whole batch, however large, so that a reader always gets
    on (KIP-74).
    """
    left = limits.max_bytes
    found = False
    reads = []
    for target in targets:
        read = _read(target, left, limits.read_committed, must_progress=not found)
        if read.total_bytes:
            found = True
            left = max(0, left - read.total_bytes)
        reads.append(read)
    return reads


def read_changed(
    targets: Sequence[FetchTarget], limits: FetchLimits, before: Sequence[PartitionRead]
) -> list[PartitionRead]:
    """What `read_partitions` gives now, when not long ago it gave `before`, without a byte of records.

    A partition that had nothing and did not change has nothing, and is not read again: of ten thousand that a consumer
    waits for, few have news at a time.
    """
    left = limits.max_bytes
    found = False
    reads = []
    for target, last_time in zip(targets, before, strict=True):
        if _is_unchanged(target, last_time):
            reads.append(last_time)
            continue
        read = _read(target, left, limits.read_committed, must_progress=not found)
        if read.total_bytes:
            found = True
            left = max(0, left - read.total_bytes)
        reads.append(read)
    return reads


def _is_unchanged(target: FetchTarget, read: PartitionRead) -> bool:
    partition = target.partition
    return (
        partition is not None
        and read.error is ErrorCode.NONE
        and partition.high_watermark == read.high_watermark
        and partition.last_stable_offset == read.last_stable_offset
        and partition.log.log_start_offset == read.log_start_offset
        and partition.is_leader
        and target.current_leader_epoch in (-1, partition.leader_epoch)
    )


def _if_empty(reads: list[PartitionRead]) -> list[PartitionRead] | None:
    """`reads` without any records, else None: slices of files are not held while one waits for more."""
    return None if any(read.total_bytes for read in reads) else reads


def is_enough(reads: Sequence[PartitionRead], limits: FetchLimits) -> bool:
    """Whether the reader is to be answered: enough bytes, or something it must hear of."""
    total_bytes = 0
    for read in reads:
        total_bytes += read.total_bytes
        if read.error is not ErrorCode.NONE or read.diverging_epoch is not None:
            return True
    return total_bytes >= limits.min_bytes


def _read(target: FetchTarget, left: int, read_committed: bool, *, must_progress: bool) -> PartitionRead:
    partition = target.partition
    if partition is None or target.error is not ErrorCode.NONE:
        return PartitionRead(target.error)
    try:
        partition.require_leader_epoch(target.current_leader_epoch)
        diverging = _diverging_epoch(partition, target)
        upper = partition.last_stable_offset if read_committed else partition.high_watermark
        read = PartitionRead(
            ErrorCode.NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            diverging_epoch=diverging,
        )
        max_bytes = min(left, target.max_bytes)
        if diverging is None and (target.offset != upper or target.offset < partition.log.log_start_offset):
            if max_bytes > 0 or must_progress:
                read.records = partition.read(target.offset, max_bytes, max_offset=upper, min_one_batch=must_progress)
                read.total_bytes = read.records.total_bytes
            elif target.offset > upper or target.offset < partition.log.log_start_offset:
                return PartitionRead(ErrorCode.OFFSET_OUT_OF_RANGE)
    except ApiError as error:
        read = PartitionRead(error.code)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            read.high_watermark = partition.high_watermark
            read.last_stable_offset = partition.last_stable_offset
            read.log_start_offset = partition.log.log_start_offset
    return read


def _diverging_epoch(partition: Partition, target: FetchTarget) -> DivergingEpoch | None:
    if target.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.epoch_end_offset(target.last_fetched_epoch)
    if epoch < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known here of epoch {target.last_fetched_epoch}")
    if epoch < target.last_fetched_epoch or end_offset < target.offset:
        return DivergingEpoch(epoch, end_offset)
    return None


OnFetched = Callable[[list[PartitionRead]], None]


def _answered(reads: list[PartitionRead]) -> None:
    raise AssertionError("a fetch is answered once")


class DelayedFetch(DelayedOperation):
    """A fetch that waits for bytes or time."""

    def __init__(
        self,
        targets: Sequence[FetchTarget],
        limits: FetchLimits,
        reads: list[PartitionRead],
        on_fetched: OnFetched,
    ) -> None:
        """`reads` is what the targets gave just now, which was not enough."""
        super().__init__()
        self._targets = targets
        self._limits = limits
        self._on_fetched = on_fetched
        self._before = _if_empty(reads)
        self._found: list[PartitionRead] | None = None

    def try_complete(self) -> bool:
        """Complete when there is enough, or a partition has an error the reader must hear of."""
        reads = self._read()
        if not is_enough(reads, self._limits):
            self._before = _if_empty(reads)
            return False
        self._found = reads
        return self.force_complete()

    def on_complete(self) -> None:
        """Answer with what was found."""
        found, self._found = self._found, None
        # Who waits may know this operation: without this each fetch would leave a cycle to the garbage collector.
        on_fetched, self._on_fetched = self._on_fetched, _answered
        on_fetched(self._read() if found is None else found)

    def _read(self) -> list[PartitionRead]:
        if self._before is None:
            return read_partitions(self._targets, self._limits)
        return read_changed(self._targets, self._limits, self._before)

    def on_expiration(self) -> None:
        """Time is up: `on_complete` answers with whatever is there."""


def fetch(
    purgatory: Purgatory, targets: Sequence[FetchTarget], limits: FetchLimits, on_fetched: OnFetched
) -> DelayedOperation | None:
    """Read now when it is worth an answer, otherwise wait; `on_fetched` is called exactly once.

    Returns what waits, to be cancelled when nobody wants it any more; None when it is answered.
    """
    reads = read_partitions(targets, limits)
    if limits.max_wait_ms <= 0 or not targets or is_enough(reads, limits):
        on_fetched(reads)
        return None
    keys = [target.partition.topic_partition for target in targets if target.partition is not None]
    operation = DelayedFetch(targets, limits, reads, on_fetched)
    is_answered = purgatory.watch(operation, keys, limits.max_wait_ms)
    return None if is_answered else operation
