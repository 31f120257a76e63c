"""Where brokers are: `HOST:PORT` and lists of it."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.errors import InvalidOptionError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
PORT_MAX = 65535


class Address(NamedTuple):
    """A host name or IP address without brackets, and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, default_host: str = DEFAULT_HOST, default_port: int = DEFAULT_PORT) -> Address:
    """Read one address.

    >>> [str(parse_address(text)) for text in ("localhost:9093", "[::1]:9092", ":9094", "9095", "broker")]
    ['localhost:9093', '[::1]:9092', '127.0.0.1:9094', '127.0.0.1:9095', 'broker:9092']

    A scheme as in `PLAINTEXT://host:port` is accepted and dropped. Raises InvalidOptionError.
    """
    rest = text.strip().rpartition("://")[2]
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise InvalidOptionError(f"{text!r} is not an address: write an IPv6 address as [::1]:{default_port}")
        port = tail[1:]
    elif rest.count(":") > 1:
        raise InvalidOptionError(
            f"{text!r} is not an address: write an IPv6 address in brackets, as [{rest}]:{default_port}"
        )
    elif ":" in rest:
        host, _, port = rest.partition(":")
    elif rest.isdecimal():
        host, port = "", rest
    else:
        host, port = rest, ""
    if any(character.isspace() or character in "/[]" for character in host):
        raise InvalidOptionError(f"{text!r} is not an address: write HOST:PORT, for example localhost:{default_port}")
    if not rest:
        raise InvalidOptionError(f"the address is empty: write HOST:PORT, for example localhost:{default_port}")
    return Address(host or default_host, _parse_port(port, text) if port else default_port)


def parse_addresses(given: str | Iterable[str | Address]) -> tuple[Address, ...]:
    """Read addresses, at least one: comma-separated in a string, or a list of such strings and of pairs.

    >>> [str(each) for each in parse_addresses(["a:9093,b", ("c", 9094)])]
    ['a:9093', 'b:9092', 'c:9094']

    Raises InvalidOptionError.
    """
    found: list[Address] = []
    for each in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        match each:
            case str(text):
                found += [parse_address(part) for part in text.split(",") if part.strip()]
            case (str(host), int(port)) if host and 0 <= port <= PORT_MAX:
                found.append(Address(host, port))
            case _:
                what = "None" if each is None else f"{each!r} of type {type(each).__name__}"
                raise InvalidOptionError(
                    f"a broker address must be a string, such as 'localhost:{DEFAULT_PORT}', not {what}"
                )
    addresses = tuple(dict.fromkeys(found))
    if not addresses:
        raise InvalidOptionError(f"no broker address given: write HOST:PORT, for example localhost:{DEFAULT_PORT}")
    return addresses


def _parse_port(port: str, text: str) -> int:
    if not port.isdecimal() or not port.isascii() or len(port) > 5 or int(port) > PORT_MAX:
        raise InvalidOptionError(f"{text!r} is not an address: the port must be a number from 0 to 65535")
    return int(port)
