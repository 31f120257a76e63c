"""Whether the listeners of the brokers of one command can be open at once."""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.server.other_gateways import LISTENER_SETTINGS
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import Endpoint, parse_host_port

ALL_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 (compared, not bound)


def require_distinct(brokers: Sequence[BrokerSettings]) -> None:
    """Refuse two listeners at one address. Raises InvalidSettingError."""
    seen: list[tuple[str, Endpoint]] = []
    for number, settings in enumerate(brokers, 1):
        for setting, endpoint in _endpoints(settings):
            name = setting if len(brokers) == 1 else f"{setting} of broker {number}"
            for other_name, other in seen:
                if _is_one_address(endpoint, other):
                    raise InvalidSettingError(
                        f"{name} and {other_name} have one port, {endpoint.port}: give each listener one of its own"
                        + ("" if len(brokers) == 1 else "; those of each further broker are one higher")
                    )
            seen.append((name, endpoint))


def _endpoints(settings: BrokerSettings) -> Iterator[tuple[str, Endpoint]]:
    for endpoint in settings.listeners.opened:
        yield f"listener {endpoint.listener}", endpoint
    for name in LISTENER_SETTINGS:
        if address := settings.text(name):
            yield name, Endpoint(*parse_host_port(address))


def _is_one_address(one: Endpoint, other: Endpoint) -> bool:
    if not one.port or one.port != other.port:
        return False
    return one.host == other.host or bool(ALL_HOSTS & {one.host, other.host})
