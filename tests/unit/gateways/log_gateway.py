"""The Kafka gateway's APIs over partitions with real logs, without sockets: every answer goes through its wire form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ottla.broker.access import ALLOW_ALL
from ottla.broker.active_producers import ActiveProducers
from ottla.broker.fetch import FetchService
from ottla.broker.log_directories import LogDirectoryService
from ottla.broker.offsets import OffsetService
from ottla.broker.record_deletion import RecordDeletion
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager
from tests.unit.gateways.answered import NOTHING, AnsweredContext, gateway_of

TIMESTAMP = 1_000


class LogGateway:
    """A broker's partitions; `moved` collects those whose waiting readers were to be looked at again."""

    def __init__(self, directory: Path | Sequence[Path]) -> None:
        self.directories = directory
        self.directory = directory if isinstance(directory, Path) else directory[0]
        self.tasks = Tasks("test")
        self.opener = BatchDecompressor(Tasks("open"))
        self.clock = SystemClock()
        self.rng = SeededRng(0)
        self.moved: list[Partition] = []
        self.gateway = gateway_of(self)
        self.failures: list[Exception] = []

    async def open(self) -> LogGateway:
        loop = asyncio.get_running_loop()
        self.timer = Timer(self.clock, loop.call_later)
        self.logs = LogManager(self.directories, disk=OsDisk(), clock=self.clock, timer=self.timer, tasks=self.tasks)
        self.logs.load()
        self.logs.attach(loop)
        self.replicas = ReplicaManager()
        self.record_deletion = RecordDeletion(self.replicas, self.logs.checkpoint_log_starts, self.timer)
        self.log_directories = LogDirectoryService(self.logs, self.replicas)
        self.active_producers = ActiveProducers(self.replicas, ALLOW_ALL)
        self.fetch_purgatory = Purgatory(self.timer)
        self.fetches = FetchService(self.replicas, self.fetch_purgatory, 1 << 20)
        self.offsets = OffsetService(self.replicas, self.clock, self.timer)
        self.fetch_sessions = FetchSessionCache(self.clock, self.rng, slots_max=0, eviction_ms=1_000)
        return self

    async def close(self) -> None:
        await self.opener.close()
        await self.logs.close()
        self.timer.close()
        await self.tasks.close()

    async def partition(
        self, topic: str = "t", index: int = 0, *, leader_epoch: int = 3, config: LogConfig | None = None
    ) -> Partition:
        name, topic_id = TopicPartition(topic, index), self.rng.uuid()
        known = self.logs.log(name)
        log = known or await self.logs.create_log(name, topic_id, config or LogConfig())
        partition = Partition(
            name,
            log.topic_id,
            log,
            leader_epoch=leader_epoch,
            clock=self.clock,
            tasks=self.tasks,
            opener=self.opener,
            flush_before_ack=True,
        )
        partition.subscribe(self.moved.append)
        self.replicas.add(partition)
        return partition

    async def append(self, partition: Partition, count: int, **options: Any) -> None:
        """One batch of `count` records a millisecond apart, committed when this returns."""
        records = build_batch([(TIMESTAMP + number, b"k", b"v", ()) for number in range(count)], **options)
        acknowledged: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()
        partition.append(records, acks=ACKS_ALL, on_ack=acknowledged.set_result)
        assert (await acknowledged).error is ErrorCode.NONE

    async def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """Send a request in a version, the newest unless told; the answer as the client decodes it."""
        version = api.max_version if version is None else version
        ctx = self._context(version)
        result = api.handle(ctx, type(request).decode(version, request.encode(version)))
        response = await result if asyncio.iscoroutine(result) else result
        return type(response).decode(version, response.encode(version))

    def fetch(self, api: Api, request: Any, version: int) -> Any:
        """Send a fetch that is answered at once; the answer as the handler made it, its records not read."""
        answers: list[Any] = []
        response, _ = self.begin_fetch(api, request, version, answers)
        return response or answers[0]

    def begin_fetch(self, api: Api, request: Any, version: int, answers: list[Any]) -> tuple[Any, AnsweredContext]:
        """What the handler returns and the context it was given; `answers` gets the answer, at once or later."""
        ctx = self._context(version, answers.append)
        return api.handle(ctx, type(request).decode(version, request.encode(version))), ctx

    def _context(self, version: int, on_answer: Callable[[Any], None] = NOTHING) -> AnsweredContext:
        self.gateway.fetch_sessions = self.fetch_sessions
        ctx = AnsweredContext(self.gateway, version, on_answer)
        ctx.failures = self.failures
        return ctx
