"""How many connections there may be, and from where."""

from collections import Counter


class ConnectionQuotas:
    """Counts open connections, of one listener or of several that share it."""

    __slots__ = ("_by_ip", "_max", "_max_per_ip", "open_count")

    def __init__(self, max_connections: int, max_connections_per_ip: int) -> None:
        self._max = max_connections
        self._max_per_ip = max_connections_per_ip
        self._by_ip: Counter[str] = Counter()
        self.open_count = 0

    def admit(self, ip: str) -> str | None:
        """Count one more connection from `ip`. If it may not be, it is not counted and the reason returned."""
        if self.open_count >= self._max:
            return f"there are {self.open_count} connections, as many as max.connections allows"
        if self._by_ip[ip] >= self._max_per_ip:
            return f"{ip} has {self._by_ip[ip]} connections, as many as max.connections.per.ip allows"
        self._by_ip[ip] += 1
        self.open_count += 1
        return None

    def release(self, ip: str) -> None:
        """An admitted connection is closed."""
        self.open_count -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
