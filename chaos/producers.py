"""Producers that go on whatever happens to the broker, with acks=all and idempotence, from two client libraries."""

import asyncio
from collections import deque
from contextlib import suppress
from itertools import count

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError
from confluent_kafka import KafkaError, Message, Producer

from chaos.history import Send
from chaos.recorder import Recorder
from workload.payload import Payload, value_of
from workload.worker import PATIENCE_S, Worker

TICK_S = 0.01
UNACKNOWLEDGED_MAX = 400
"""How far a producer runs ahead of the broker."""


class LoadProducer(Worker):
    """Sends numbered records to the partitions of one topic in turn. `stop` waits until all of them are decided."""

    records_per_tick = 5
    value_bytes = 1000

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, topic: str, partition_count: int) -> None:
        super().__init__(name)
        self.bootstrap = bootstrap
        self.recorder = recorder
        self._topic = topic
        self._partition_count = partition_count
        self._numbers = count()

    def next_record(self) -> tuple[Send, bytes]:
        """What to send next."""
        number = next(self._numbers)
        send = self.recorder.send(Payload(self.name, number), (self._topic, number % self._partition_count))
        return send, value_of(self.name, number, self.value_bytes)


class ConfluentProducer(LoadProducer):
    """librdkafka."""

    def run(self) -> None:
        """Send until stopped."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": 1000 * PATIENCE_S,
                "reconnect.backoff.max.ms": 100,
                "log_level": 2,
            }
        )
        while not self.is_stopping:
            if len(producer) < UNACKNOWLEDGED_MAX:
                for _ in range(self.records_per_tick):
                    self._produce(producer)
            producer.poll(TICK_S)
        if producer.flush(PATIENCE_S):
            raise TimeoutError(f"{len(producer)} records of {self.name} are undecided")

    def _produce(self, producer: Producer) -> None:
        send, value = self.next_record()
        topic, partition = send.partition

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.recorder.sent(send, message.offset())
            else:
                self.recorder.refused(send, error.str())

        producer.produce(topic, value=value, partition=partition, on_delivery=delivered)


class AiokafkaProducer(LoadProducer):
    """aiokafka."""

    def run(self) -> None:
        """Send until stopped."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=1000 * PATIENCE_S
        )
        await producer.start()
        waiting: deque[asyncio.Future[object]] = deque()
        try:
            while not self.is_stopping:
                while waiting and waiting[0].done():
                    waiting.popleft()
                if len(waiting) < UNACKNOWLEDGED_MAX:
                    for _ in range(self.records_per_tick):
                        waiting.append(await self._produce(producer))
                await asyncio.sleep(TICK_S)
        finally:
            await producer.stop()

    async def _produce(self, producer: AIOKafkaProducer) -> "asyncio.Future[object]":
        send, value = self.next_record()
        topic, partition = send.partition
        future = None
        while future is None:
            # Where all are away for long, there may be no room for it in time. Then nobody has it.
            with suppress(KafkaTimeoutError):
                future = await producer.send(topic, value=value, partition=partition)

        def delivered(done: "asyncio.Future[object]") -> None:
            error = "cancelled" if done.cancelled() else done.exception()
            if error is None:
                self.recorder.sent(send, done.result().offset)  # type: ignore[attr-defined]
            else:
                self.recorder.refused(send, repr(error))

        future.add_done_callback(delivered)
        return future
