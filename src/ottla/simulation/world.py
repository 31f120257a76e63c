"""A cluster in one thread: brokers, the store, the network between them, and clients; stepped by a schedule.

There is no running clock: each step is one event, which the schedule drew. A message may arrive in the next step or
after a hundred others, and a timer fires when its step comes. So every order that a clock could produce is possible,
also those that occur once in a year.

    decisions     which functions decide
    metadata      what the store holds
    network       messages on their way
    brokers       1 to n; index 0 is nobody
    ledgers       what is committed of each partition
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.metadata.controller.partition_leadership import new_state
from ottla.metadata.image.image import BrokerImage
from ottla.metadata.registration import BrokerRegistration
from ottla.simulation.clients import Consumer, CoordinatorClient, Producer
from ottla.simulation.decisions import PRODUCTION, Decisions
from ottla.simulation.ledger import Ledger
from ottla.simulation.messages import Message
from ottla.simulation.metadata_log import Image, MetadataLog
from ottla.simulation.replica import Replica
from ottla.simulation.swarm import Swarm

STEP_MS: Final = 50
"""The time that each step takes on all clocks."""

DATA: Final = 0
COORDINATOR: Final = 1
"""The partition that holds a coordinator's state, where there is one."""

IN_FLIGHT_MAX: Final = 64
"""Messages on their way; what is sent beyond is lost."""

Event = tuple[Any, ...]
"""Of a trace: the number of the step, what happened, and to whom."""

Handler = Callable[["World", Message], Message | None]


class Broker:
    """A process, which comes and goes, and a disk, which mostly stays."""

    __slots__ = (
        "applied",
        "broker_epoch",
        "broker_id",
        "clean_mark",
        "clean_since",
        "controller_epoch",
        "directory",
        "incarnation",
        "live",
        "paused",
        "replicas",
        "skew_ms",
        "stalled",
        "up",
        "view",
    )

    def __init__(self, broker_id: int, partitions: int) -> None:
        self.broker_id = broker_id
        self.up = True
        self.paused = False
        self.broker_epoch = 0
        self.directory = 0
        self.incarnation = 1
        """Which process of the broker it is."""
        self.clean_since = -1
        """Since which broker epoch it lost nothing, -1 before the first session after an unclean stop."""
        self.clean_mark = (-1, -1)
        """What a clean stop left on the disk: `clean_since`, and the broker epoch then; gone while the process runs."""
        self.applied = 0
        """The image that this broker acts on, by its number."""
        self.controller_epoch = 0
        """0 when it does not believe to be the controller."""
        self.view = 0
        """The image that it decides on as the controller."""
        self.live: dict[int, int] = {}
        """The broker epochs of those that are neither fenced nor shutting down, as far as this broker knows."""
        self.skew_ms = 0
        self.stalled = False
        """Whether it reads no metadata."""
        self.replicas = [Replica(broker_id, partition) for partition in range(partitions)]


class World:
    """The state of everything. A `Violation` is raised by whatever step breaks a rule."""

    __slots__ = (
        "brokers",
        "consumer",
        "coordinator_client",
        "cut",
        "decisions",
        "handlers",
        "healing",
        "ledgers",
        "live_replicas",
        "metadata",
        "network",
        "now_ms",
        "partitions",
        "producers",
        "step_number",
        "swarm",
        "trace",
    )

    def __init__(
        self, swarm: Swarm, handlers: dict[int, Handler], decisions: Decisions = PRODUCTION, *, traced: bool = False
    ) -> None:
        self.swarm = swarm
        self.decisions = decisions
        self.handlers = handlers
        self.partitions = 2 if swarm.coordinator else 1
        self.now_ms = 0
        self.step_number = 0
        self.healing = False
        self.network: list[Message] = []
        self.cut: set[tuple[int, int]] = set()
        """Links that carry nothing, by sender and receiver."""
        self.trace: list[Event] | None = [] if traced else None
        count = swarm.broker_count
        self.brokers = [Broker(broker_id, self.partitions) for broker_id in range(count + 1)]
        self.ledgers = [Ledger(partition) for partition in range(self.partitions)]
        self.producers = [
            Producer(count + 1 + index, index, idempotent=swarm.idempotent) for index in range(swarm.producer_count)
        ]
        self.consumer = Consumer()
        self.coordinator_client = CoordinatorClient(count + 4)
        self.metadata = self._begin()

    def _begin(self) -> MetadataLog:
        """Everybody is there and in sync."""
        swarm = self.swarm
        ids = range(1, swarm.broker_count + 1)
        live = {broker_id: broker_id for broker_id in ids}
        states = tuple(
            new_state([1 + (index + partition) % swarm.broker_count for index in range(swarm.replica_count)], live)
            for partition in range(self.partitions)
        )
        registered = {
            broker_id: BrokerImage(
                *(broker_id, broker_id, None, 0, None),
                incarnation="1",
                directories=(str(broker_id),),
                flush=swarm.flush,
            )
            for broker_id in ids
        }
        metadata = MetadataLog(Image(1, registered, states, live))
        for broker_id in ids:
            broker = self.brokers[broker_id]
            broker.directory = broker_id
            broker.live.update(live)
            broker.broker_epoch = metadata.register(
                broker_id, BrokerRegistration(host=None, port=0, incarnation="1", directories=(str(broker_id),))
            )
            broker.clean_since = broker.broker_epoch
        self.brokers[1].controller_epoch = metadata.elect(1, 1, 0)
        self.brokers[0].up = False
        return metadata

    def note(self, *event: object) -> None:
        """Adds an event to the trace; callers check first that there is one."""
        if self.trace is not None:
            self.trace.append((self.step_number, *event))

    def is_reachable(self, sender: int, receiver: int) -> bool:
        """Whether a message would arrive now: the link carries, and the receiver runs."""
        if self.cut and (sender, receiver) in self.cut:
            return False
        if 0 < receiver < len(self.brokers):
            broker = self.brokers[receiver]
            return broker.up and not broker.paused
        return True

    def send(self, message: Message) -> None:
        """Put a message on the network."""
        if len(self.network) < IN_FLIGHT_MAX:
            self.network.append(message)
            if self.trace is not None:
                self.note("send", message)

    def exchange(self, message: Message) -> None:
        """A request, its answer, and what follows from it, with nothing in between; nothing when a link is cut."""
        if not self.is_reachable(message[1], message[2]):
            return
        if self.trace is not None:
            self.note("exchange", message)
        answer = self.handlers[message[0]](self, message)
        if answer is not None and self.is_reachable(answer[1], answer[2]):
            if self.trace is not None:
                self.note("answer", answer)
            self.handlers[answer[0]](self, answer)

    def deliver(self, index: int) -> None:
        """Delivers a message; it waits while the link is cut or the receiver is paused."""
        network = self.network
        message = network[index]
        receiver = message[2]
        if self.cut and (message[1], receiver) in self.cut:
            return
        if 0 < receiver < len(self.brokers):
            broker = self.brokers[receiver]
            if broker.paused:
                return
            if not broker.up:
                del network[index]
                return
        del network[index]
        if self.trace is not None:
            self.note("deliver", message)
        answer = self.handlers[message[0]](self, message)
        if answer is not None:
            self.send(answer)

    def clock_of(self, broker: Broker) -> int:
        """The clock of a broker."""
        return self.now_ms + broker.skew_ms

    def losses_borne(self, partition: int) -> int:
        """How many of its replicas have to lose what they had before a record may be lost.

        What `min.insync.replicas` asked for when the fewest held the partition: no more is asked for than there are.
        """
        fewest = min(len(image.partitions[partition].replicas) for image in self.metadata.images)
        return min(self.swarm.min_insync_replicas, fewest)

    @property
    def image(self) -> Image:
        """The newest metadata image of any broker."""
        return self.metadata.images[-1]
