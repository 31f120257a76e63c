"""How many bytes a second followers that are not in sync may be given, or may fetch (KIP-73).

    leader.replication.throttled.rate     what this broker gives to followers of throttled partitions it leads
    follower.replication.throttled.rate   what it fetches of throttled partitions it follows

Moving partitions must not take the network and the disks from clients. Who is in sync is never slowed down: the clients
wait for it. So a partition that has caught up no longer counts the throttle.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from ottla.runtime.clock import Clock
from ottla.runtime.sampled_rate import SampledRate, Windows
from ottla.settings.value import LONG_MAX

ALL_REPLICAS: Final = "*"


class ThrottledReplicas:
    """Which replicas of a topic are throttled: "0:1,0:2" is partition 0 on brokers 1 and 2, "*" is all of them."""

    __slots__ = ("_all", "_some")

    def __init__(self, items: Iterable[str] = ()) -> None:
        """`items` are as the settings have them, and are known to be valid."""
        texts = frozenset(items)
        self._all = ALL_REPLICAS in texts
        self._some = frozenset(
            (int(index), int(broker_id))
            for index, broker_id in (text.split(":") for text in texts - {ALL_REPLICAS, ""})
        )

    def has(self, index: int, broker_id: int) -> bool:
        """Whether the replica of a partition on a broker is throttled."""
        return self._all or (index, broker_id) in self._some


class ReplicationQuota:
    """One of the two rates of a broker, and what was spent of it. Belongs to the event loop."""

    __slots__ = ("_clock", "_rate", "_spent", "_windows")

    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock = clock
        # As in Kafka: otherwise ten seconds' worth of copies would go out at once.
        self._windows = replace(windows, counts_missing=False)
        self._spent = SampledRate(self._windows)
        self._rate = LONG_MAX

    @property
    def rate(self) -> int:
        """Bytes a second; it may change at any time, and holds from then on, whatever was spent before."""
        return self._rate

    @rate.setter
    def rate(self, rate: int) -> None:
        if rate != self._rate:
            # A pause between two moves is no credit for the second one.
            self._spent = SampledRate(self._windows)
        self._rate = rate

    def record(self, size: int) -> None:
        """So many bytes of throttled replicas were given or fetched."""
        self._spent.record(size, self._clock.monotonic_ms())

    @property
    def wait_ms(self) -> int:
        """For how long nothing more is to be given or fetched; 0 when the rate is kept."""
        if self.rate == LONG_MAX:
            return 0
        return self._spent.excess_ms(max(self.rate, 1), self._clock.monotonic_ms())

    @property
    def left_bytes(self) -> int:
        """How much may be given or fetched now within the rate."""
        if self.rate == LONG_MAX:
            return LONG_MAX
        return self._spent.left(max(self.rate, 1), self._clock.monotonic_ms())
