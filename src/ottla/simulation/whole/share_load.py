"""Members of a share group in a simulated cluster: they accept most records, release or reject some, and die."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from ottla.client.consuming.share_consumer import ShareConsumer
from ottla.client.consuming.share_options import AcknowledgementMode, AcknowledgeType, ShareConsumerOptions
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.consuming.share_session import Place, ShareSession
from ottla.client.errors import ClientError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.share_fetch import PartitionData
from ottla.simulation.share_history import ShareHistory
from ottla.simulation.share_witness import ShareWitness
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.load import PLAIN, Client, Seen

WORKERS: Final = "workers"

GROUP_SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",
    "share.record.lock.duration.ms": "3000",
}
BROKER_SETTINGS: Final = {
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "2",
}
DELIVERIES_MAX: Final = 10

FETCH_WAIT_MS: Final = 200
POLL_MS: Final = 500

OPTIONS: Final = ShareConsumerOptions(
    WORKERS,
    acknowledgement_mode=AcknowledgementMode.EXPLICIT,
    fetch_max_wait_ms=FETCH_WAIT_MS,
    max_poll_records=20,
    max_poll_interval_ms=10_000,
)
"""A member that is stuck keeps its partitions until it has not polled for that time."""

STUCK_CHANCE: Final = 0.02
"""The probability that a member stops after a poll; its records are released when its time is up."""
LATE_CHANCE: Final = 0.17
"""How often it is that, or takes so long that its lock may end, so that others get what it has."""
LATE_MS_MAX: Final = 8_000

RELEASE_ABOVE: Final = 0.9
REJECT_ABOVE: Final = 0.87
"""Above which draws a record is released or rejected; others are accepted."""


class _StuckError(Exception):
    """A member does nothing any more."""


class _TimedConsumer(ShareConsumer):
    """Knows when the fetch was sent by which it got a record."""

    def __init__(self, *given: Any, now_s: Callable[[], float], **options: Any) -> None:
        super().__init__(*given, **options)
        self._now_s = now_s
        self._sent_s: dict[int, float] = {}
        self._asked_s: dict[tuple[TopicPartition, int], float] = {}

    def asked_s(self, record: ShareRecord) -> float:
        """When a record was asked for that `poll` returned."""
        return self._asked_s[record.topic_partition, record.offset]

    async def _fetch_in(self, session: ShareSession, places: frozenset[Place]) -> bool:
        self._sent_s[session.node_id] = self._now_s()
        return await super()._fetch_in(session, places)

    def _take(self, session: ShareSession, place: Place, answer: PartitionData) -> bool:
        where, sent_s = self._named(place), self._sent_s[session.node_id]
        for run in answer.acquired_records:
            self._asked_s.update(((where, n), sent_s) for n in range(run.first_offset, run.last_offset + 1))
        return super()._take(session, place, answer)


class ShareWorker(Client):
    """Works on what its group has to do, and writes down what came and what it was told."""

    _generation = 0

    def __init__(self, name: str, cluster: SimulatedCluster, seen: Seen, history: ShareHistory) -> None:
        super().__init__(name, cluster, seen)
        self._history = history
        self._witness: ShareWitness

    async def work(self) -> None:
        """One member."""
        self._generation += 1
        self._witness = ShareWitness(f"{self.name}.{self._generation}", self._history, self._loop.time)
        now_s = self._loop.time
        consumer = _TimedConsumer(self._options, OPTIONS, now_s=now_s, on_acknowledged=self._answered, io=self._io)
        try:
            await consumer.start()
            consumer.subscribe([PLAIN])
            while not self.is_stopping:
                await self._turn(consumer)
        except _StuckError:
            return
        finally:
            self._witness.goes()
        with suppress(ClientError):
            await consumer.close()

    async def _turn(self, consumer: _TimedConsumer) -> None:
        member = self._witness.member
        records = await consumer.poll(timeout_ms=POLL_MS)
        for record in records:
            self._witness.came(record, consumer.asked_s(record))
            self._tell(f"{member}: {record.topic}-{record.partition} {record.offset}, time {record.delivery_count}")
        if records and not self.is_stopping:
            draw = self._rng.random()
            if draw < STUCK_CHANCE:
                self._tell(f"{member} is stuck")
                raise _StuckError
            if draw < LATE_CHANCE:
                await self._io.pause(self._rng.randbelow(LATE_MS_MAX))
        for record in records:
            kind = self._kind(record)
            consumer.acknowledge(record, kind)
            self._witness.says(record, kind)
        if records:
            await consumer.commit()

    def _kind(self, record: ShareRecord) -> AcknowledgeType:
        draw = self._rng.random()
        if draw > RELEASE_ABOVE and not self.is_stopping and record.delivery_count < DELIVERIES_MAX // 2:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if draw > REJECT_ABOVE else AcknowledgeType.ACCEPT

    def _answered(self, where: TopicPartition, offsets: list[int], error: ClientError | None) -> None:
        self._witness.answered(where, offsets, error)
        self._tell(f"{self._witness.member}: {where} {offsets[0]} to {offsets[-1]}: {error or 'ok'}")
