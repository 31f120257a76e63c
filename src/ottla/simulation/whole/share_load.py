"""Members of a share group in a simulated cluster: they accept most records, release or reject some, and die."""

from contextlib import suppress
from typing import Final

from ottla.client.consuming.share_consumer import ShareConsumer
from ottla.client.consuming.share_options import AcknowledgementMode, AcknowledgeType, ShareConsumerOptions
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.errors import ClientError
from ottla.model.topic_partition import TopicPartition
from ottla.simulation.share_history import ShareHistory
from ottla.simulation.share_witness import ShareWitness
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.load import PLAIN, REQUEST_TIMEOUT_MS, Client, Seen

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

ASKED_S: Final = (REQUEST_TIMEOUT_MS + FETCH_WAIT_MS) / 1000
"""How long before a poll the fetch can have been sent of which it returns records: its answer was waited for."""

OPTIONS: Final = ShareConsumerOptions(
    WORKERS,
    acknowledgement_mode=AcknowledgementMode.EXPLICIT,
    fetch_max_wait_ms=FETCH_WAIT_MS,
    max_poll_records=20,
    max_poll_interval_ms=10_000,
)
"""A member that is stuck keeps its partitions until it has not polled for that time."""

STUCK_CHANCE: Final = 0.02
"""How often a member says no more after a poll: what it holds is freed when its time is up."""
LATE_CHANCE: Final = 0.17
"""How often it is that, or takes so long that its lock may end, so that others get what it has."""
LATE_MS_MAX: Final = 8_000

RELEASE_ABOVE: Final = 0.9
REJECT_ABOVE: Final = 0.87
"""Above which draws a record is released or rejected; others are accepted."""


class _StuckError(Exception):
    """A member does nothing any more."""


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
        consumer = ShareConsumer(self._options, OPTIONS, on_acknowledged=self._answered, io=self._io)
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

    async def _turn(self, consumer: ShareConsumer) -> None:
        member, asked_s = self._witness.member, self._loop.time() - ASKED_S
        records = await consumer.poll(timeout_ms=POLL_MS)
        for record in records:
            self._witness.came(record, asked_s)
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
