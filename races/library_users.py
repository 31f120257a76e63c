"""Producers and consumers of each client library, on topics that come and go under them."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError as KafkaPythonError

from ottla.client.consuming.consumer import Consumer as OttlaConsumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.errors import ClientError
from ottla.client.options import ClientOptions
from ottla.client.producing.delivery import Delivery
from ottla.client.producing.producer import Producer as OttlaProducer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition as OttlaPartition
from races.history import Append, Read
from races.keys import key_of
from races.stage import KEPT, LIVING, TRIMMED, Stage
from workload.payload import Payload, read_value, value_of
from workload.worker import Worker

TICK_S = 0.03
RECORDS_PER_TICK = 3
UNDECIDED_MAX = 200
VALUE_BYTES = 150
COMMIT_EVERY_MS = 300
SESSION_MS = 6_000
PARTITIONS = 2
"""Every topic has one, most have the second."""
REQUEST_TIMEOUT_MS = 20_000
DECIDED_WITHIN_S = 2 * REQUEST_TIMEOUT_MS / 1000
CLOSED_WITHIN_S = 5.0
READ_S = 4.0
"""How long a consumer reads what it was given before it begins anew."""


class LibraryUser(Worker):
    """One thread with one client after the other."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(name)
        self.stage = stage
        self.rng = Random(f"{stage.round_number}/{name}")
        self.loop: asyncio.AbstractEventLoop | None = None

    def run_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a client that needs an event loop."""
        with asyncio.Runner() as runner:
            self.loop = runner.get_loop()
            runner.run(work)

    def where(self) -> str:
        """What the tasks of its event loop wait for, when it has one."""
        if self.loop is None:
            return "no event loop"
        tasks = asyncio.all_tasks(self.loop)
        return "; ".join(" > ".join(_frames(task)) for task in tasks)


def _frames(task: asyncio.Task[Any]) -> list[str]:
    found: list[str] = []
    work: Any = task.get_coro()
    while (frame := getattr(work, "cr_frame", None)) is not None:
        found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        work = getattr(work, "cr_await", None)
    return found


class LibraryProducer(LibraryUser):
    """Sends numbered records to topics that are there at the moment, idempotent."""

    def __init__(self, stage: Stage, library: str) -> None:
        super().__init__(stage, f"{library}-producer")
        self.library = library
        self._undecided: set[Append] = set()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Under a new name, with numbers from 0 on: what the last client left undecided may come in any order."""
        self.producer_name = self.stage.name(self.library)
        self._numbers = count()

    def next_record(self) -> tuple[Append, bytes, bytes]:
        """What to send next: with its key and its value."""
        topic = self.rng.choice(tuple(self.stage.lives) or KEPT)
        if topic not in LIVING + KEPT + TRIMMED:
            topic = KEPT[0]
        number = next(self._numbers)
        append = self.stage.send(topic, self.rng.randrange(PARTITIONS), self.producer_name, number)
        payload = Payload(self.producer_name, number)
        return append, key_of(payload), value_of(*payload, VALUE_BYTES)

    def acknowledged(self, append: Append, offset: int | None) -> None:
        """The library says where it lies."""
        append.offset, append.answered_at = -1 if offset is None else offset, self.stage.now()

    def stalled(self, undecided: Iterable[Append]) -> None:
        """These records are not decided long after the library was to give up on them."""
        left = [
            f"{each.topic}-{each.partition} since {self.stage.now() - each.asked_at:.0f} s"
            for each in self.due(undecided)
        ]
        if left:
            self.stage.history.stalls.append(f"{self.name}: {len(left)} records are undecided: {', '.join(left[:5])}")

    def due(self, undecided: Iterable[Append]) -> list[Append]:
        """Those of topics that are there: what a library does with others is its own affair."""
        lives = self.stage.lives
        return [
            each
            for each in undecided
            if (life := lives.get(each.topic)) is not None
            and life.created_at < each.asked_at
            and each.partition < life.partition_count
        ]


class ConfluentRaceProducer(LibraryProducer):
    """librdkafka."""

    def run(self) -> None:
        """Until the round ends."""
        while not self.is_stopping:
            producer = Producer(
                {
                    "bootstrap.servers": self.stage.bootstrap,
                    "enable.idempotence": True,
                    "linger.ms": 1,
                    "delivery.timeout.ms": REQUEST_TIMEOUT_MS,
                    "reconnect.backoff.max.ms": 200,
                    "topic.metadata.refresh.interval.ms": 1000,
                    "log_level": 0,
                }
            )
            with suppress(KafkaException):  # fatal: the next client begins anew
                while not self.is_stopping:
                    if len(producer) < UNDECIDED_MAX:
                        for _ in range(RECORDS_PER_TICK):
                            self._produce(producer)
                    producer.poll(TICK_S)
            if producer.flush(DECIDED_WITHIN_S):
                self.stalled(self._undecided)
            self._undecided = set()
            self.begin_anew()

    def _produce(self, producer: Producer) -> None:
        append, key, value = self.next_record()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._undecided.discard(append)
            if error is None:
                self.acknowledged(append, message.offset())

        self._undecided.add(append)
        producer.produce(append.topic, value=value, key=key, partition=append.partition, on_delivery=delivered)


class KafkaPythonRaceProducer(LibraryProducer):
    """kafka-python."""

    def run(self) -> None:
        """Until the round ends."""
        while not self.is_stopping:
            try:
                producer = KafkaProducer(
                    bootstrap_servers=self.stage.bootstrap,
                    acks="all",
                    max_block_ms=2_000,
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                    delivery_timeout_ms=REQUEST_TIMEOUT_MS + 1000,
                    reconnect_backoff_max_ms=200,
                )
            except KafkaPythonError:
                time.sleep(TICK_S)
                continue
            undecided: dict[Any, Append] = {}
            while not self.is_stopping:
                undecided = {future: append for future, append in undecided.items() if not future.is_done}
                if len(undecided) < UNDECIDED_MAX:
                    try:
                        undecided.update(self._produce(producer) for _ in range(RECORDS_PER_TICK))
                    except ValueError:
                        pass  # the topic was made again with fewer partitions
                    except KafkaPythonError:
                        break
                time.sleep(TICK_S)
            until = time.monotonic() + DECIDED_WITHIN_S
            while self.due(_undecided(undecided)) and time.monotonic() < until:
                time.sleep(TICK_S)
            self.stalled(_undecided(undecided))
            # Its close waits for the records of topics that are gone, and gives up before it has closed anything.
            producer._sender.force_close()
            producer._sender.join(DECIDED_WITHIN_S)
            with suppress(KafkaPythonError):
                producer.close(timeout=1)
            self.begin_anew()

    def _produce(self, producer: KafkaProducer) -> tuple[Any, Append]:
        append, key, value = self.next_record()
        future = producer.send(append.topic, value=value, key=key, partition=append.partition)
        future.add_callback(lambda told: self.acknowledged(append, told.offset))
        return future, append


def _undecided(futures: dict[Any, Append]) -> list[Append]:
    return [append for future, append in futures.items() if not future.is_done]


class AiokafkaRaceProducer(LibraryProducer):
    """aiokafka."""

    def run(self) -> None:
        """Until the round ends."""
        while not self.is_stopping:
            try:
                self.run_loop(self._live())
            except AiokafkaError:
                time.sleep(TICK_S)
            self.begin_anew()

    async def _live(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.stage.bootstrap,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=1000,
        )
        await producer.start()
        undecided: dict[asyncio.Future[Any], Append] = {}
        try:
            while not self.is_stopping:
                if len(undecided) < UNDECIDED_MAX:
                    for _ in range(RECORDS_PER_TICK):
                        await self._produce(producer, undecided)
                await asyncio.sleep(TICK_S)
        finally:
            try:
                await asyncio.wait_for(producer.stop(), DECIDED_WITHIN_S)
            except TimeoutError:
                self.stalled(undecided.values())

    async def _produce(self, producer: AIOKafkaProducer, undecided: dict[asyncio.Future[Any], Append]) -> None:
        append, key, value = self.next_record()
        # A partition its metadata does not know is an assertion of its own.
        if append.partition not in (await producer.partitions_for(append.topic) or ()):
            return
        future = await producer.send(append.topic, value=value, key=key, partition=append.partition)
        undecided[future] = append

        def delivered(done: asyncio.Future[Any]) -> None:
            undecided.pop(done, None)
            if not done.cancelled() and done.exception() is None:
                self.acknowledged(append, done.result().offset)

        future.add_done_callback(delivered)


class OttlaRaceProducer(LibraryProducer):
    """Ottla's own client."""

    def run(self) -> None:
        """Until the round ends."""
        while not self.is_stopping:
            try:
                self.run_loop(self._live())
            except ClientError:
                time.sleep(TICK_S)
            self.begin_anew()

    async def _live(self) -> None:
        options = ProducerOptions(delivery_timeout_ms=REQUEST_TIMEOUT_MS)
        producer = OttlaProducer(ClientOptions.of(self.stage.bootstrap), options)
        await producer.start()
        undecided: set[asyncio.Task[None]] = set()
        try:
            while not self.is_stopping:
                if len(undecided) < UNDECIDED_MAX:
                    for _ in range(RECORDS_PER_TICK):
                        task = asyncio.ensure_future(await self._produce(producer))
                        undecided.add(task)
                        task.add_done_callback(undecided.discard)
                await asyncio.sleep(TICK_S)
            if undecided:
                await asyncio.wait(undecided, timeout=DECIDED_WITHIN_S)
            if undecided:
                self.stalled(self._undecided)
        finally:
            await producer.close(deliver=False)

    async def _produce(self, producer: OttlaProducer) -> Coroutine[Any, Any, None]:
        """Give it a record, in order; what is left is to wait for its fate."""
        append, key, value = self.next_record()
        delivery = None
        with suppress(ClientError):
            delivery = await producer.send(append.topic, value, key=key, partition=append.partition)
        return self._decided(append, delivery)

    async def _decided(self, append: Append, delivery: Delivery | None) -> None:
        if delivery is None:
            return
        self._undecided.add(append)
        with suppress(ClientError):
            self.acknowledged(append, (await delivery).offset)
        self._undecided.discard(append)


class LibraryConsumer(LibraryUser):
    """Reads everything there is from the beginning, again and again; in the end what the kept topics hold."""

    def __init__(self, stage: Stage, library: str) -> None:
        super().__init__(stage, f"{library}-consumer")
        self.library = library
        self.ends: dict[tuple[str, int], int] | None = None
        """Where the kept topics end: known when everybody else is done."""
        self._positions: dict[tuple[str, int], int] = {}

    def run(self) -> None:
        """Until the round ends, and then once more to the very end."""
        while not self.is_stopping:
            wanted = [topic for topic in self.stage.lives if topic in LIVING + KEPT + TRIMMED]
            chosen = self.rng.sample(wanted, min(len(wanted), 3))
            if not chosen:
                time.sleep(TICK_S)
                continue
            until = time.monotonic() + READ_S
            group = self.rng.choice((None, group_of(self.library)))
            partitions = [(topic, partition) for topic in chosen for partition in range(PARTITIONS)]
            self._begin(partitions, group, partial(self._is_over, until))
        if self.ends is None:
            return
        until = time.monotonic() + DECIDED_WITHIN_S
        while not self._has_read_all() and time.monotonic() < until:
            self._begin(list(self.ends), None, lambda: self._has_read_all() or time.monotonic() > until)
        if not self._has_read_all():
            left = {place: (self._positions.get(place, 0), end) for place, end in self.ends.items()}
            self.stage.history.stalls.append(f"{self.name}: positions and ends after {DECIDED_WITHIN_S} s: {left}")

    def _is_over(self, until: float) -> bool:
        return self.is_stopping or time.monotonic() > until

    def _has_read_all(self) -> bool:
        assert self.ends is not None
        return all(self._positions.get(place, 0) >= end for place, end in self.ends.items())

    def _begin(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        self._positions = {}
        self._began_at = self.stage.now()
        self.read(partitions, group, is_over)

    def delivered(self, topic: str, partition: int, records: Iterable[tuple[int, bytes | None]]) -> None:
        """The library gave these; it may have fetched them at any time since it began."""
        found = [(offset, read_value(value)) for offset, value in records]
        if found:
            self.stage.history.reads.append(Read(topic, partition, self._began_at, self.stage.now(), records=found))
            self._positions[topic, partition] = found[-1][0] + 1

    @abstractmethod
    def read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        """Read from the beginning until it is over, or the library gives up.

        In a group what the group has of the same topics is read, from where it committed.
        """


class ConfluentRaceConsumer(LibraryConsumer):
    """librdkafka."""

    def read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.stage.bootstrap,
                "group.id": group or "never-commits",
                "enable.auto.commit": group is not None,
                "auto.commit.interval.ms": COMMIT_EVERY_MS,
                "session.timeout.ms": SESSION_MS,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        if group is None:
            consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in partitions])
        else:
            consumer.subscribe(sorted({topic for topic, _ in partitions}))
        while not is_over():
            found: dict[tuple[str, int], list[tuple[int, bytes | None]]] = {}
            for message in consumer.consume(200, 0.1):
                if message.error() is None:
                    place = message.topic(), message.partition()
                    found.setdefault(place, []).append((message.offset(), message.value()))
            for (topic, partition), records in found.items():
                self.delivered(topic, partition, records)
        consumer.close()


class KafkaPythonRaceConsumer(LibraryConsumer):
    """kafka-python."""

    def read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        try:
            consumer = KafkaConsumer(
                bootstrap_servers=self.stage.bootstrap,
                group_id=group,
                enable_auto_commit=group is not None,
                auto_commit_interval_ms=COMMIT_EVERY_MS,
                session_timeout_ms=SESSION_MS,
                auto_offset_reset="earliest",
                reconnect_backoff_max_ms=200,
            )
        except KafkaPythonError:
            time.sleep(TICK_S)
            return
        try:
            if group is None:
                consumer.assign([KafkaPythonPartition(*each) for each in partitions])
            else:
                consumer.subscribe(sorted({topic for topic, _ in partitions}))
            while not is_over():
                for place, records in consumer.poll(timeout_ms=100, max_records=500).items():
                    self.delivered(place.topic, place.partition, [(each.offset, each.value) for each in records])
        except KafkaPythonError:
            pass  # the next one begins anew
        finally:
            consumer.close()


class AiokafkaRaceConsumer(LibraryConsumer):
    """aiokafka."""

    def read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        with suppress(AiokafkaError):
            self.run_loop(self._read(partitions, group, is_over))

    async def _read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.stage.bootstrap,
            group_id=group,
            enable_auto_commit=group is not None,
            auto_commit_interval_ms=COMMIT_EVERY_MS,
            session_timeout_ms=SESSION_MS,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
        )
        try:
            await consumer.start()
            if group is None:
                consumer.assign([AiokafkaPartition(*each) for each in partitions])
            else:
                # A commit to a topic that is gone it tries for ever, and gives no records meanwhile.
                consumer.subscribe(sorted({topic for topic, _ in partitions if topic not in LIVING} | {KEPT[0]}))
            while not is_over():
                for place, records in (await consumer.getmany(timeout_ms=100)).items():
                    self.delivered(place.topic, place.partition, [(each.offset, each.value) for each in records])
        finally:
            # It commits once more, for ever when its coordinator has to be looked for again; and a
            # fetch that waits to be tried again makes its own stop end as cancelled.
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(consumer.stop(), CLOSED_WITHIN_S)


class OttlaRaceConsumer(LibraryConsumer):
    """Ottla's own client."""

    def read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        with suppress(ClientError):
            self.run_loop(self._read(partitions, group, is_over))

    async def _read(self, partitions: list[tuple[str, int]], group: str | None, is_over: Callable[[], bool]) -> None:
        options = ConsumerOptions(
            group_id=group,
            auto_offset_reset=OffsetReset.EARLIEST,
            auto_commit=group is not None,
            auto_commit_interval_ms=COMMIT_EVERY_MS,
            session_timeout_ms=SESSION_MS,
        )
        async with OttlaConsumer(ClientOptions.of(self.stage.bootstrap), options) as consumer:
            if group is None:
                consumer.assign([OttlaPartition(*each) for each in partitions])
            else:
                consumer.subscribe(sorted({topic for topic, _ in partitions}))
            while not is_over():
                for record in await consumer.poll(timeout_ms=100):
                    self.delivered(record.topic, record.partition, [(record.offset, record.value)])


PRODUCERS: dict[str, Callable[[Stage, str], LibraryProducer]] = {
    "confluent-kafka": ConfluentRaceProducer,
    "kafka-python": KafkaPythonRaceProducer,
    "aiokafka": AiokafkaRaceProducer,
    "ottla": OttlaRaceProducer,
}
CONSUMERS: dict[str, Callable[[Stage, str], LibraryConsumer]] = {
    "confluent-kafka": ConfluentRaceConsumer,
    "kafka-python": KafkaPythonRaceConsumer,
    "aiokafka": AiokafkaRaceConsumer,
    "ottla": OttlaRaceConsumer,
}


def group_of(library: str) -> str:
    """The group in which a library reads, now and then."""
    return f"library-{library}"
