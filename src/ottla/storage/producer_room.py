"""How many idempotent producers the logs of a data directory remember together."""

from threading import Lock
from typing import Final

PRODUCERS_MAX: Final = 100_000
"""Apache Kafka has no limit, and whoever makes up producer ids fills its memory."""

PRODUCER_BYTES: Final = 1536
"""What one takes in a log it wrote to, with its last five batches."""


class ProducerRoom:
    """Counts them; logs are loaded in several threads.

    A log that remembers nobody may always remember one, so there may be as many more than `limit` as there are logs.
    """

    __slots__ = ("_lock", "limit", "taken")

    def __init__(self, limit: int = PRODUCERS_MAX) -> None:
        self._lock = Lock()
        self.limit = limit
        self.taken = 0
        """Producers remembered, counted in each log they wrote to."""

    @property
    def is_full(self) -> bool:
        """Whether a log has to forget some before it remembers another."""
        return self.taken >= self.limit

    def add(self, count: int) -> None:
        """So many more are remembered, or fewer."""
        with self._lock:
            self.taken += count
