"""`max.connections.per.ip.overrides`: addresses that may have another number of connections than the rest.

    127.0.0.1:1000, 10.0.0.7:5, ::1:1000

Kafka takes names of hosts as well and looks them up once; here an address is written as a number, so that what holds
does not depend on when a name was looked up.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ottla.settings.value import SettingValue, parse_list


def parse_connection_overrides(text: str) -> Mapping[str, int]:
    """How many connections each address may have. The count follows the last colon. Raises ValueError with the reason.

    >>> dict(parse_connection_overrides("127.0.0.1:5, ::1:7"))
    {'127.0.0.1': 5, '::1': 7}
    """
    import ipaddress  # only who sets it waits for it

    overrides: dict[str, int] = {}
    for entry in parse_list(text):
        address, _, count = entry.rpartition(":")
        try:
            parsed = str(ipaddress.ip_address(address.strip().removeprefix("[").removesuffix("]")))
        except ValueError:
            raise ValueError(f"must be ADDRESS:COUNT, with an IP address, not {entry[:100]!r}") from None
        if not (count.strip().isascii() and count.strip().isdecimal() and len(count) <= 10):
            raise ValueError(f"must be ADDRESS:COUNT, with a whole number of at least 0, not {entry[:100]!r}")
        overrides[parsed] = int(count)
    return MappingProxyType(overrides)


class ConnectionOverrides:
    """Allows what `parse_connection_overrides` reads."""

    allowed = " of ADDRESS:COUNT, separated by commas"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        try:
            parse_connection_overrides(value)
        except ValueError as error:
            return str(error)
        return None
