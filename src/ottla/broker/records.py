"""Records of a partition, wherever it is led: for gateways whose clients do not find leaders by themselves.

    gateway --> this broker leads        --> ProduceService, FetchService
            --> another broker leads     --> the same asked of it (Produce, Fetch, DeleteRecords)
            --> nobody leads, or it moves --> tried again until the time is up

What is appended is committed (acks=all) when the call returns. An append is tried again only where it is certain that
nothing was written; otherwise the caller is told that it is not known, and may have it twice if he tries again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.broker.fetch import FetchService, FetchTarget, PartitionRead, do_all, look_ups_of
from ottla.broker.produce import PartitionWrite, ProduceService
from ottla.broker.record_deletion import ALL_COMMITTED, RecordDeletion, RecordsBefore
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import INTERNAL_TOPICS
from ottla.model.topic_partition import TopicPartition
from ottla.model.unknown_topic import no_such_topic
from ottla.native import build_batch
from ottla.protocol.message import Records
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.leader import ACKS_ALL
from ottla.replication.partition import WritableBuffer
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.environment import Environment

T = TypeVar("T")

RETRY_MS: Final = 50
"""How long after a try that found no leader the next one is made."""

REFUSED: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS})
"""Refusals of an append that may pass, before which nothing was written."""

_MOVED: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""Refusals of a read that may pass."""

Value = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""Key, value and headers of a record to be appended."""


class OutOfRangeError(ApiError):
    """A read from an offset that the partition does not have."""

    def __init__(self, message: str, log_start_offset: int) -> None:
        """`log_start_offset` is -1 where it is not known."""
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        self.log_start_offset = log_start_offset


class RecordRead(NamedTuple):
    """What a partition gave: whole batches, the first of which may begin before the wanted offset, the last may be cut
    off. `aborted` are producer id and first offset of aborted transactions that may have some of it.
    """

    records: Records
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]] = ()


class RemoteRecords(Protocol):
    """The records of partitions that other brokers lead. An error that may pass with a new leader is an ApiError with
    LEADER_NOT_AVAILABLE; after any other error of `append` the records may be there.
    """

    async def append(self, leader_id: int, place: TopicPartition, batch: WritableBuffer, timeout_ms: int) -> int: ...

    async def read(
        self, leader_id: int, place: TopicPartition, offset: int, max_bytes: int, wait_ms: int, *, read_committed: bool
    ) -> RecordRead: ...

    async def delete(self, leader_id: int, place: TopicPartition, timeout_ms: int) -> None: ...


class RecordService:
    """Belongs to the event loop; its methods may be called concurrently.

    Appends that a caller begins one after the other are in that order, as long as none has to be tried again.
    """

    def __init__(
        self,
        produce: ProduceService,
        fetches: FetchService,
        replicas: ReplicaManager,
        environment: Environment,
        authorizer: Authorizer,
        current_image: Callable[[], MetadataImage],
        broker_id: int,
        remote: RemoteRecords | None = None,
    ) -> None:
        """`remote` reaches other brokers; None on one that is alone."""
        self._produce = produce
        self._fetches = fetches
        self._replicas = replicas
        self._environment = environment
        self._authorizer = authorizer
        self._current_image = current_image
        self._broker_id = broker_id
        self._remote = remote

    async def append(
        self, principal: Principal, place: TopicPartition, values: Sequence[Value], timeout_ms: int
    ) -> int:
        """Append at least one value, with the time it is now; returns the offset of the first. Raises as
        `append_batch`.
        """
        now_ms = self._environment.clock.now_ms()
        batch = build_batch([(now_ms, key, value, headers) for key, value, headers in values])
        return await self.append_batch(principal, place, batch, timeout_ms)

    async def append_batch(
        self, principal: Principal, place: TopicPartition, batch: WritableBuffer, timeout_ms: int
    ) -> int:
        """Append a batch, which belongs to the service from now on; returns the offset of its first record.

        Raises ApiError: REQUEST_TIMED_OUT when it is not known whether the records are there, LEADER_NOT_AVAILABLE or
        NOT_ENOUGH_REPLICAS when the time is up and they are not, and what Produce answers.
        """
        require(self._authorizer, principal, Operation.WRITE, ResourceType.TOPIC, place.topic)
        if place.topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "only coordinators write to internal topics")

        async def attempt(left_ms: int) -> int:
            partition = self._replicas.find(*place)
            if partition is not None and partition.is_leader:
                return await self._append_here(principal, place, batch, left_ms)
            leader_id, remote = self._leader_elsewhere(place)
            return await remote.append(leader_id, place, batch, left_ms)

        return await self._retried(attempt, REFUSED, timeout_ms)

    async def read(
        self,
        principal: Principal,
        place: TopicPartition,
        offset: int,
        *,
        max_bytes: int,
        wait_ms: int = 0,
        timeout_ms: int,
        read_committed: bool = False,
    ) -> RecordRead:
        """The committed batches from an offset on, at least one whole batch when there is any; when there is none the
        leader is given `wait_ms` to have some, or less.

        Raises OutOfRangeError; ApiError: LEADER_NOT_AVAILABLE when nobody led for `timeout_ms`, and what Fetch
        answers.
        """
        require(self._authorizer, principal, Operation.READ, ResourceType.TOPIC, place.topic)

        async def attempt(left_ms: int) -> RecordRead:
            partition = self._replicas.find(*place)
            if partition is not None and partition.is_leader:
                return await self._read_here(principal, place, offset, max_bytes, wait_ms, read_committed)
            leader_id, remote = self._leader_elsewhere(place)
            return await remote.read(leader_id, place, offset, max_bytes, wait_ms, read_committed=read_committed)

        return await self._retried(attempt, _MOVED, timeout_ms)

    async def delete(
        self, principal: Principal, place: TopicPartition, deletion: RecordDeletion, timeout_ms: int
    ) -> None:
        """Delete all committed records, here by `deletion`. Raises ApiError: LEADER_NOT_AVAILABLE when nobody led for
        `timeout_ms`, and what DeleteRecords answers.
        """
        require(self._authorizer, principal, Operation.DELETE, ResourceType.TOPIC, place.topic)

        async def attempt(left_ms: int) -> None:
            partition = self._replicas.find(*place)
            if partition is not None and partition.is_leader:
                (outcome,) = await deletion.delete(principal, [RecordsBefore(*place, ALL_COMMITTED)], left_ms)
                if isinstance(outcome, ApiError):
                    raise outcome
                return
            leader_id, remote = self._leader_elsewhere(place)
            await remote.delete(leader_id, place, left_ms)

        await self._retried(attempt, _MOVED, timeout_ms)

    async def _retried(
        self, attempt: Callable[[int], Awaitable[T]], may_pass: Collection[ErrorCode], timeout_ms: int
    ) -> T:
        clock = self._environment.clock
        end_ms = clock.monotonic_ms() + timeout_ms
        while True:
            left_ms = max(1, end_ms - clock.monotonic_ms())
            try:
                return await attempt(left_ms)
            except ApiError as error:
                if error.code not in may_pass or clock.monotonic_ms() + RETRY_MS >= end_ms:
                    raise
            await self._environment.timer.sleep(RETRY_MS)

    def _leader_elsewhere(self, place: TopicPartition) -> tuple[int, RemoteRecords]:
        """Raises ApiError LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self._current_image().partition(*place)
        if partition is None:
            raise no_such_topic(place.topic)
        if self._remote is None or partition.leader in (NO_LEADER, self._broker_id):
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place} has no leader at the moment")
        return partition.leader, self._remote

    async def _append_here(
        self, principal: Principal, place: TopicPartition, batch: WritableBuffer, timeout_ms: int
    ) -> int:
        decided: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()

        def on_produced(acks: list[AppendAck]) -> None:
            if not decided.done():  # who waited may have been cancelled
                decided.set_result(acks[0])

        self._produce.produce(
            principal,
            (PartitionWrite(*place, batch),),
            acks=ACKS_ALL,
            timeout_ms=timeout_ms,
            on_buffer_free=_keep,
            on_produced=on_produced,
        )
        ack = await decided
        if ack.error is ErrorCode.NONE:
            return ack.base_offset
        raise refused(ack.error, ack.message)

    async def _read_here(
        self,
        principal: Principal,
        place: TopicPartition,
        offset: int,
        max_bytes: int,
        wait_ms: int,
        read_committed: bool,
    ) -> RecordRead:
        target = FetchTarget(None, offset, max_bytes)
        self._fetches.look_up(principal, place.topic, place.partition, target)
        look_ups = look_ups_of((target,), read_committed=read_committed)
        if look_ups:
            await self._environment.tasks.in_thread(do_all, look_ups)
        limits = self._fetches.limits(max_bytes, 1, wait_ms, read_committed=read_committed, knows_zstd=True)
        fetched: asyncio.Future[list[PartitionRead]] = asyncio.get_running_loop().create_future()

        def on_fetched(reads: list[PartitionRead]) -> None:
            if not fetched.done():
                fetched.set_result(reads)

        waiting = self._fetches.fetch((target,), limits, on_fetched, principal)
        try:
            (read,) = await fetched
        except asyncio.CancelledError:
            if waiting is not None:
                waiting.cancel()
            raise
        if read.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OutOfRangeError(f"{place} has no offset {offset}", read.log_start_offset)
        if read.error is not ErrorCode.NONE:
            raise ApiError(read.error, f"{place} cannot be read at offset {offset}: {read.error.name}")
        records = b"" if read.records is None else await self._environment.tasks.in_thread(read.records.read)
        return RecordRead(
            records, read.high_watermark, read.last_stable_offset, read.log_start_offset, read.aborted or ()
        )


def refused(error: ErrorCode, message: str | None) -> ApiError:
    """What an append failed with: REQUEST_TIMED_OUT where a leader that lost its role may have written it."""
    words = message or error.name
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"it is not known whether the records are there: {words}")
    return ApiError(error, words)


def _keep() -> None:
    """The batch is nobody else's."""
