"""Brokers that died a moment ago, which clients are still told of."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

LINGERS_MS: Final = 5_000
"""For how long one that died is told; Kafka needs about twice that to find out."""


class LingeringBrokers:
    """Belongs to the event loop. One is in it from when it is fenced until it serves again, `LINGERS_MS` at most.

    librdkafka forgets a broker that metadata leave out, and with it where a partition has gone that they move from it:
    it looks again after a second. One that stopped by itself has led nothing before it was fenced, and goes at once.
    """

    def __init__(self, timer: Timer, tell: Callable[[frozenset[int]], None]) -> None:
        """`tell` hears who lingers whenever that changes."""
        self._timer = timer
        self._tell = tell
        self._brokers: Mapping[int, BrokerImage] = {}
        self._forget: dict[int, TimerTask] = {}

    def on_image(self, image: MetadataImage, _delta: object = None) -> None:
        """The image has changed."""
        before, self._brokers = self._brokers, image.brokers
        if before is image.brokers:
            return
        gone = [each for each in self._forget if (known := image.brokers.get(each)) is None or not known.fenced]
        died = [each for each, broker in image.brokers.items() if broker.fenced and _served(before.get(each))]
        for broker_id in died:
            if broker_id not in self._forget:
                self._forget[broker_id] = self._timer.schedule(LINGERS_MS, partial(self._remove, [broker_id]))
        if gone:
            self._remove(gone)
        elif died:
            self._tell(frozenset(self._forget))

    def _remove(self, broker_ids: list[int]) -> None:
        for broker_id in broker_ids:
            self._forget.pop(broker_id).cancel()
        self._tell(frozenset(self._forget))


def _served(broker: BrokerImage | None) -> bool:
    return broker is not None and not broker.fenced and not broker.shutting_down
