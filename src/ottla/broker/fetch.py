"""Reading for consumers: what is there now, or whatever arrives within the time they give.

A fetch names partitions and offsets. It is answered as soon as `min_bytes` are there, or something is wrong with one of
its partitions that is news to the reader, or `max_wait_ms` have passed. Until then it waits in the purgatory, watched
under each of its partitions, and is told when the high watermark of one of them moves: it then looks at that one.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from msgspec import Struct

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.broker.readable_bytes import ReadableBytes
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.records.compression import CompressionType
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import PartitionKey, ReplicaManager
from ottla.runtime.purgatory import DelayedOperation, Purgatory
from ottla.storage.log_read_result import LogReadResult
from ottla.storage.log_segment import LookUp

if TYPE_CHECKING:
    from ottla.broker.replica_reader import ReplicaReader
    from ottla.replication.replica_selector import RackAwareSelector
    from ottla.replication.replication_quota import ReplicationQuota


class FetchLimits(Struct, frozen=True):
    """What the reader asks for as a whole: sizes in bytes, time in milliseconds."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    read_committed: bool = False
    knows_zstd: bool = True
    """Whether the reader can be given records of a topic that is kept in zstd (KIP-110)."""
    replica: "ReplicaReader | None" = None
    """The follower that reads; None for a consumer."""
    from_followers: bool = False
    """Whether the reader may be served by a broker that does not lead (KIP-392)."""
    selector: "RackAwareSelector | None" = None
    """Who says which replica a reader in `rack` is to read from; None when that is the leader."""
    rack: str = ""


class FetchTarget(Struct):
    """One partition of a fetch: where to read, or why it cannot be read. What is to be read does not change."""

    partition: Partition | None
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    error: ErrorCode = ErrorCode.NONE
    known_error: ErrorCode = ErrorCode.NONE
    """An error that the reader has heard of already, or hears of early enough with what the others give. It is part of
    every answer, but no reason to give one: who asks again for what is not there would be answered all the time."""
    nothing: "PartitionRead | None" = None
    """What it gave when it was last read, if that was neither records nor anything the reader must hear of. It gives
    the same again while the partition is at the same version, for readers of the same isolation."""
    nothing_committed: bool = False
    """The isolation of `nothing`."""
    log_start_offset: int = -1
    """Where the log of a follower begins."""
    is_noted: bool = False
    """Whether the leader knows of what a follower says with it: that it has everything below the offset."""
    rules_version: int = 0
    """The version of the access rules that it was looked up by."""


class DivergingEpoch(Struct, frozen=True):
    """The reader's log and ours part ways: our end offset of the newest epoch both know (KIP-595)."""

    epoch: int
    end_offset: int


class PartitionRead(Struct):
    """What one partition of a fetch gives: an error, or offsets and, when there is something to read, file slices."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: LogReadResult | None = None
    diverging_epoch: DivergingEpoch | None = None
    total_bytes: int = 0
    available_bytes: int = 0
    """With those of a batch that did not fit and was left out: what counts for the reader's `min_bytes`."""
    version: int = -1
    """The version of the partition that was read, -1 after an error: at the same one there is nothing new in it."""
    aborted: Sequence[tuple[int, int]] | None = None
    """For readers of committed records producer id and first offset of the transactions that were aborted and may have
    some of `records`; None for the others."""
    preferred_read_replica: int = -1
    """The broker that the reader is to read from instead; -1 for this one."""


def read_partitions(targets: Sequence[FetchTarget], limits: FetchLimits) -> list[PartitionRead]:
    """Read every target in order, within `limits.max_bytes` together.

    The first partition that has something gives at least one whole batch, however large, so that a reader always gets
    on; another whose first batch does not fit its own limit, or what is left, gives nothing this time (KIP-74). A
    target that had nothing when it was last read, and has not changed since, gives the same object again and is not
    read: of ten thousand that a consumer waits for, few have news at a time.
    """
    return _read_all(targets, limits)[0]


def _read_all(targets: Sequence[FetchTarget], limits: FetchLimits) -> tuple[list[PartitionRead], bool]:
    """What `read_partitions` gives, and whether the reader is to be answered: enough bytes, or what it must hear of.

    It must hear of errors; and it need not wait when there are records that do not fit, since no wait changes that.
    """
    left = limits.max_bytes
    total_bytes = 0
    must_hear = False
    read_committed = limits.read_committed
    reads = []
    for target in targets:
        nothing = target.nothing
        if (
            nothing is not None
            and nothing.version == target.partition.version  # type: ignore[union-attr]
            and target.nothing_committed is read_committed
        ):
            reads.append(nothing)
            continue
        read = _read(target, limits, left, must_progress=not total_bytes)
        reads.append(read)
        if read.total_bytes:
            total_bytes += read.available_bytes
            left = max(0, left - read.total_bytes)
        elif (
            read.error not in (ErrorCode.NONE, target.known_error)
            or read.diverging_epoch is not None
            or read.preferred_read_replica >= 0
            or (total_bytes and read is not target.nothing)
        ):
            must_hear = True
    return reads, must_hear or total_bytes >= limits.min_bytes


def _read(target: FetchTarget, limits: FetchLimits, left: int, *, must_progress: bool) -> PartitionRead:
    """Read one target; remembers in it that there was nothing."""
    if limits.replica is not None:
        return limits.replica.read(target, left, taken=limits.max_bytes - left, must_progress=must_progress)
    partition = target.partition
    target.nothing = None
    if partition is None or target.error is not ErrorCode.NONE:
        return PartitionRead(target.error)
    try:
        partition.require_leader_epoch(target.current_leader_epoch, from_followers=limits.from_followers)
        diverging = _diverging_epoch(partition, target)
        if not limits.knows_zstd and partition.log.config.compression_type is CompressionType.ZSTD:
            return PartitionRead(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        upper = partition.last_stable_offset if limits.read_committed else partition.high_watermark
        read = PartitionRead(
            ErrorCode.NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            diverging_epoch=diverging,
            version=partition.version,
            aborted=() if limits.read_committed else None,
        )
        max_bytes = min(left, target.max_bytes)
        if diverging is not None:
            return read
        if limits.selector is not None and _is_sent_elsewhere(read, partition, limits, target.offset):
            return read
        log = partition.log
        if upper <= target.offset <= log.log_end_offset and target.offset >= log.log_start_offset:
            target.nothing, target.nothing_committed = read, limits.read_committed
        elif max_bytes > 0 or must_progress:
            read.records = partition.read(target.offset, max_bytes, max_offset=upper, min_one_batch=must_progress)
            read.total_bytes = read.records.total_bytes
            read.available_bytes = read.total_bytes + read.records.left_out_bytes
            if read.total_bytes and limits.read_committed:
                read.aborted = log.aborted_in(read.records, target.offset, upper)
        elif not log.log_start_offset <= target.offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, "nothing is left to read, and nothing would be there")
    except ApiError as error:
        read = _out_of_range(partition) if error.code is ErrorCode.OFFSET_OUT_OF_RANGE else PartitionRead(error.code)
    return read


def _out_of_range(partition: Partition) -> PartitionRead:
    """What a reader is told: by a follower to ask the leader, which alone knows the range. Who asked here by mistake
    would begin anew at one end of it.
    """
    if not partition.is_leader:
        return PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return PartitionRead(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
    )


def _is_sent_elsewhere(read: PartitionRead, partition: Partition, limits: FetchLimits, offset: int) -> bool:
    """Whether the reader is to read from another replica, which `read` tells it then."""
    assert limits.selector is not None
    read.preferred_read_replica = limits.selector.preferred(partition, limits.rack, offset)
    if read.preferred_read_replica < 0:
        return False
    read.version = -1
    return True


def _diverging_epoch(partition: Partition, target: FetchTarget) -> DivergingEpoch | None:
    if target.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.epoch_end_offset(target.last_fetched_epoch)
    if epoch < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known here of epoch {target.last_fetched_epoch}")
    if epoch < target.last_fetched_epoch or end_offset < target.offset:
        return DivergingEpoch(epoch, end_offset)
    return None


def _still_readable(target: FetchTarget, replica: "ReplicaReader | None") -> bool:
    """Whether a partition that had records for this target still has them, as far as can be told without reading."""
    if replica is not None:
        return replica.still_readable(target)
    partition = target.partition
    return (
        partition is not None
        and partition.is_leader
        and (target.current_leader_epoch == partition.leader_epoch or target.current_leader_epoch < 0)
        and target.last_fetched_epoch < 0
        and target.offset >= partition.log.log_start_offset
    )


class OnFetched(Protocol):
    """Told what each target gave."""

    def __call__(self, reads: list[PartitionRead], /) -> None: ...


def _answered(reads: list[PartitionRead]) -> None:
    raise AssertionError("a fetch is answered once")


class DelayedFetch(DelayedOperation):
    """A fetch that waits for bytes or time.

    When one of its partitions changes it looks at that one, however many it waits for, and knows from `ReadableBytes`
    whether together they have enough. It holds no slices of files while it waits.
    """

    __slots__ = ("_found", "_limits", "_on_fetched", "_positions", "_readable", "_targets")

    def __init__(
        self,
        targets: Sequence[FetchTarget],
        limits: FetchLimits,
        reads: Sequence[PartitionRead],
        on_fetched: OnFetched,
    ) -> None:
        """`reads` is what the targets gave just now, which was not enough: none of them had an error."""
        super().__init__()
        self._targets = targets
        self._limits = limits
        self._on_fetched: OnFetched = on_fetched
        replica = limits.replica
        self._positions: dict[Hashable, int] = {
            target.partition.topic_partition if replica is None else replica.watched(target.partition): position
            for position, target in enumerate(targets)
            if target.partition is not None
        }
        self._readable = ReadableBytes(limits.max_bytes)
        for position, read in enumerate(reads):
            if read.total_bytes:
                self._readable.put(position, read.available_bytes, targets[position].max_bytes)
        self._found: list[PartitionRead] | None = None

    @property
    def keys(self) -> Iterable[Hashable]:
        """What it is to watch: each of its partitions."""
        return self._positions

    def try_complete(self) -> bool:
        """Read everything; complete when there is enough, or a partition has an error the reader must hear of."""
        reads, is_enough = _read_all(self._targets, self._limits)
        if not is_enough:
            return False
        self._found = reads
        return self.force_complete()

    def on_change(self, key: Hashable) -> bool:
        """Look at the partition that changed, and read everything when that makes it enough."""
        if len(self._positions) != len(self._targets):
            return self.try_complete()  # one is named twice
        position = self._positions[key]
        target = self._targets[position]
        if self._readable.is_full(position, target.max_bytes) and _still_readable(target, self._limits.replica):
            return False
        read = _read(target, self._limits, self._limits.max_bytes, must_progress=True)
        if read.total_bytes:
            self._readable.put(position, read.available_bytes, target.max_bytes)
            if self._readable.total < self._limits.min_bytes and not self._readable.leaves_out:
                return False
        elif (
            read.error in (ErrorCode.NONE, target.known_error)
            and read.diverging_epoch is None
            and read.preferred_read_replica < 0
        ):
            return False
        if len(self._targets) > 1:
            return self.try_complete()
        self._found = [read]
        return self.force_complete()

    def on_complete(self) -> None:
        """Answer with what was found."""
        found, self._found = self._found, None
        # Who waits may know this operation: without this each fetch would leave a cycle to the garbage collector.
        on_fetched, self._on_fetched = self._on_fetched, _answered
        on_fetched(read_partitions(self._targets, self._limits) if found is None else found)

    def on_expiration(self) -> None:
        """Time is up: `on_complete` answers with whatever is there."""


class FetchService:
    """Finds what is read, asks whether the reader may, and reads now or when there is enough.

    Belongs to the event loop; its methods never block.
    """

    __slots__ = ("_authorizer", "_max_bytes", "_purgatory", "_replicas", "follower_quota", "selector")

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        max_bytes: int,
        authorizer: Authorizer = ALLOW_ALL,
        *,
        follower_quota: "ReplicationQuota | None" = None,
        selector: "RackAwareSelector | None" = None,
    ) -> None:
        """`max_bytes` is the largest answer, whatever the reader allows (`fetch.max.bytes`)."""
        self._replicas = replicas
        self._purgatory = purgatory
        self._max_bytes = max_bytes
        self._authorizer = authorizer
        self.follower_quota = follower_quota
        """What followers of throttled partitions may be given; None for a broker without followers."""
        self.selector = selector
        """Sends consumers to replicas in their rack (`replica.selector.class`); None when all read from leaders."""

    @property
    def rules_version(self) -> int:
        """A target that was looked up at another version is looked up again: what its reader may read has changed."""
        return self._authorizer.version

    def limits(
        self,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        *,
        read_committed: bool,
        knows_zstd: bool,
        replica: "ReplicaReader | None" = None,
        from_followers: bool = False,
        rack: str = "",
    ) -> FetchLimits:
        """What the reader asks for, within what he can get."""
        max_bytes = max(0, min(max_bytes, self._max_bytes))
        min_bytes = max(0, min(min_bytes, max_bytes))
        selector = self.selector if rack and replica is None else None
        return FetchLimits(
            max_bytes, min_bytes, max_wait_ms, read_committed, knows_zstd, replica, from_followers, selector, rack
        )

    def look_up(self, principal: Principal, topic: str | UUID, index: int, target: FetchTarget) -> None:
        """Set where `target` is read, in a partition of a topic that is named or given by its id, or why not.

        TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID.
        """
        try:
            if isinstance(topic, str):
                require(self._authorizer, principal, Operation.READ, ResourceType.TOPIC, topic)
                target.partition = self._replicas.get(topic, index)
            else:
                partition = self._replicas.get_by_id(topic, index)
                name = partition.topic_partition.topic
                require(self._authorizer, principal, Operation.READ, ResourceType.TOPIC, name)
                target.partition = partition
        except ApiError as error:
            target.error = error.code

    def look_up_key(self, principal: Principal, key: PartitionKey, target: FetchTarget) -> None:
        """As `look_up`, by the key that a partition is found by."""
        partition = self._replicas.by_key.get(key)
        if partition is not None and self._authorizer.allows(
            principal, Operation.READ, ResourceType.TOPIC, partition.topic_partition.topic
        ):
            target.partition = partition
            return
        topic, index = key
        self.look_up(principal, topic if isinstance(topic, str) else UUID(bytes=topic), index, target)

    def fetch(
        self,
        targets: Sequence[FetchTarget],
        limits: FetchLimits,
        on_fetched: OnFetched,
        reader: Principal | None = None,
    ) -> DelayedOperation | None:
        """Read now when it is worth an answer, otherwise wait; `on_fetched` is called exactly once.

        After a wait `reader` gets what it may read by then; None stands for one that the rules are not about. Returns
        what waits, to be cancelled when nobody wants it any more; None when it is answered.
        """
        reads, is_enough = _read_all(targets, limits)
        if limits.max_wait_ms <= 0 or not targets or is_enough:
            on_fetched(reads)
            return None
        if reader is not None and self._authorizer is not ALLOW_ALL:
            on_fetched = partial(self._on_waited, reader, self._authorizer.version, targets, on_fetched)
        operation = DelayedFetch(targets, limits, reads, on_fetched)
        del reads
        is_answered = self._purgatory.watch(operation, operation.keys, limits.max_wait_ms)
        return None if is_answered else operation

    def _on_waited(
        self,
        reader: Principal,
        rules_version: int,
        targets: Sequence[FetchTarget],
        on_fetched: OnFetched,
        reads: list[PartitionRead],
    ) -> None:
        """Answer a reader that has waited since the rules had this version."""
        if self._authorizer.version != rules_version:
            reads = [self._if_allowed(reader, *each) for each in zip(targets, reads, strict=True)]
        on_fetched(reads)

    def _if_allowed(self, reader: Principal, target: FetchTarget, read: PartitionRead) -> PartitionRead:
        if target.partition is None:
            return read
        topic = target.partition.topic_partition.topic
        if self._authorizer.allows(reader, Operation.READ, ResourceType.TOPIC, topic):
            return read
        return PartitionRead(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def look_ups_of(
    targets: Sequence[FetchTarget], *, read_committed: bool = False, is_replica: bool = False
) -> list[LookUp]:
    """What would wait for the disk if `targets` were read now, to be done in a thread before (`do_all`)."""
    found = []
    for target in targets:
        partition = target.partition
        if partition is not None and (is_replica or target.offset < partition.high_watermark):
            look_up = partition.log.look_up(target.offset)
            if look_up is not None:
                found.append(look_up)
            if read_committed:
                look_up = partition.log.look_up_aborted(target.offset, target.max_bytes)
                if look_up is not None:
                    found.append(look_up)
    return found


def do_all(look_ups: Iterable[LookUp]) -> None:
    """Wait for the disk. BLOCKING."""
    for look_up in look_ups:
        look_up()
