"""Members of consumer groups, of three client libraries, with one face."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from queue import Queue
from threading import Thread
from typing import Any
from uuid import uuid4

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka.errors import KafkaError

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S, Member

PARTITIONS = 4


def new_group() -> str:
    """The name of a group of the test's own."""
    return f"group-{uuid4().hex[:8]}"


def fill(broker: BrokerProcess, topic: str, count: int, first: int = 0) -> set[bytes]:
    """Spread numbered records over the partitions of a topic; their values."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    values = [b"%d" % number for number in range(first, first + count)]
    for index, value in enumerate(values):
        producer.produce(topic, value=value, partition=index % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return set(values)


class ConfluentMember:
    """librdkafka's consumer. A setting of None is not made at all."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **config: object) -> None:
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 20000,
            **config,
        }
        self.consumer = Consumer({name: value for name, value in settings.items() if value is not None})
        self.rebalances = 0
        self.consumer.subscribe([topic], on_assign=self._on_assign)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def poll(self) -> list[bytes]:
        messages = self.consumer.consume(100, 0.1)
        for message in messages:
            assert message.error() is None, message.error()
        return [message.value() for message in messages]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self, metadata: str = "") -> None:
        offsets = [
            TopicPartition(each.topic, each.partition, each.offset, metadata)
            for each in self.consumer.position(self.consumer.assignment())
            if each.offset >= 0  # it has read something there
        ]
        if offsets:
            self.consumer.commit(offsets=offsets, asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class AssignmentCounter(ConsumerRebalanceListener, AioRebalanceListener):
    """Counts assignments, for kafka-python and for aiokafka."""

    def __init__(self) -> None:
        self.count = 0

    def on_partitions_revoked(self, revoked: object) -> None:
        pass

    def on_partitions_assigned(self, assigned: object) -> None:
        self.count += 1


class PythonMember:
    """kafka-python's consumer, polled all the time by a thread of its own.

    Two of them that are polled in turn by one thread never come to rest with the cooperative assignor, against Apache
    Kafka either: each poll waits for a rebalance that needs the other's poll.
    """

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **config: object) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            **{
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "heartbeat_interval_ms": 300,
                "session_timeout_ms": 20000,
                "fetch_max_wait_ms": 100,
                **config,
            },
        )
        self.listener = AssignmentCounter()
        self.consumer.subscribe([topic], listener=self.listener)
        # kafka-python joins without waiting for the metadata of what it has subscribed to, joins again when that comes,
        # and forgets the second assignment when the poll that began the join ends before it. What it knew before it
        # subscribed does not count. So it gets the metadata between the two.
        assert self.consumer.partitions_for_topic(topic)
        self._arrived: Queue[list[bytes]] = Queue()
        self._orders: Queue[tuple[Callable[[], object], Future[object]]] = Queue()
        self._open = True
        self._thread = Thread(target=self._poll_until_closed, daemon=True)
        self._thread.start()

    def _poll_until_closed(self) -> None:
        while self._open:
            while not self._orders.empty():
                order, done = self._orders.get()
                try:
                    done.set_result(order())
                except KafkaError as failure:
                    done.set_exception(failure)
            if self._open:
                batches = self.consumer.poll(timeout_ms=200)
                self._arrived.put([record.value for records in batches.values() for record in records])

    def _between_polls(self, order: Callable[[], object]) -> None:
        done: Future[object] = Future()
        self._orders.put((order, done))
        done.result(PATIENCE_S)

    @property
    def rebalances(self) -> int:
        return self.listener.count

    def poll(self) -> list[bytes]:
        return self._arrived.get(timeout=PATIENCE_S)

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self, metadata: str = "") -> None:
        def commit() -> None:
            positions = {each: self.consumer.position(each) for each in self.consumer.assignment()}
            self.consumer.commit({each: OffsetAndMetadata(at, metadata, -1) for each, at in positions.items()})

        self._between_polls(commit)

    def close(self) -> None:
        def close() -> None:
            self._open = False
            self.consumer.close()

        self._between_polls(close)
        self._thread.join()


class AioMember:
    """aiokafka's consumer, on a loop in a thread of its own, so that its heartbeats go on while others are polled."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **config: object) -> None:
        self.listener = AssignmentCounter()
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=broker.bootstrap,
                group_id=group,
                **{
                    "auto_offset_reset": "earliest",
                    "partition_assignment_strategy": [RangePartitionAssignor],
                    "enable_auto_commit": False,
                    "heartbeat_interval_ms": 300,
                    "session_timeout_ms": 20000,
                    **config,
                },
            )
            consumer.subscribe([topic], listener=self.listener)
            await consumer.start()
            return consumer

        # It has joined when `start` returns, which takes the others' being polled meanwhile.
        self._started = asyncio.run_coroutine_threadsafe(start(), self.loop)

    @property
    def consumer(self) -> AIOKafkaConsumer:
        """The consumer, once it has joined."""
        return self._started.result(PATIENCE_S)

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def poll(self) -> list[bytes]:
        if not self._started.done():
            return []
        batches = self._run(self.consumer.getmany(timeout_ms=100))
        return [record.value for records in batches.values() for record in records]

    def assignment(self) -> set[int]:
        if not self._started.done():
            return set()
        return {each.partition for each in self.consumer.assignment()}

    @property
    def rebalances(self) -> int:
        return self.listener.count

    def commit(self, metadata: str = "") -> None:
        async def commit() -> None:
            positions = {each: await self.consumer.position(each) for each in self.consumer.assignment()}
            await self.consumer.commit({each: (at, metadata) for each, at in positions.items()})

        self._run(commit())

    def close(self) -> None:
        self._run(self.consumer.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def poll_until(members: Sequence[Member], is_enough: Callable[[], bool], got: list[bytes]) -> None:
    """Poll the members in turn until something holds, collecting what they read."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_enough():
        assert time.monotonic() < deadline, [member.assignment() for member in members]
        for member in members:
            got.extend(member.poll())


def read_all(members: Sequence[Member], expected: set[bytes]) -> list[bytes]:
    got: list[bytes] = []
    poll_until(members, lambda: set(got) >= expected, got)
    return got


def shared_by(members: Sequence[Member]) -> Callable[[], bool]:
    """Whether every member has work and together they have all of it, each partition once."""

    def holds() -> bool:
        parts = [member.assignment() for member in members]
        return all(parts) and sorted(index for part in parts for index in part) == list(range(PARTITIONS))

    return holds
