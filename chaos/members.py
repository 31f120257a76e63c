"""Members of consumer groups that read, commit, and now and then begin anew, from two client libraries."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from typing import Literal

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from chaos.history import Commit, Delivery
from chaos.recorder import Recorder
from ottla.simulation.history import Partition
from workload.payload import read_value
from workload.worker import PATIENCE_S, Worker

COMMIT_EVERY_RECORDS = 5
"""For each partition that a member reads."""
POLL_S = 0.05
SESSION_MS = 10_000


class GroupMember(Worker):
    """The only member of a group."""

    def __init__(self, group: str, bootstrap: str, recorder: Recorder, partitions: list[Partition]) -> None:
        super().__init__(group)
        self.bootstrap = bootstrap
        self.recorder = recorder
        self.partitions = partitions
        self.positions: dict[Partition, int] = {}
        """The next offset of each partition, as far as records were delivered."""
        self._deliveries: dict[Partition, Delivery] = {}
        self._uncommitted = 0
        self._beginning_anew = Event()

    @property
    def topics(self) -> list[str]:
        """What the group reads."""
        return sorted({topic for topic, _ in self.partitions})

    def begin_anew(self) -> None:
        """Leave, ask for the committed offsets, and join again as a new member."""
        self._beginning_anew.set()

    @property
    def must_leave(self) -> bool:
        """Whether this life of the member is over."""
        return self.is_stopping or self._beginning_anew.is_set()

    def run(self) -> None:
        """One life after the other."""
        while not self.is_stopping:
            self._beginning_anew.clear()
            self._deliveries = {}
            self.live()

    def assigned(self, partitions: list[Partition]) -> None:
        """These are ours from now on."""
        for partition in partitions:
            self._deliveries[partition] = self.recorder.assigned(self.name, partition)

    def delivered(self, partition: Partition, offset: int, value: bytes | None) -> None:
        """A record came."""
        self._deliveries[partition].records.append((offset, read_value(value)))
        self.positions[partition] = offset + 1
        self._uncommitted += 1

    def commits_due(self) -> list[Commit]:
        """What to commit now, if it is time."""
        if self._uncommitted < COMMIT_EVERY_RECORDS * len(self.partitions):
            return []
        self._uncommitted = 0
        return [
            self.recorder.commit(self.name, partition, delivery.records[-1][0] + 1)
            for partition, delivery in self._deliveries.items()
            if delivery.records
        ]

    @abstractmethod
    def live(self) -> None:
        """Ask for the committed offsets, join, read and commit, leave."""


class ConfluentMember(GroupMember):
    """librdkafka, with the classic protocol of groups or that of KIP-848."""

    def __init__(
        self,
        group: str,
        bootstrap: str,
        recorder: Recorder,
        partitions: list[Partition],
        protocol: Literal["classic", "consumer"] = "classic",
    ) -> None:
        super().__init__(group, bootstrap, recorder, partitions)
        # With KIP-848 the session's time is the broker's setting.
        self._protocol: dict[str, str] = {"group.protocol": protocol}
        if protocol == "classic":
            self._protocol["session.timeout.ms"] = str(SESSION_MS)
            # Else librdkafka begins anew when it has lost all brokers at once, and a member that was about to join
            # waits for an answer of one that it let go of, for minutes: whatever the brokers do, nobody asks them.
            self._protocol["metadata.recovery.strategy"] = "none"

    def live(self) -> None:
        """One life."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "log_level": 2,
                **self._protocol,
            }
        )
        self._ask_committed(consumer)
        consumer.subscribe(self.topics, on_assign=self._on_assign)
        while not self.must_leave:
            for message in consumer.consume(500, POLL_S):
                self._deliver(message)
            self._commit(consumer)
        consumer.close()

    def _ask_committed(self, consumer: Consumer) -> None:
        invoked_at = self.recorder.now()
        try:
            found = consumer.committed([TopicPartition(*partition) for partition in self.partitions], timeout=10)
        except KafkaException:
            return  # no answer says nothing
        for each in found:
            if each.error is None:
                offset = each.offset if each.offset >= 0 else None
                self.recorder.saw_committed(self.name, (each.topic, each.partition), offset, invoked_at)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned([(each.topic, each.partition) for each in partitions])

    def _deliver(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self.delivered((message.topic(), message.partition()), message.offset(), message.value())
        elif error.fatal():
            raise KafkaException(error)

    def _commit(self, consumer: Consumer) -> None:
        commits = self.commits_due()
        if not commits:
            return
        try:
            done = consumer.commit(
                offsets=[TopicPartition(*commit.partition, commit.offset) for commit in commits], asynchronous=False
            )
        except KafkaException:
            return  # unknown: the next commit says more
        failed = {(each.topic, each.partition) for each in done if each.error is not None}
        for commit in commits:
            if commit.partition not in failed:
                self.recorder.committed(commit)


class AiokafkaMember(GroupMember, ConsumerRebalanceListener):
    """aiokafka."""

    def live(self) -> None:
        """One life."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
        )
        # Before the start, which then waits until the topics are known: a member that leads its group without knowing
        # them gives nobody anything.
        consumer.subscribe(self.topics, listener=self)
        try:
            await consumer.start()
        except AiokafkaError:
            await consumer.stop()
            return  # nobody there: the next life tries again
        try:
            while not self.must_leave:
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                for partition, records in found.items():
                    for record in records:
                        self.delivered((partition.topic, partition.partition), record.offset, record.value)
                await self._commit(consumer)
        finally:
            # A fetch that waits to be tried again makes aiokafka's own stop end like this.
            with suppress(asyncio.CancelledError):
                await consumer.stop()

    async def _commit(self, consumer: AIOKafkaConsumer) -> None:
        commits = self.commits_due()
        if not commits:
            return
        try:
            await consumer.commit({AiokafkaPartition(*commit.partition): commit.offset for commit in commits})
        except AiokafkaError:
            return  # unknown: the next commit says more
        for commit in commits:
            self.recorder.committed(commit)

    def on_partitions_revoked(self, revoked: list[AiokafkaPartition]) -> None:
        """Nothing to do: what was delivered stays delivered."""

    def on_partitions_assigned(self, assigned: list[AiokafkaPartition]) -> None:
        """Ours from now on."""
        self.assigned([(each.topic, each.partition) for each in assigned])


def wait_for_members(members: Sequence[GroupMember], ends: dict[Partition, int]) -> None:
    """Wait until each group was given everything; who is not there in time is left to the checker."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if all(member.positions.get(partition, 0) >= end for member in members for partition, end in ends.items()):
            return
        for member in members:
            member.require_sound()
        time.sleep(POLL_S)
