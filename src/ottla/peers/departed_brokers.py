"""Brokers whose process is gone, as this broker knows before the controller has decided anything."""

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.metadata.image.image import MetadataImage
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

BELIEVED_MS: Final = 3_000
"""For how long a refused connection is taken for a death that nobody has decided: an election takes a tenth of it."""


class DepartedBrokers:
    """Belongs to the event loop. One is in it until the metadata say anything new of it, `BELIEVED_MS` at most."""

    def __init__(self, timer: Timer, tell: Callable[[frozenset[int]], None]) -> None:
        """`tell` hears who is gone whenever that changes."""
        self._timer = timer
        self._tell = tell
        self._epochs: dict[int, int] = {}
        self._forget: dict[int, TimerTask] = {}

    def add(self, broker_id: int, broker_epoch: int, image: MetadataImage) -> None:
        """Nobody listens any more where this broker did."""
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.broker_epoch != broker_epoch or broker_id in self._epochs:
            return
        self._epochs[broker_id] = broker_epoch
        self._forget[broker_id] = self._timer.schedule(BELIEVED_MS, partial(self._remove, [broker_id]))
        self._tell(frozenset(self._epochs))

    def on_image(self, image: MetadataImage, _delta: object = None) -> None:
        """The image has changed: forget those who are fenced in it, gone, or started anew."""
        if self._epochs:
            self._remove(
                [
                    broker_id
                    for broker_id, broker_epoch in self._epochs.items()
                    if (broker := image.brokers.get(broker_id)) is None
                    or broker.fenced
                    or broker.broker_epoch != broker_epoch
                ]
            )

    def _remove(self, broker_ids: list[int]) -> None:
        for broker_id in broker_ids:
            del self._epochs[broker_id]
            self._forget.pop(broker_id).cancel()
        if broker_ids:
            self._tell(frozenset(self._epochs))
