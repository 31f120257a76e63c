"""Clients of the simulated cluster: producers, a consumer, a client of a coordinator. They record all responses."""

from typing import TYPE_CHECKING, Final

from ottla.simulation.messages import LOOK, LOOKED, PRODUCE, Message
from ottla.simulation.producer_batches import VALUES_MAX

if TYPE_CHECKING:
    from ottla.simulation.world import Broker, World

IN_FLIGHT_MAX: Final = 5
"""The maximum number of unacknowledged records of an idempotent producer; others have one."""

READ_MAX: Final = 8


class Producer:
    """Writes values of its own in their order, and sends each until it is acknowledged."""

    __slots__ = ("acknowledged", "index", "next_number", "node", "outstanding", "window")

    def __init__(self, node: int, index: int, *, idempotent: bool) -> None:
        self.node = node
        self.index = index
        self.window = IN_FLIGHT_MAX if idempotent else 1
        self.next_number = 0
        self.outstanding: list[int] = []
        self.acknowledged: list[tuple[int, int]] = []
        """Values and offsets, as the answers came."""

    def next_value(self) -> int:
        """A new value; it is outstanding from now on."""
        value = self.index * VALUES_MAX + self.next_number
        self.next_number += 1
        self.outstanding.append(value)
        return value


class CoordinatorClient:
    """Commits numbers that grow to a coordinator, and asks for the newest."""

    __slots__ = ("acknowledged", "next_number", "node", "outstanding", "seen")

    def __init__(self, node: int) -> None:
        self.node = node
        self.next_number = 0
        self.outstanding = -1
        self.acknowledged: list[tuple[int, int]] = []
        self.seen: set[int] = set()
        """What the coordinator said is committed."""


class Consumer:
    """Reads committed records from leaders and followers."""

    __slots__ = ("positions", "read")

    def __init__(self) -> None:
        self.positions = [0, 0]
        self.read: list[tuple[int, int, int]] = []
        """Partition, offset, value."""


def produce(world: "World", producer: Producer, choice: int, target: int, *, at_once: bool) -> None:
    """Send a new value, or an outstanding one again.

    Before the first acknowledgement there is one at a time: a broker that knows nothing of a producer lets it begin
    with any sequence number (KIP-360), so two that overtake each other would leave the first without a place. After it
    none is more than the window away from the oldest outstanding one: that is as far as brokers remember.
    """
    outstanding = producer.outstanding
    window = producer.window if producer.acknowledged else 1
    oldest = outstanding[0] % VALUES_MAX if outstanding else producer.next_number
    if producer.next_number - oldest < window and choice & 7:
        value = producer.next_value()
    elif outstanding:
        value = outstanding[(choice >> 3) % len(outstanding)]
    else:
        return
    _request(world, (PRODUCE, producer.node, target, 0, value), at_once=at_once)


def commit_or_look(world: "World", choice: int, target: int, *, at_once: bool) -> None:
    """Send a commit to the coordinator, or ask it for the newest one."""
    client = world.coordinator_client
    if choice & 1:
        _request(world, (LOOK, client.node, target, 1, choice), at_once=at_once)
        return
    if client.outstanding < 0 or choice & 8:
        client.outstanding = client.next_number
        client.next_number += 1
    _request(world, (PRODUCE, client.node, target, 1, client.outstanding), at_once=at_once)


def _request(world: "World", message: Message, *, at_once: bool) -> None:
    if at_once:
        world.exchange(message)
    else:
        world.send(message)


def on_produced(world: "World", message: Message) -> None:
    """Handle the response for a value: acknowledged, or refused and sent again later."""
    _, _, node, partition, value, offset = message
    if offset < 0:
        return
    if partition:
        client = world.coordinator_client
        client.acknowledged.append((value, offset))
        if client.outstanding == value:
            client.outstanding = -1
        return
    for producer in world.producers:
        if producer.node == node and value in producer.outstanding:
            producer.outstanding.remove(value)
            producer.acknowledged.append((value, offset))
    if world.trace is not None:
        world.note("acknowledged", node, value, offset)


def on_looked(world: "World", message: Message) -> None:
    """Handle the response of a coordinator."""
    assert message[0] == LOOKED
    value = message[5]
    if value >= 0:
        world.coordinator_client.seen.add(value)


def read(world: "World", broker: "Broker", partition: int) -> None:
    """Read from any broker, up to its high watermark."""
    replica = broker.replicas[partition]
    if not broker.up or broker.paused or replica.leader_epoch < world.ledgers[partition].floor_epoch:
        return
    consumer = world.consumer
    position = consumer.positions[partition]
    end = min(replica.high_watermark, position + READ_MAX)
    for offset in range(position, end):
        consumer.read.append((partition, offset, replica.records[offset][1]))
    if end > position:
        consumer.positions[partition] = end
        if world.trace is not None:
            world.note("read", broker.broker_id, partition, position, end)
