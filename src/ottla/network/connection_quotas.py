"""How many connections there may be, and from where."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

_NO_OVERRIDES: Mapping[str, int] = MappingProxyType({})


class ConnectionQuotas:
    """Counts open connections, of one listener or of several that share it.

    The limits may be set anew at any time. Connections that are open stay open when there are more than a new limit
    allows; others are refused until enough of them have gone.
    """

    __slots__ = ("_by_ip", "max_connections", "max_connections_per_ip", "open_count", "per_ip_overrides")

    def __init__(
        self, max_connections: int, max_connections_per_ip: int, per_ip_overrides: Mapping[str, int] = _NO_OVERRIDES
    ) -> None:
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.per_ip_overrides = per_ip_overrides
        """Addresses that may have another number of connections than `max_connections_per_ip`."""
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

    def release(self, ip: str) -> None:
        """An admitted connection is closed."""
        self.open_count -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
