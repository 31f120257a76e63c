"""Statistics for a statsd daemon, in nsqd's names (https://nsq.io/components/nsqd.html#statsd--graphite-integration).

```
nsq.HOST_4151.topic.clicks.message_count:25|c        since the last time
nsq.HOST_4151.topic.clicks.channel.archive.depth:3|g
```

What came before the broker led a topic counts for nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from ottla.gateways.nsq.names import is_ephemeral
from ottla.model.errors import ApiError
from ottla.runtime.timer import Timer
from ottla.settings.endpoint import parse_host_port

logger = logging.getLogger(__name__)

Document = dict[str, Any]
Collect = Callable[[], Awaitable[tuple[list[Document], frozenset[str]]]]

SPREAD_LESS_MS: Final = 1_000
"""The packets of one time are sent over its interval without this."""
_TOPIC_COUNTS: Final = ("message_count", "message_bytes")
_TOPIC_GAUGES: Final = ("depth", "backend_depth")
_CHANNEL_COUNTS: Final = ("message_count", "requeue_count", "timeout_count")
_CHANNEL_GAUGES: Final = {
    "depth": "depth",
    "backend_depth": "backend_depth",
    "in_flight_count": "in_flight_count",
    "deferred_count": "deferred_count",
    "client_count": "clients",
}


class StatsdOptions(Struct, frozen=True):
    """Where and how often; no address for never."""

    address: str = ""
    prefix: str = "nsq.%s"
    interval_ms: int = 60_000
    packet_bytes: int = 508
    excludes_ephemeral: bool = False

    def prefix_at(self, host: str, port: int) -> str:
        """What stands before each name.

        >>> StatsdOptions().prefix_at("10.0.0.7", 4151)
        'nsq.10_0_0_7_4151.'
        """
        if not self.prefix:
            return ""
        server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        prefix = self.prefix.replace("%s", server.replace(".", "_").replace(":", "_"))
        return prefix if prefix.endswith(".") else f"{prefix}."


class StatsdCounts:
    """What was told last, so that counters tell of what is new."""

    def __init__(self) -> None:
        self._topics: Mapping[str, Document] = {}
        self._known: frozenset[str] | None = None

    def lines(self, topics: Iterable[Document], known: frozenset[str]) -> list[str]:
        """The statistics of the topics that the broker leads, without a prefix; `known` are all topics there are."""
        found = {str(each["topic_name"]): each for each in topics}
        lines: list[str] = []
        for name, topic in found.items():
            last = self._topics.get(name)
            if last is None and (self._known is None or name in self._known):
                last = topic  # it was led elsewhere
            if last is None or topic["message_count"] < last["message_count"]:
                last = {}  # it is new
            lines += _of_topic(f"topic.{name}", topic, last)
        self._topics, self._known = found, known
        return lines


class StatsdPusher:
    """Belongs to the event loop; `run` is its task."""

    def __init__(self, options: StatsdOptions, prefix: str, collect: Collect, timer: Timer) -> None:
        """`collect` gives what the broker leads, and the names of all topics."""
        self._options = options
        self._prefix = prefix
        self._collect = collect
        self._timer = timer
        self._counts = StatsdCounts()

    async def run(self) -> None:
        """Send until the task is cancelled."""
        await self._lines()
        spent_ms = 0
        while True:
            await self._timer.sleep(self._options.interval_ms - spent_ms)
            spent_ms = 0
            try:
                spent_ms = await self._send(packets(await self._lines(), self._options.packet_bytes))
            except OSError as error:
                logger.warning("statsd at %s cannot be reached: %s", self._options.address, error)

    async def _lines(self) -> list[bytes]:
        try:
            topics, known = await self._collect()
        except ApiError as error:
            logger.warning("statistics for statsd cannot be had now: %s", error.message)
            return []
        if self._options.excludes_ephemeral:
            topics = [_without_ephemeral(each) for each in topics if not is_ephemeral(each["topic_name"])]
        return [f"{self._prefix}{line}\n".encode() for line in self._counts.lines(topics, known)]

    async def _send(self, sent: list[bytes]) -> int:
        """Send them one after the other; returns how long it took, in ms. Raises OSError."""
        pause_ms = (self._options.interval_ms - SPREAD_LESS_MS) // max(1, len(sent))
        host, port = parse_host_port(self._options.address)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=(host, port))
        try:
            for packet in sent:
                transport.sendto(packet)
                await self._timer.sleep(pause_ms)
        finally:
            transport.close()
        return pause_ms * len(sent)


def packets(lines: Iterable[bytes], bytes_max: int) -> list[bytes]:
    """Lines together, up to a size; a longer line is alone.

    >>> packets([b"a:1|c\\n", b"b:2|g\\n", b"c:3|g\\n"], 12)
    [b'a:1|c\\nb:2|g\\n', b'c:3|g\\n']
    """
    found: list[bytes] = []
    packet = b""
    for line in lines:
        if packet and len(packet) + len(line) > bytes_max:
            found.append(packet)
            packet = b""
        packet += line
    return [*found, packet] if packet else found


def _of_topic(place: str, topic: Document, last: Document) -> Iterator[str]:
    for count in _TOPIC_COUNTS:
        yield f"{place}.{count}:{_increase(topic, last, count)}|c"
    for gauge in _TOPIC_GAUGES:
        yield f"{place}.{gauge}:{topic[gauge]}|g"
    before = {each["channel_name"]: each for each in last.get("channels", ())}
    for channel in topic["channels"]:
        name = channel["channel_name"]
        for count in _CHANNEL_COUNTS:
            yield f"{place}.channel.{name}.{count}:{_increase(channel, before.get(name, {}), count)}|c"
        for gauge, shown in _CHANNEL_GAUGES.items():
            yield f"{place}.channel.{name}.{shown}:{channel[gauge]}|g"


def _increase(now: Document, last: Document, name: str) -> int:
    """By how much a count has grown. What retention takes from a topic's bytes is nothing."""
    return max(0, int(now[name]) - int(last.get(name, 0)))


def _without_ephemeral(topic: Document) -> Document:
    return topic | {"channels": [each for each in topic["channels"] if not is_ephemeral(each["channel_name"])]}
