"""How many connections there may be, and from where."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from ottla.runtime.sampled_rate import SampledRate, Windows

NO_RATE: Final = 2**31 - 1
"""A rate of new connections that is none."""

ADDRESSES_MAX: Final = 10_000
"""Of so many addresses that have a rate it is known what they did; of more, whoever was quiet longest is forgotten."""

_NO_OVERRIDES: Mapping[str, int] = MappingProxyType({})


class ConnectionQuotas:
    """Counts open connections, of one listener or of several that share it.

    The limits may be set anew at any time. Connections that are open stay open when there are more than a new limit
    allows; others are refused until enough of them have gone.
    """

    __slots__ = (
        "_accepted",
        "_accepted_from",
        "_by_ip",
        "_windows",
        "creation_rate_max",
        "creation_rate_of",
        "max_connections",
        "max_connections_per_ip",
        "open_count",
        "per_ip_overrides",
    )

    def __init__(
        self,
        max_connections: int,
        max_connections_per_ip: int,
        per_ip_overrides: Mapping[str, int] = _NO_OVERRIDES,
        windows: Windows = Windows(),  # noqa: B008 (it never changes)
    ) -> None:
        """`windows` are those over which rates of new connections are measured."""
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.per_ip_overrides = per_ip_overrides
        """Addresses that may have another number of connections than `max_connections_per_ip`."""
        self.creation_rate_max = NO_RATE
        """New connections a second, over all listeners (`max.connection.creation.rate`)."""
        self.creation_rate_of: Callable[[str], float | None] | None = None
        """New connections a second from an address, None for any; None while no address has a quota (KIP-612)."""
        self._windows = windows
        self._accepted = SampledRate(windows)
        self._accepted_from: OrderedDict[str, SampledRate] = OrderedDict()
        self._by_ip: Counter[str] = Counter()
        self.open_count = 0

    def admit(self, ip: str) -> str | None:
        """Count one more connection from `ip`. If it may not be, it is not counted and the reason returned."""
        if self.open_count >= self.max_connections:
            return f"there are {self.open_count} connections, and max.connections allows {self.max_connections}"
        count, allowed = self._by_ip.get(ip, 0), self.per_ip_overrides.get(ip, self.max_connections_per_ip)
        if count >= allowed:
            setting = "max.connections.per.ip" + (".overrides" if ip in self.per_ip_overrides else "")
            return f"{ip} has {count} connections, and {setting} allows {allowed}"
        self._by_ip[ip] += 1
        self.open_count += 1
        return None

    def accept_pause_ms(self, now_ms: int) -> int:
        """Count a connection that was accepted; for how long no other is to be, one window at most."""
        if self.creation_rate_max >= NO_RATE:
            return 0
        self._accepted.record(1, now_ms)
        return min(self._accepted.excess_ms(self.creation_rate_max, now_ms), self._windows.size_ms)

    def refusal_ms(self, ip: str, now_ms: int) -> int:
        """For how long a new connection from `ip` is to be kept waiting before it is closed; 0 when it is served.

        As in Kafka: to close it at once would have its client come back at once. It counts only when it is served.
        """
        if self.creation_rate_of is None:
            return 0
        bound = self.creation_rate_of(ip)
        if bound is None:
            return 0
        rate = self._accepted_from.get(ip)
        if rate is None:
            if len(self._accepted_from) >= ADDRESSES_MAX:
                self._accepted_from.popitem(last=False)
            rate = self._accepted_from[ip] = SampledRate(self._windows)
        else:
            self._accepted_from.move_to_end(ip)
        rate.record(1, now_ms)
        excess_ms = min(rate.excess_ms(bound, now_ms), self._windows.size_ms)
        if excess_ms:
            rate.record(-1, now_ms)
        return excess_ms

    def release(self, ip: str) -> None:
        """An admitted connection is closed."""
        self.open_count -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
