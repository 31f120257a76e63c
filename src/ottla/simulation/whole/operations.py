"""Operations on a cluster under load: topics, reassignments, decommissions.

An operation that is refused or impossible is in the trace, and is no fault: a request while half of the cluster is
away may fail. Only the effect on the cluster counts.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.admin.reassignments import ElectionType, alter_reassignments, elect_leaders
from ottla.client.errors import ClientError
from ottla.client.io.brokers import unregister_broker
from ottla.client.io.cluster import Cluster
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from ottla.runtime.rng import Rng
from ottla.simulation.whole.broker import BrokerHost
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.decided_metadata import DecidedMetadata
from ottla.simulation.whole.load import Client, Seen

PASSING: Final = "passing"
"""The topic that is created and deleted."""

PASSING_PARTITIONS: Final = 2

CLAIMS: Final = 10
"""The number of false claims of a client in a row."""

CLAIM_AGAIN_MS: Final = 100
"""The maximum pause between false claims."""

LOOK_MS: Final = 100
"""How often an operator checks for work, and for its completion."""

PATIENCE_S: Final = 10.0
"""How long an operator waits for a step to complete before the next one."""


class _Operation(Struct, frozen=True):
    """What is done, and how often it comes where it is not left out."""

    weight: int
    do: "Callable[[Operator, Rng], Awaitable[None]]"


class Operator(Client):
    """Does one thing after the other, as it is asked to."""

    def __init__(self, name: str, cluster: SimulatedCluster, seen: Seen, decided: DecidedMetadata) -> None:
        super().__init__(name, cluster, seen)
        self._brokers = cluster.brokers
        self._decided = decided
        self._asked: deque[tuple[str, Rng]] = deque()
        self._admin: Cluster

    def ask(self, kind: str, rng: Rng) -> None:
        """Queue an operation of a kind in `OPERATIONS`, with details from `rng`."""
        self._asked.append((kind, rng))

    async def work(self) -> None:
        """Do what was asked for, and wait for more."""
        self._admin = Cluster(self._options, self._io)
        try:
            await self._admin.connect()
            while not self.is_stopping:
                if self._asked:
                    kind, rng = self._asked.popleft()
                    await self._try(kind, OPERATIONS[kind].do(self, rng))
                else:
                    await self._io.pause(LOOK_MS)
        finally:
            self._admin.close()

    async def _try(self, what: str, doing: Awaitable[None]) -> None:
        try:
            await doing
        except ClientError as error:
            self._tell(f"*** {what}: {type(error).__name__}: {error}")

    # Partitions.

    async def move(self, rng: Rng) -> None:
        """Reassign a partition of any topic."""
        place = await self._some_partition(rng)
        ids = [broker.node_id for broker in self._brokers]
        replicas = tuple(ids.pop(rng.randbelow(len(ids))) for _ in range(2 + rng.randbelow(2)))
        self._tell(f"*** {place} is to move to {replicas}")
        self._refused(await alter_reassignments(self._admin, {place: replicas}))

    async def call_off(self, rng: Rng) -> None:
        """Cancel a reassignment."""
        place = await self._some_partition(rng)
        self._tell(f"*** {place} is not to move")
        self._refused(await alter_reassignments(self._admin, {place: None}))

    async def elect(self, _rng: Rng) -> None:
        """Elect the preferred leaders of all partitions."""
        self._tell("*** preferred leaders are to be elected")
        self._refused(await elect_leaders(self._admin, ElectionType.PREFERRED))

    async def claim(self, rng: Rng) -> None:
        """Say to be the followers of a partition, which have everything already: a leader is not to believe that."""
        place, image = await self._some_partition(rng), self._decided.image
        topic, partition = image.topic(place.topic), image.partition(*place)
        if topic is None or partition is None or partition.leader < 0:
            return
        self._tell(f"*** a client says that it is the followers of {place}")
        for _ in range(CLAIMS):
            for follower in partition.replicas:
                if follower != partition.leader and follower in image.brokers:
                    said = ReplicaState(replica_id=follower, replica_epoch=image.brokers[follower].broker_epoch)
                    await self._claim(said, place, partition.leader, topic.topic_id)
            await self._io.pause(rng.randbelow(CLAIM_AGAIN_MS))

    async def _claim(self, said: ReplicaState, place: TopicPartition, leader_id: int, topic_id: UUID) -> None:
        server = next(broker for broker in self._brokers if broker.node_id == leader_id).server
        known = server and server.replicas.find(*place)
        if not known:
            return
        fetched = FetchPartition(
            partition=place.partition,
            current_leader_epoch=known.leader_epoch,
            fetch_offset=known.log.log_end_offset,
            last_fetched_epoch=known.log.leader_epochs.latest_epoch,
            partition_max_bytes=1,
        )
        topics = (FetchTopic(topic_id=topic_id, partitions=(fetched,)),)
        request = FetchRequest(replica_state=said, session_epoch=-1, topics=topics)
        await self._admin.ask_node(leader_id, request, FetchResponse, timeout_ms=1_000)

    async def _some_partition(self, rng: Rng) -> TopicPartition:
        topics = await Admin(self._admin).list_topics()
        places = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
        return places[rng.randbelow(len(places))]

    def _refused(self, outcomes: Mapping[TopicPartition, ClientError | None]) -> None:
        for error in outcomes.values():
            if error is not None:
                self._tell(f"*** refused: {error}")

    # Topics.

    async def create_topic(self, rng: Rng) -> None:
        """Create the topic `PASSING`, unless it exists, and write to it."""
        self._tell(f"*** {PASSING} is to be made")
        await self._try("not made", self._create(rng))
        options = ProducerOptions(delivery_timeout_ms=3_000, max_block_ms=3_000, linger_ms=0)
        producer = Producer(self._options, options, io=self._io)
        try:
            await producer.start()
            for number in range(10):
                await producer.send(PASSING, b"%d" % number, partition=number % PASSING_PARTITIONS)
        finally:
            await self._closed(producer.close())

    async def _create(self, rng: Rng) -> None:
        await Admin(self._admin).create_topic(NewTopic(PASSING, PASSING_PARTITIONS, 2 + rng.randbelow(2)))

    async def delete_topic(self, _rng: Rng) -> None:
        """Delete the topic `PASSING`."""
        self._tell(f"*** {PASSING} is to be deleted")
        await Admin(self._admin).delete_topic(PASSING)

    async def add_partitions(self, rng: Rng) -> None:
        """Add partitions to the topic `PASSING`."""
        count = PASSING_PARTITIONS + 1 + rng.randbelow(3)
        self._tell(f"*** {PASSING} is to have {count} partitions")
        await Admin(self._admin).create_partitions(PASSING, count)

    # Brokers.

    async def restart_all(self, _rng: Rng) -> None:
        """Stop and start one broker after the other, each when all others are in sync."""
        self._tell("*** all brokers are to be started again, one after the other")
        for broker in self._brokers:
            await self._until(self._is_whole)
            if self.is_stopping:
                return
            await self._stop(broker)
            broker.start()

    async def decommission(self, rng: Rng) -> None:
        """Decommission a broker, stop it, unregister it, and start it again as a new one."""
        if len(self._brokers) == 3:
            return  # two are too few for three replicas
        broker = self._brokers[rng.randbelow(len(self._brokers))]
        self._tell(f"*** broker {broker.node_id} is to be decommissioned")
        others = [each.node_id for each in self._brokers if each is not broker]
        held = await self._held_by(broker)
        wanted = {
            place: tuple(others[(place.partition + number) % len(others)] for number in range(len(replicas)))
            for place, replicas in held.items()
        }
        self._refused(await alter_reassignments(self._admin, wanted))
        if not await self._until(lambda: self._is_empty(broker)) or self.is_stopping:
            return
        await self._stop(broker)
        await self._try("not forgotten", unregister_broker(self._admin, broker.node_id))
        broker.start()

    async def _held_by(self, broker: BrokerHost) -> dict[TopicPartition, tuple[int, ...]]:
        return {
            TopicPartition(topic.name, each.partition): each.replicas
            for topic in await Admin(self._admin).list_topics()
            for each in topic.partitions
            if broker.node_id in each.replicas
        }

    async def _is_empty(self, broker: BrokerHost) -> bool:
        return not await self._held_by(broker)

    async def _is_whole(self) -> bool:
        topics = await Admin(self._admin).list_topics()
        return all(len(each.isr) == len(each.replicas) for topic in topics for each in topic.partitions)

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> bool:
        """Whether something comes to hold, in the time that an operator has."""
        end_s = self._loop.time() + PATIENCE_S
        while not self.is_stopping and self._loop.time() < end_s:
            if await holds():
                return True
            await self._io.pause(LOOK_MS)
        return False

    async def _stop(self, broker: BrokerHost) -> None:
        """SIGTERM, and wait until it has ended."""
        stopping = self._loop.spawn(self._loop.world, broker.stop())
        while not stopping.done():
            await self._io.pause(LOOK_MS)


OPERATIONS: Final = {
    "add partitions": _Operation(1, Operator.add_partitions),
    "call off": _Operation(1, Operator.call_off),
    "claim": _Operation(1, Operator.claim),
    "create topic": _Operation(2, Operator.create_topic),
    "decommission": _Operation(1, Operator.decommission),
    "delete topic": _Operation(2, Operator.delete_topic),
    "elect": _Operation(2, Operator.elect),
    "move": _Operation(4, Operator.move),
    "restart all": _Operation(1, Operator.restart_all),
}
