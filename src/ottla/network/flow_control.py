"""When a connection is read, and who is closed when answers that nobody reads take too much memory.

    unanswered requests   |----------------|----------------|
    or bytes to be read   0            low water        high water
                                  read again <--      --> read no more

Decisions only: whoever moves the bytes asks, with the numbers it has counted.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from ottla.network.config import NetworkConfig

_UNDER_PRESSURE = 16
"""The share of its bytes that is left to each connection while all together have too many."""


class Debtor(Protocol):
    """A connection, as far as what it has not taken goes."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of answers in memory that it has not taken."""
        ...

    @property
    def is_blocked(self) -> bool:
        """Whether its peer has been offered more than it took."""
        ...

    @property
    def moved_ms(self) -> int:
        """When something moved on it last."""
        ...


D = TypeVar("D", bound=Debtor)


class FlowControl:
    """The limits of a listener's connections, and what follows from them. Never changes."""

    __slots__ = ("in_flight_max", "out_bytes_hard_max", "out_bytes_max", "out_bytes_min", "out_bytes_total_max")

    def __init__(self, config: NetworkConfig) -> None:
        self.in_flight_max = config.in_flight_requests_max
        """Unanswered requests of a connection."""
        self.out_bytes_max = config.out_bytes_max
        """Bytes of answers in memory that a connection has not taken."""
        self.out_bytes_min = config.out_bytes_max // _UNDER_PRESSURE
        """What each may have of them, whatever the others have."""
        self.out_bytes_total_max = config.out_bytes_total_max
        """Bytes of answers in memory that all connections together have not taken, before each may have less."""
        self.out_bytes_hard_max = config.out_bytes_hard_max
        """With more bytes than this over all, those who have not read for the longest time are closed."""

    def out_max(self, total_bytes: int) -> int:
        """What one connection may have pending when all together have `total_bytes`."""
        return self.out_bytes_min if total_bytes > self.out_bytes_total_max else self.out_bytes_max

    def is_full(self, in_flight: int, pending_bytes: int, total_bytes: int) -> bool:
        """Whether a connection is at its high-water mark: nothing more is to be asked of us."""
        return in_flight >= self.in_flight_max or pending_bytes > self.out_max(total_bytes)

    def is_low(self, in_flight: int, pending_bytes: int, total_bytes: int) -> bool:
        """Whether a connection is at its low-water mark: it goes on."""
        return in_flight <= self.in_flight_max // 2 and pending_bytes <= self.out_max(total_bytes) // 2

    def to_shed(self, connections: Iterable[D], total_bytes: int) -> list[D]:
        """Whom to close so that the total falls to its limit: the longest unmoved of those who do not read, first, and
        last those whom nothing was offered yet.
        """
        holders = (each for each in connections if each.pending_bytes)
        debtors = sorted(holders, key=lambda each: (not each.is_blocked, each.moved_ms))
        shed = []
        for each in debtors:
            if total_bytes <= self.out_bytes_total_max:
                break
            shed.append(each)
            total_bytes -= each.pending_bytes
        return shed
