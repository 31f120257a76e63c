"""Which records were first acquired together, of share partitions that nobody reads for now.

Members that come again are given as much of them near the limit of deliveries as if somebody had stayed. It is not part
of the stored state: another leader takes each run of records with equal deliveries for a batch, as in Kafka.
"""

from collections import OrderedDict
from typing import Final

from ottla.queues.delivery_throttle import AcquiredBatches
from ottla.queues.share_state import ShareKey

BATCHES_MAX: Final = 65_536
"""Batches that are remembered in all; the partition that was left first is forgotten first."""

Epochs = tuple[int, int]
"""Leader epoch and state epoch."""


class RememberedBatches:
    """Belongs to the event loop."""

    def __init__(self, batches_max: int = BATCHES_MAX) -> None:
        self._batches_max = batches_max
        self._kept: OrderedDict[ShareKey, tuple[Epochs, AcquiredBatches]] = OrderedDict()
        self._count = 0

    def keep(self, key: ShareKey, epochs: Epochs, batches: AcquiredBatches) -> None:
        """Nobody reads a partition any more."""
        self.take(key, epochs)
        if batches.count:
            self._kept[key] = epochs, batches
            self._count += batches.count
        while self._count > self._batches_max:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._count -= oldest.count

    def take(self, key: ShareKey, epochs: Epochs) -> AcquiredBatches | None:
        """Somebody reads a partition again; None where nothing is known of it in these epochs."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._count -= kept[1].count
        return kept[1] if kept[0] == epochs else None
