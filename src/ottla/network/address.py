"""Where a socket's ends are."""

from typing import Any, NamedTuple

_MAPPED_IPV4 = "::ffff:"


class Address(NamedTuple):
    """A host, by number unless somebody named it, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`; an IPv6 host stands in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, socket_address: Any) -> "Address":
        """From what `getpeername` or `getsockname` return. An IPv4 peer of an IPv6 socket gets its IPv4 address."""
        host, port = socket_address[:2]
        if host.startswith(_MAPPED_IPV4) and "." in host:
            host = host.removeprefix(_MAPPED_IPV4)
        return cls(host, port)
