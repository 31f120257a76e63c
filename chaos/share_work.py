"""A producer and the members of a share group, at work while things are done to their brokers."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from chaos.queue_chapter import Progress
from ottla.client import (
    AcknowledgementMode,
    AcknowledgeType,
    ClientOptions,
    Producer,
    ShareConsumer,
    ShareConsumerOptions,
)
from ottla.client.consuming.share_consumer import Response
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.consuming.share_session import ShareSession
from ottla.client.errors import ClientError
from ottla.client.producing.delivery import Delivery
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.simulation.share_history import ShareHistory
from ottla.simulation.share_witness import ShareWitness
from workload.worker import PATIENCE_S, Worker

JOBS = "jobs"
"""The topic, and the group."""
PARTITIONS = 2
MEMBERS = 3
DELIVERIES_MAX = 10
LOCK_MS = 3_000
REQUEST_TIMEOUT_MS = 5_000
POLL_S = 0.2
SEND_EVERY_S = 0.02
SENT_TOGETHER = 4
RELEASED = 0.05
REJECTED = 0.02
"""How often a record is released, or rejected; others are accepted."""
LATE = 0.002
"""How often a member takes longer for what it has than its locks last."""
LATE_S = 1.3 * LOCK_MS / 1000
ASYNCHRONOUS = 0.3
"""How often a member does not wait for the answer to its acknowledgements."""


class TimedShareConsumer(ShareConsumer):
    """Knows of each record when the fetch was sent that brought it."""

    def __init__(self, options: ClientOptions, share_options: ShareConsumerOptions, witness: ShareWitness) -> None:
        super().__init__(options, share_options, on_acknowledged=witness.answered)
        self._asked_s: dict[tuple[str, int, int], float] = {}

    def asked_s(self, record: ShareRecord) -> float:
        """When its fetch was sent, or a moment before."""
        return self._asked_s.pop((record.topic, record.partition, record.offset))

    async def _ask(
        self, session: ShareSession, request: ShareFetchRequest | ShareAcknowledgeRequest, response: type[Response]
    ) -> Response:
        begun_s = time.monotonic()
        answer = await super()._ask(session, request, response)
        if isinstance(answer, ShareFetchResponse):
            for topic in answer.responses:
                for each in topic.partitions:
                    for run in each.acquired_records:
                        for offset in range(run.first_offset, run.last_offset + 1):
                            self._asked_s[self._names[topic.topic_id], each.partition_index, offset] = begun_s
        return answer


class GroupAtWork(Worker):
    """On an event loop of its own; what it saw is in `history`, what was acknowledged to the producer beside it."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__("share group")
        self.history = ShareHistory(DELIVERIES_MAX)
        self.acknowledged: set[str] = set()
        self.is_sending = True
        self._options = ClientOptions.of(
            bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS, api_timeout_ms=PATIENCE_S * 1000
        )
        self._rng = Random(seed)
        self._progress = Progress(self.history)

    @property
    def done(self) -> set[str]:
        """The values of records that nobody waits for any more."""
        return self._progress.look()

    def run(self) -> None:
        """Until it is stopped."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            for number in range(MEMBERS):
                group.create_task(self._live(f"member-{number}"))

    async def _send(self) -> None:
        number = 0
        async with Producer(self._options) as producer:
            while not self.is_stopping and self.is_sending:
                for _ in range(SENT_TOGETHER):
                    value = str(number)
                    number += 1
                    delivery = await producer.send(JOBS, value.encode(), partition=number % PARTITIONS)
                    delivery.add_done_callback(self._told(value))
                await asyncio.sleep(SEND_EVERY_S)

    def _told(self, value: str) -> Callable[[Delivery], None]:
        def told(delivery: Delivery) -> None:
            if delivery.error is None:
                self.acknowledged.add(value)

        return told

    async def _live(self, name: str) -> None:
        """One member after the other: some leave after a while, and those that fail are made anew."""
        life = 0
        while not self.is_stopping:
            life += 1
            witness = ShareWitness(f"{name}.{life}", self.history, time.monotonic)
            options = ShareConsumerOptions(JOBS, acknowledgement_mode=AcknowledgementMode.EXPLICIT, max_poll_records=20)
            consumer = TimedShareConsumer(self._options, options, witness)
            try:
                await consumer.start()
                consumer.subscribe([JOBS])
                for _ in range(self._rng.randrange(200, 2_000)):
                    if self.is_stopping:
                        break
                    await self._turn(consumer, witness)
            except ClientError:
                await asyncio.sleep(POLL_S)
            finally:
                with suppress(ClientError):
                    await consumer.close()
                witness.goes()

    async def _turn(self, consumer: TimedShareConsumer, witness: ShareWitness) -> None:
        records = await consumer.poll(timeout_ms=int(POLL_S * 1000))
        for record in records:
            witness.came(record, consumer.asked_s(record))
        if records and self._rng.random() < LATE:
            await asyncio.sleep(LATE_S)
        for record in records:
            kind = self._kind(record)
            witness.says(record, kind)
            consumer.acknowledge(record, kind)
        if records:
            if self._rng.random() < ASYNCHRONOUS:
                consumer.commit_async()
            else:
                await consumer.commit()

    def _kind(self, record: ShareRecord) -> AcknowledgeType:
        draw = self._rng.random()
        if draw < RELEASED and record.delivery_count < DELIVERIES_MAX // 2:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if draw > 1 - REJECTED else AcknowledgeType.ACCEPT
