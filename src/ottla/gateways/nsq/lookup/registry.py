"""What a lookup service knows: which servers have which topics and channels (nsqlookupd's registration database).

```
producer (one connection of an nsqd or a broker)  --has-->  topic, (topic, channel)
topic without producers     stays known, ephemeral ones go with the last
tombstone (topic, producer) the topic is not looked up there for 45 s
```

Pure: the time is an argument.
"""

from typing import Final

from msgspec import Struct, field

from ottla.gateways.nsq.names import is_ephemeral

INACTIVE_MS: Final = 300_000
"""A producer that was silent for so long is not looked up."""
TOMBSTONE_MS: Final = 45_000
REGISTRATIONS_MAX: Final = 1_000_000
"""Topics and channels of all producers together; more are refused."""

NO_CHANNEL: Final = ""


class ProducerInfo(Struct, frozen=True):
    """What a server says of itself."""

    broadcast_address: str
    hostname: str
    tcp_port: int
    http_port: int
    version: str
    remote_address: str


class Producer(Struct, eq=False):
    """A server that is connected."""

    info: ProducerInfo
    heard_ms: int
    registered: set[tuple[str, str]] = field(default_factory=set)
    """Topic and channel; `NO_CHANNEL` for the topic itself."""
    tombstones: dict[str, int] = field(default_factory=dict)
    """When each topic was marked."""

    @property
    def node(self) -> str:
        """The name by which administrators mean it."""
        return f"{self.info.broadcast_address}:{self.info.http_port}"


class FullError(Exception):
    """There is no room for another registration."""


class LookupRegistry:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self._producers: dict[Producer, None] = {}
        self._known: dict[str, set[str]] = {}
        """The channels of each topic, whoever has them."""
        self._count = 0

    def add(self, producer: Producer) -> None:
        """A server has said who it is."""
        self._producers[producer] = None

    def remove(self, producer: Producer) -> None:
        """A server is gone; what it registered goes with it."""
        self._producers.pop(producer, None)
        for topic, channel in tuple(producer.registered):
            self.unregister(producer, topic, channel)

    def register(self, producer: Producer, topic: str, channel: str = NO_CHANNEL) -> None:
        """A server has a topic or a channel. Raises FullError."""
        if self._count >= REGISTRATIONS_MAX:
            raise FullError
        channels = self._known.setdefault(topic, set())
        self._add(producer, topic, NO_CHANNEL)
        if channel:
            channels.add(channel)
            self._add(producer, topic, channel)

    def _add(self, producer: Producer, topic: str, channel: str) -> None:
        if (topic, channel) not in producer.registered:
            producer.registered.add((topic, channel))
            self._count += 1

    def unregister(self, producer: Producer, topic: str, channel: str = NO_CHANNEL) -> None:
        """A server has a channel no longer, or a topic with all its channels."""
        gone = {each for each in producer.registered if each[0] == topic and channel in (NO_CHANNEL, each[1])}
        producer.registered -= gone
        self._count -= len(gone)
        for name, its_channel in gone:
            self._forget_ephemeral(name, its_channel)

    def _forget_ephemeral(self, topic: str, channel: str) -> None:
        if any((topic, channel) in each.registered for each in self._producers):
            return
        if channel and is_ephemeral(channel):
            self._known.get(topic, set()).discard(channel)
        elif not channel and is_ephemeral(topic):
            self._known.pop(topic, None)

    def create(self, topic: str, channel: str = NO_CHANNEL) -> None:
        """Make a topic or a channel known that nobody has yet. Raises FullError."""
        if len(self._known) >= REGISTRATIONS_MAX:
            raise FullError
        channels = self._known.setdefault(topic, set())
        if channel:
            channels.add(channel)

    def delete(self, topic: str, channel: str = NO_CHANNEL) -> bool:
        """Forget a topic or a channel; whether it was known."""
        if topic not in self._known or (channel and channel not in self._known[topic]):
            return False
        for producer in self._producers:
            self.unregister(producer, topic, channel)
        if channel:
            self._known[topic].discard(channel)
        else:
            del self._known[topic]
        return True

    def tombstone(self, topic: str, node: str, now_ms: int) -> None:
        """Do not look up a topic at a node for a while."""
        for producer in self._producers:
            if producer.node == node and (topic, NO_CHANNEL) in producer.registered:
                producer.tombstones[topic] = now_ms

    def topics(self) -> list[str]:
        """The topics that are known."""
        return sorted(self._known)

    def channels(self, topic: str) -> list[str]:
        """The channels of a topic."""
        return sorted(self._known.get(topic, ()))

    def is_known(self, topic: str) -> bool:
        """Whether anybody has had the topic."""
        return topic in self._known

    def lookup(self, topic: str, now_ms: int) -> list[ProducerInfo]:
        """Where a topic is read: at its producers."""
        return [
            each.info
            for each in self._active(now_ms)
            if (topic, NO_CHANNEL) in each.registered and not self.is_tombstoned(each, topic, now_ms)
        ]

    def nodes(self, now_ms: int) -> list[Producer]:
        """The servers that are there."""
        return self._active(now_ms)

    def everyone(self) -> list[Producer]:
        """All that are connected."""
        return list(self._producers)

    def is_tombstoned(self, producer: Producer, topic: str, now_ms: int) -> bool:
        """Whether a topic is not to be looked up there."""
        marked_ms = producer.tombstones.get(topic)
        return marked_ms is not None and now_ms - marked_ms < TOMBSTONE_MS

    def _active(self, now_ms: int) -> list[Producer]:
        return [each for each in self._producers if now_ms - each.heard_ms <= INACTIVE_MS]
