"""Clients of a simulated cluster: real producers and consumers, which write down what they were told.

producers   idempotent, acks=all, values that nobody else sends ----> plain --+--> reader: everything, in order
                                                                              +--> group "readers": commits
                                                                              +--> copiers, in transactions --> copied
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, GroupProtocol, OffsetReset
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.errors import ClientError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.options import ClientOptions
from ottla.client.producing.delivery import Delivery
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition
from ottla.simulation.history import Commit, Outcome, Partition, Poll, Send
from ottla.simulation.whole.clock import HostClock
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.process import Process

logger = logging.getLogger(__name__)

PLAIN: Final = "plain"
COPIED: Final = "copied"

PARTITIONS: Final = 2
"""The number of partitions of both topics."""

READERS: Final = "readers"
COPIERS: Final = "copiers"

AGAIN_MS: Final = 500
"""After what time a client that failed is made anew."""

POLL_MS_MAX: Final = 15_000
"""The maximum time between polls of a member, and so the time that a rebalance waits for it."""

SEND_AGAIN_MS: Final = 400
"""The maximum pause of a producer between two records."""

REQUEST_TIMEOUT_MS: Final = 4_000

ASK_CHANCE: Final = 0.3
"""The probability that a member reads the committed offsets after a poll; it also does so when it starts."""

OPTIONS: Final = ConsumerOptions(
    auto_offset_reset=OffsetReset.EARLIEST, auto_commit=False, fetch_max_wait_ms=200, max_poll_interval_ms=POLL_MS_MAX
)
MEMBER: Final = replace(OPTIONS, session_timeout_ms=6_000, heartbeat_interval_ms=1_000)
CONSUMER_MEMBER: Final = replace(OPTIONS, group_protocol=GroupProtocol.CONSUMER)


class Sending(Struct):
    """A record on its way."""

    producer: str
    number: int
    partition: Partition
    value: str
    invoked: float
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    completed: float = 0

    def settle(self, delivery: Delivery, now: float) -> None:
        """Its fate is known, unless it failed: then it may be there or not."""
        if delivery.error is None:
            self.outcome, self.offset, self.completed = Outcome.OK, delivery.result().offset, now

    @property
    def send(self) -> Send:
        """For a history."""
        return Send(
            self.producer,
            self.number,
            self.partition,
            self.value,
            self.outcome,
            offset=self.offset,
            invoked=self.invoked,
            completed=self.completed,
        )


class Seen:
    """What all clients saw."""

    def __init__(self) -> None:
        self.sends: list[Sending] = []
        self.polls: list[Poll] = []
        self.commits: list[Commit] = []
        self.copies = 0
        """Transactions that were committed."""
        self.failures = 0
        """How often a client was told that something could not be done."""


class Client(ABC):
    """One process with one client. `work` is done over and over, until it is told to stop."""

    def __init__(self, name: str, cluster: SimulatedCluster, seen: Seen) -> None:
        self.name = name
        self.process = Process(name, cluster.new_client_host())
        self.is_stopping = False
        self._loop = cluster.loop
        self._rng = cluster.draw_rng()
        self._seen = seen
        self._tell = cluster.trace.tell
        self._io = AsyncioIo(HostClock(cluster.loop), cluster.draw_rng())
        self._options = ClientOptions.of(
            cluster.bootstrap,
            client_id=name,
            connect_timeout_ms=2_000,
            handshake_timeout_ms=2_000,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            api_timeout_ms=15_000,
            metadata_max_age_ms=10_000,
        )
        self.ended: asyncio.Future[None] = cluster.loop.create_future()

    def start(self) -> None:
        """Begin; `ended` is set at the end."""
        self.process.kept.append(self._loop.spawn(self.process, self._run()))

    async def _run(self) -> None:
        while not self.is_stopping:
            try:
                await self.work()
            except ClientError as error:
                self._seen.failures += 1
                self._tell(f"{self.name}: {type(error).__name__}: {error}")
            except Exception:
                if self._loop.is_closed():  # it is collected in the middle of something
                    raise
                logger.exception("the client failed")  # which ends the run as a finding
            await self._io.pause(AGAIN_MS)
        self._loop.in_world(0.0, self.ended.set_result, None)

    @abstractmethod
    async def work(self) -> None:
        """Works until it is stopped, or fails."""

    def _consumer(self, options: ConsumerOptions) -> Consumer:
        return Consumer(self._options, options, io=self._io)

    async def _closed(self, closing: Awaitable[None]) -> None:
        with suppress(ClientError):
            await closing


class Sender(Client):
    """Sends values to all partitions; a new producer takes over when one fails for good."""

    _generation = 0

    async def work(self) -> None:
        """One producer."""
        self._generation += 1
        name = f"{self.name}.{self._generation}"
        numbers = [0] * PARTITIONS
        options = ProducerOptions(delivery_timeout_ms=12_000, max_block_ms=5_000, linger_ms=0)
        producer = Producer(self._options, options, io=self._io)
        try:
            await producer.start()
            while not self.is_stopping:
                number = self._rng.randbelow(PARTITIONS)
                value = f"{name}/{number}/{numbers[number]}"
                sending = Sending(name, numbers[number], (PLAIN, number), value, self._loop.time())
                delivery = await producer.send(PLAIN, value.encode(), partition=number)
                numbers[number] += 1
                self._seen.sends.append(sending)
                delivery.add_done_callback(lambda done, sending=sending: self._settled(sending, done))  # type: ignore[misc]
                await self._io.pause(self._rng.randbelow(SEND_AGAIN_MS))
        finally:
            await self._closed(producer.close())

    def _settled(self, sending: Sending, delivery: Delivery) -> None:
        sending.settle(delivery, self._loop.time())
        told = f"at {sending.offset}" if delivery.error is None else f"{delivery.error}"
        self._tell(f"{sending.value}: {told}")


class Reader(Client):
    """Reads a topic from its beginning to wherever it ends, in one go."""

    topic = PLAIN
    isolation = IsolationLevel.READ_UNCOMMITTED
    _generation = 0

    async def work(self) -> None:
        """One consumer."""
        self._generation += 1
        name = f"{self.name}.{self._generation}"
        consumer = self._consumer(replace(OPTIONS, isolation=self.isolation))
        try:
            await consumer.start()
            consumer.assign([TopicPartition(self.topic, number) for number in range(PARTITIONS)])
            while not self.is_stopping:
                invoked = self._loop.time()
                records = await consumer.poll(timeout_ms=500)
                for number in range(PARTITIONS):
                    found = [record for record in records if record.partition == number]
                    if found:
                        self._read(name, number, found, invoked)
        finally:
            await self._closed(consumer.close())

    def _read(self, name: str, number: int, records: list[ConsumerRecord], invoked: float) -> None:
        pairs = tuple((record.offset, (record.value or b"").decode()) for record in records)
        self._seen.polls.append(Poll(name, (self.topic, number), pairs, invoked=invoked, completed=self._loop.time()))


class Member(Client):
    """Reads its share of a group's partitions and commits how far it came; asks now and then how far that is."""

    def __init__(
        self,
        name: str,
        cluster: SimulatedCluster,
        seen: Seen,
        protocol: GroupProtocol = GroupProtocol.CLASSIC,
    ) -> None:
        super().__init__(name, cluster, seen)
        self._protocol = protocol

    async def work(self) -> None:
        """One member."""
        is_classic = self._protocol is GroupProtocol.CLASSIC
        consumer = self._consumer(replace(MEMBER if is_classic else CONSUMER_MEMBER, group_id=READERS))
        try:
            await consumer.start()
            await self._ask(consumer)
            consumer.subscribe([PLAIN])
            while not self.is_stopping:
                for record in await consumer.poll(timeout_ms=300):
                    await self._commit(consumer, record)
                if self._rng.random() < ASK_CHANCE:
                    await self._ask(consumer)
        finally:
            await self._closed(consumer.close())

    async def _commit(self, consumer: Consumer, record: ConsumerRecord) -> None:
        if self._rng.random() < 0.8 or record.topic_partition not in consumer.assignment():
            return
        invoked, partition, offset = self._loop.time(), (record.topic, record.partition), record.offset + 1
        outcome = Outcome.UNKNOWN
        try:
            await consumer.commit({record.topic_partition: offset})
            if self._loop.time() - invoked < REQUEST_TIMEOUT_MS / 1000:  # else what was sent first may yet arrive
                outcome = Outcome.OK
        finally:
            self._seen.commits.append(
                Commit(READERS, partition, offset, outcome, invoked=invoked, completed=self._loop.time())
            )

    async def _ask(self, consumer: Consumer) -> None:
        """What the group has committed, of all partitions."""
        invoked, places = self._loop.time(), [TopicPartition(PLAIN, number) for number in range(PARTITIONS)]
        committed = await consumer.committed(places)
        self._seen.commits += [
            Commit(
                READERS,
                (place.topic, place.partition),
                committed.get(place, -1),
                Outcome.OK,
                is_fetch=True,
                invoked=invoked,
                completed=self._loop.time(),
            )
            for place in places
        ]


class Auditor(Member):
    """Asks once how far the group of the members came."""

    async def work(self) -> None:
        """One consumer."""
        consumer = self._consumer(replace(OPTIONS, group_id=READERS))
        try:
            await consumer.start()
            await self._ask(consumer)
            self.is_stopping = True
        finally:
            await self._closed(consumer.close())


class Copier(Client):
    """Copies what its group reads, in transactions: values and offsets together or not at all."""

    async def work(self) -> None:
        """One consumer and one producer."""
        consumer = self._consumer(replace(MEMBER, group_id=COPIERS, isolation=IsolationLevel.READ_COMMITTED))
        options = ProducerOptions(
            transactional_id=self.name,
            transaction_timeout_ms=10_000,
            delivery_timeout_ms=12_000,
            max_block_ms=15_000,
            linger_ms=0,
        )
        producer = Producer(self._options, options, io=self._io)
        try:
            await producer.start()
            await producer.init_transactions()
            await consumer.start()
            consumer.subscribe([PLAIN])
            while not self.is_stopping:
                records = await consumer.poll(max_records=20, timeout_ms=300)
                if records:
                    await self._copy(consumer, producer, records)
        finally:
            await self._closed(producer.close(deliver=False))
            await self._closed(consumer.close())

    async def _copy(self, consumer: Consumer, producer: Producer, records: list[ConsumerRecord]) -> None:
        async with producer.transaction():
            for record in records:
                await producer.send(COPIED, record.value, partition=record.partition)
            offsets: dict[TopicPartition, int] = {}
            for record in records:
                offsets[record.topic_partition] = record.offset + 1
            await producer.send_offsets_to_transaction(offsets, COPIERS, consumer.membership)
        self._seen.copies += 1
        self._tell(f"{self.name}: copied up to {', '.join(f'{name} {offset}' for name, offset in offsets.items())}")
