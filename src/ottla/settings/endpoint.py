"""Where a broker listens and what address it tells clients: `NAME://host:port`."""

import re
from typing import Final

from msgspec import Struct

from ottla.settings.definition import InvalidSettingError
from ottla.settings.value import SettingValue

PLAINTEXT: Final = "PLAINTEXT"
PORT_MAX: Final = 65_535

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*)://(.*)", re.ASCII)
_HOST_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]*)\]|([^:\[\]/\s]*)):(\d{1,5})", re.ASCII)


class Endpoint(Struct, frozen=True):
    """A listener: its name, the host (empty for every address of the machine) and the port (0 for a free one)."""

    host: str
    port: int
    listener: str = PLAINTEXT

    def __str__(self) -> str:
        """As in a `listeners` setting."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Read `NAME://host:port`, the name of a listener in any case; an IPv6 address stands in brackets.

    Raises InvalidSettingError.

    >>> parse_endpoint("PLAINTEXT://[::1]:9092")
    Endpoint(host='::1', port=9092, listener='PLAINTEXT')
    """
    url = _URL.fullmatch(text.strip())
    if url is None:
        raise InvalidSettingError(f"{text!r} is not an address: write it as PLAINTEXT://host:port")
    return Endpoint(*parse_host_port(url[2]), url[1].upper())


def parse_host_port(text: str) -> tuple[str, int]:
    """Read `host:port`, as on a command line. Raises InvalidSettingError.

    >>> parse_host_port("[::1]:9092"), parse_host_port(":0")
    (('::1', 9092), ('', 0))
    """
    match = _HOST_PORT.fullmatch(text.strip())
    if match is None:
        raise InvalidSettingError(f"{text!r} is not host:port (an IPv6 host is written in brackets)")
    port = int(match[3])
    if port > PORT_MAX:
        raise InvalidSettingError(f"port {port} of {text!r} is above {PORT_MAX}")
    return match[1] if match[1] is not None else match[2], port


class ListenAddress(Struct, frozen=True):
    """Allows `host:port`, or nothing for no listener."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return ": host:port, or empty"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        try:
            if value:
                parse_host_port(str(value))
        except InvalidSettingError:
            return f"must be host:port with a port of at most {PORT_MAX}, such as 127.0.0.1:4150 or :4150"
        return None


class ConnectAddresses(Struct, frozen=True):
    """Allows a list of `host:port`, each with both."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " of host:port"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, tuple)
        try:
            has_both = all(all(parse_host_port(str(each))) for each in value)
        except InvalidSettingError:
            has_both = False
        return None if has_both else "must be host:port, several of them with commas between, such as 127.0.0.1:4160"
