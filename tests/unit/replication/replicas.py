"""Brokers that hold replicas of one partition, joined by calls instead of connections.

The controller decides by the functions of the real one; logs are real, each in a directory of its own.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from ottla.broker.fetch import FetchService, FetchTarget, PartitionRead
from ottla.broker.replica_reader import ReplicaReader
from ottla.client.errors import ConnectionLostError
from ottla.metadata.controller.partition_leadership import Election, PartitionProposal, alter, elect, fence, new_state
from ottla.metadata.image.image import BrokerImage, MetadataImage, PartitionImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.alter_partitions import IsrAnswer, OnIsrAnswer
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.isr_manager import IsrManager
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.partition_roles import PartitionRoles
from ottla.replication.replica_fetcher import FetchFrom, ReplicaFetchLimits, Truncation
from ottla.replication.replica_fetchers import ReplicaFetchers
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.replication_quota import ReplicationQuota
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.outage_log import OutageLog
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.sampled_rate import Windows
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager

TOPIC_ID = UUID(int=7)
NAME = TopicPartition("t", 0)
LIMITS = ReplicaFetchLimits(max_wait_ms=30, backoff_ms=30, partition_max_bytes=3_000)
SEGMENTS = LogConfig(segment_bytes=4_000, index_interval_bytes=200)
STEP_MS_MAX = 50


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something holds; fails after a time that no test takes."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class PatientClock(SystemClock):
    """Lets little time pass between two looks: who could do nothing while the machine stood still does not lag."""

    __slots__ = ("_last_ms", "_now_ms")

    def __init__(self) -> None:
        self._last_ms = self._now_ms = super().monotonic_ms()

    def monotonic_ms(self) -> int:
        """The system's, without its leaps."""
        now_ms = super().monotonic_ms()
        self._now_ms += min(now_ms - self._last_ms, STEP_MS_MAX)
        self._last_ms = now_ms
        return self._now_ms


class Broker:
    """One broker in one incarnation."""

    def __init__(self, cluster: "Cluster", broker_id: int, broker_epoch: int, path: Path) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.path = path
        clock = cluster.clock
        self.timer = Timer(clock, asyncio.get_running_loop().call_later)
        self.tasks = Tasks(f"broker {broker_id}")
        self.opener = BatchDecompressor(Tasks("open"))
        self.logs = LogManager(path, disk=OsDisk(), clock=clock, timer=self.timer, tasks=self.tasks)
        self.purgatory = Purgatory(self.timer)
        self.replicas = ReplicaManager()
        self.fetches = FetchService(self.replicas, self.purgatory, 1 << 26)
        self.isr_manager = IsrManager(
            broker_id,
            self,
            clock=clock,
            timer=self.timer,
            opener=self.opener,
            fetch_purgatory=self.purgatory,
            lag_max_ms=cluster.lag_max_ms,
            tasks=self.tasks,
            reaches=lambda other, _timeout_ms: cluster.reaches(broker_id, other),
            silence_max_ms=cluster.silence_max_ms,
        )
        self.own_quota = ReplicationQuota(clock, Windows())
        self.follower_quota = ReplicationQuota(clock, Windows())
        self.fetchers = ReplicaFetchers(
            cluster.fetch_from(self),
            lambda: ReplicaState(replica_id=broker_id, replica_epoch=self.broker_epoch),
            Truncation(self.logs.truncate_log, self.logs.restart_log),
            self.own_quota,
            limits=LIMITS,
            timer=self.timer,
            tasks=self.tasks,
            throttled=LogThrottle(logging.getLogger(__name__), clock),
            outage_log=partial(OutageLog, logging.getLogger(__name__), clock),
        )
        self.roles = PartitionRoles(self.isr_manager, self.fetchers)
        self.partition: Partition
        self.sessions: dict[int, dict[int, FetchTarget]] = {}
        """What each follower reads of each partition; as a fetch session it remembers what did not change."""
        self.clock = clock

    async def start(self) -> None:
        self.logs.load()
        self.logs.attach(asyncio.get_running_loop())
        await self._hold()
        self.isr_manager.start()

    async def begin_anew(self) -> None:
        """Drop the replica, and be given another one."""
        self.replicas.remove([NAME])
        await self.logs.delete_log(NAME)
        await self._hold()

    async def _hold(self) -> None:
        log = await self.logs.create_log(NAME, TOPIC_ID, SEGMENTS)
        self.partition = Partition(
            NAME,
            TOPIC_ID,
            log,
            leader_epoch=0,
            clock=self.clock,
            tasks=self.tasks,
            opener=self.opener,
            flush_before_ack=self.cluster.flush_before_ack,
            high_watermark=self.logs.high_watermark(NAME),
        )
        self.logs.high_watermark_of = lambda _log: self.partition.high_watermark
        self.partition.min_insync_replicas = self.cluster.min_isr
        self.partition.subscribe(self.changed)
        self.replicas.add(self.partition)

    def changed(self, partition: Partition) -> None:
        """For those who read."""
        self.purgatory.check_and_complete(partition.topic_partition)

    async def stop(self, *, clean: bool = True) -> None:
        await self.fetchers.close()
        self.isr_manager.close()
        self.partition.stop()
        self.purgatory.close()
        await self.opener.close()
        await self.logs.close(clean=clean)
        self.timer.close()
        await self.tasks.close()

    def propose(self, proposal: PartitionProposal, on_answer: OnIsrAnswer) -> None:
        """`AlterPartitions`."""
        self.cluster.proposed(self, proposal, on_answer)

    def append(self, value: bytes, *, count: int = 1, acks: int = ACKS_ALL) -> asyncio.Future[AppendAck]:
        acked: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()
        batch = build_batch([(1_000, None, value, ())] * count)
        self.partition.append(batch, acks=acks, on_ack=lambda ack: None if acked.done() else acked.set_result(ack))
        return acked

    @property
    def contents(self) -> bytes:
        """The bytes of the log that are written."""
        log = self.partition.log
        read = log.read(log.log_start_offset, 1 << 26, max_offset=log.written_end_offset)
        return b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in read.slices)

    @property
    def end_offset(self) -> int:
        return self.partition.log.log_end_offset


class Cluster:
    """The brokers, what the controller knows of the partition, and who is cut off."""

    def __init__(
        self, path: Path, *, flush_before_ack: bool, min_isr: int, lag_max_ms: int, clock: SystemClock
    ) -> None:
        self.path = path
        self.clock = clock
        self.silence_max_ms = 0
        self.flush_before_ack = flush_before_ack
        self.min_isr = min_isr
        self.lag_max_ms = lag_max_ms
        self.brokers: dict[int, Broker] = {}
        self.unreachable: set[int] = set()
        """Brokers that nobody hears, and that hear nobody."""
        self.cut: set[frozenset[int]] = set()
        """Pairs of brokers that do not hear each other."""
        self.controller_answers = True
        self.next_broker_epoch = 100
        self.live: dict[int, int] = {}
        self.state: PartitionState
        self.proposals: list[PartitionProposal] = []

    async def begin(self, count: int) -> None:
        for broker_id in range(1, count + 1):
            await self.start(broker_id)
        self.state = new_state(tuple(self.brokers), self.live)
        await self.spread()

    async def start(self, broker_id: int) -> Broker:
        self.next_broker_epoch += 1
        broker = Broker(self, broker_id, self.next_broker_epoch, self.path / f"broker-{broker_id}")
        await broker.start()
        self.brokers[broker_id] = broker
        self.live[broker_id] = broker.broker_epoch
        return broker

    async def close(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()

    @property
    def leader(self) -> Broker:
        return self.brokers[self.state.leader]

    def images(self) -> Mapping[int, BrokerImage]:
        return {
            broker_id: BrokerImage(broker_id, broker_epoch, "host", 9092, None)
            for broker_id, broker_epoch in self.live.items()
        }

    async def spread(self, *, but: tuple[int, ...] = ()) -> None:
        """The brokers hear of what the controller decided."""
        image = MetadataImage("cluster", brokers=self.images())
        for broker_id, broker in self.brokers.items():
            if broker_id not in but:
                broker.roles.on_image(image)
                await broker.roles.apply(broker.partition, PartitionImage.from_state(0, self.state))

    async def fence(self, broker_id: int, *, but: tuple[int, ...] = ()) -> None:
        self.live.pop(broker_id, None)
        self.state = fence(self.state, broker_id, self.live, min_isr=self.min_isr)
        await self.spread(but=but)

    async def unfence(self, broker_id: int) -> None:
        self.live[broker_id] = self.brokers[broker_id].broker_epoch
        self.state = elect(self.state, self.live, min_isr=self.min_isr)
        await self.spread()

    async def elect_unclean(self) -> None:
        self.state = elect(self.state, self.live, min_isr=self.min_isr, election=Election.UNCLEAN)
        await self.spread()

    def proposed(self, broker: Broker, proposal: PartitionProposal, on_answer: OnIsrAnswer) -> None:
        self.proposals.append(proposal)
        answer = IsrAnswer(ErrorCode.REQUEST_TIMED_OUT)
        if self.controller_answers and broker.broker_id not in self.unreachable:
            decided = alter(self.state, broker.broker_id, proposal, self.images(), self.live, min_isr=self.min_isr)
            if isinstance(decided, ErrorCode):
                answer = IsrAnswer(decided)
            else:
                self.state = decided
                answer = IsrAnswer(
                    ErrorCode.NONE, decided.leader, decided.leader_epoch, decided.isr, decided.partition_epoch
                )
        asyncio.get_running_loop().call_soon(on_answer, answer)

    def _hear(self, one: int, other: int) -> bool:
        return not {one, other} & self.unreachable and frozenset((one, other)) not in self.cut

    async def reaches(self, broker_id: int, other: int) -> bool:
        """Whether a broker finds another."""
        return other in self.brokers and self._hear(broker_id, other)

    def fetch_from(self, follower: Broker) -> FetchFrom:
        async def fetch(leader_id: int, number: int, request: FetchRequest, timeout_ms: int) -> FetchResponse:
            del number, timeout_ms
            return await self._fetch(follower, leader_id, request)

        return fetch

    async def _fetch(self, follower: Broker, leader_id: int, request: FetchRequest) -> FetchResponse:
        leader = self.brokers.get(leader_id)
        if leader is None or not self._hear(leader_id, follower.broker_id):
            await asyncio.sleep(0)
            raise ConnectionLostError("cut off")
        state = request.replica_state
        assert state.replica_id == follower.broker_id
        sessions = leader.sessions
        if request.session_epoch == 0:
            sessions[state.replica_id] = {}
        elif state.replica_id not in sessions:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session = sessions[state.replica_id]
        for topic in request.topics:
            session.update({each.partition: _target(leader, each) for each in topic.partitions})
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                del session[index]
        done: asyncio.Future[list[PartitionRead]] = asyncio.get_running_loop().create_future()
        replica = ReplicaReader(state.replica_id, state.replica_epoch, leader.follower_quota)
        limits = leader.fetches.limits(
            request.max_bytes,
            request.min_bytes,
            request.max_wait_ms,
            read_committed=False,
            knows_zstd=True,
            replica=replica,
        )
        targets = list(session.values())
        leader.fetches.fetch(targets, limits, done.set_result)
        reads = await done
        replica.charge(targets, reads)
        data = tuple(_data(index, read) for index, read in zip(session, reads, strict=True))
        if not self._hear(leader_id, follower.broker_id):
            raise ConnectionLostError("cut off")
        return FetchResponse(session_id=1, responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=data),))


def _target(leader: Broker, wanted: FetchPartition) -> FetchTarget:
    return FetchTarget(
        leader.partition,
        wanted.fetch_offset,
        wanted.partition_max_bytes,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
        log_start_offset=wanted.log_start_offset,
    )


def _data(index: int, read: PartitionRead) -> PartitionData:
    records = read.records
    pieces = () if records is None else records.slices
    diverging = read.diverging_epoch
    return PartitionData(
        partition_index=index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
        diverging_epoch=EpochEndOffset() if diverging is None else EpochEndOffset(*_fields(diverging)),
        records=memoryview(b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in pieces)),
    )


def _fields(diverging: object) -> tuple[int, int]:
    return diverging.epoch, diverging.end_offset  # type: ignore[attr-defined]


@asynccontextmanager
async def cluster(
    path: Path,
    count: int = 3,
    *,
    flush_before_ack: bool = True,
    min_isr: int = 1,
    lag_max_ms: int = 60_000,
    silence_max_ms: int = 3_600_000,
    clock: SystemClock | None = None,
) -> AsyncIterator[Cluster]:
    """Brokers 1 to `count`, all in sync; broker 1 leads."""
    made = Cluster(
        path,
        flush_before_ack=flush_before_ack,
        min_isr=min_isr,
        lag_max_ms=lag_max_ms,
        clock=clock or SystemClock(),
    )
    made.silence_max_ms = silence_max_ms
    await made.begin(count)
    try:
        yield made
    finally:
        await made.close()
