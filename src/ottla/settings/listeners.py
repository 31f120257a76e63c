"""The listeners a broker is to open and the addresses it tells clients, of settings that must agree (KIP-103, KIP-113).

    listeners=INTERNAL://10.0.0.5:9092,EXTERNAL://:9094        where connections are taken, each name once
    advertised.listeners=EXTERNAL://kafka.example:9094         what who came by EXTERNAL is told
    listener.security.protocol.map=INTERNAL:PLAINTEXT,...      how each name speaks (`SecurityProtocol`)

Who came by a listener that advertises nothing is told the address it came by. Listeners that belong to the controllers
(`controller.listener.names`) are not opened, since there is no KRaft quorum: Kafka's own example file has one.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ottla.model.security_protocol import SecurityProtocol
from ottla.settings.definition import InvalidSettingError, shortened
from ottla.settings.endpoint import Endpoint, parse_endpoint
from ottla.settings.value import SettingValue, parse_list

DEFAULT_PROTOCOL_MAP: Final = ",".join(f"{name}:{name}" for name in SecurityProtocol)
LISTENER_SETTINGS: Final = ("listeners", "listener.security.protocol.map")
"""What may be set on a running broker and may not fit it any more when it is started with other listeners."""

LISTENERS_MAX: Final = 16
"""Whoever may change `listeners` could open thousands: each takes sockets, and has a bound on responses of its own."""

_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 (addresses nobody can come to)


class ListenerEndpoints(Struct, frozen=True):
    """What to open, in the order of the setting, and what to advertise, by the name of the listener."""

    opened: tuple[Endpoint, ...]
    advertised: Mapping[str, Endpoint]
    not_opened: tuple[Endpoint, ...]
    """Those of the controllers."""
    between_brokers: str
    """The listener by which brokers speak to each other: `inter.broker.listener.name`, the one that is named as
    `security.inter.broker.protocol`, or the first.
    """
    protocols: Mapping[str, SecurityProtocol]
    """How each of those that are opened speaks, by its name."""
    others: Mapping[str, SecurityProtocol]
    """What the map of protocols has besides, by name."""


def listeners_of(values: Mapping[str, SettingValue]) -> ListenerEndpoints:
    """The listeners of a broker's settings, checked. Raises InvalidSettingError, which names what does not fit."""
    controllers = {name.upper() for name in _items(values["controller.listener.names"])}
    endpoints = _endpoints("listeners", values)
    opened = tuple(each for each in endpoints if each.listener not in controllers)
    if not opened:
        raise InvalidSettingError("listeners has none for clients: write PLAINTEXT://host:port")
    if len(opened) > LISTENERS_MAX:
        raise InvalidSettingError(f"listeners has {len(opened)} listeners: there may be {LISTENERS_MAX}")
    _require_different_ports(opened)
    protocol_map = _protocol_map(_items(values["listener.security.protocol.map"]))
    protocols = _protocols_of(opened, protocol_map)
    names = [each.listener for each in opened]
    advertised = {
        each.listener: each for each in _endpoints("advertised.listeners", values) if each.listener not in controllers
    }
    for name, endpoint in advertised.items():
        if name not in names:
            raise InvalidSettingError(
                f"advertised.listeners names {name}, which listeners does not: {', '.join(names)}"
            )
        if endpoint.host in _EVERYWHERE:
            raise InvalidSettingError(f"advertised.listeners={endpoint} names no host that a client could come to")
    return ListenerEndpoints(
        opened,
        MappingProxyType(advertised),
        tuple(each for each in endpoints if each.listener in controllers),
        _between_brokers(values, names),
        MappingProxyType(protocols),
        MappingProxyType({name: protocol for name, protocol in protocol_map.items() if name not in protocols}),
    )


def _between_brokers(values: Mapping[str, SettingValue], names: list[str]) -> str:
    """The listener by which brokers speak to each other."""
    wanted, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    if wanted is not None and protocol is not None:
        raise InvalidSettingError(
            "inter.broker.listener.name and security.inter.broker.protocol both say which listener brokers use: give "
            "one of them"
        )
    if wanted is None and protocol is None:
        return names[0]
    setting = "inter.broker.listener.name" if protocol is None else "security.inter.broker.protocol"
    name = str(wanted if protocol is None else protocol)
    if name.upper() not in names:
        raise InvalidSettingError(f"{setting}={shortened(name)!r} is none of listeners: {', '.join(names)}")
    return name.upper()


def listeners_set_while_running(static: str, dynamic: str) -> str:
    """The listeners of a broker on which `dynamic` was set while it ran: those it was started with, and the new ones.

    A name that it was started with stands where it stood at the start.
    """
    first = {_name_of(text): text for text in parse_list(static)}
    added = [text for text in parse_list(dynamic) if _name_of(text) not in first]
    return ",".join((*first.values(), *added))


def require_listeners_of_the_start(static: str, dynamic: str) -> None:
    """Refuse to close or move a listener that the broker was started with: nobody could come to it and undo that.

    Kafka likewise keeps the listeners it advertises. Raises InvalidSettingError.
    """
    wanted = {parse_endpoint(text) for text in parse_list(dynamic)}
    for text in parse_list(static):
        if parse_endpoint(text) not in wanted:
            raise InvalidSettingError(
                f"listeners leaves out {text.strip()}, with which the broker was started: name it, and what is to be "
                "opened beside it"
            )


def _name_of(text: str) -> str:
    return text.partition("://")[0].strip().upper()


def _items(value: SettingValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _endpoints(setting: str, values: Mapping[str, SettingValue]) -> tuple[Endpoint, ...]:
    """The endpoints of a setting, each name once."""
    endpoints: dict[str, Endpoint] = {}
    for text in _items(values[setting]):
        try:
            endpoint = parse_endpoint(text)
        except InvalidSettingError as error:
            raise InvalidSettingError(f"{setting}: {error.message}") from error
        if endpoint.listener in endpoints:
            raise InvalidSettingError(
                f"{setting} names {endpoint.listener} more than once: give each a name of its own"
            )
        endpoints[endpoint.listener] = endpoint
    return tuple(endpoints.values())


def _require_different_ports(opened: Iterable[Endpoint]) -> None:
    """Two listeners may share a port only when one address is IPv4 and the other IPv6 (KIP-797)."""
    taken: dict[tuple[int, bool], Endpoint] = {}
    for each in opened:
        families = {":" in each.host} if each.host not in ("", "*") else {True, False}
        for family in families:
            other = taken.setdefault((each.port, family), each)
            if each.port and other is not each:
                raise InvalidSettingError(f"listeners has {other} and {each} at one port: give each its own")


def _protocols_of(
    opened: Iterable[Endpoint], protocol_map: Mapping[str, SecurityProtocol]
) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for each in opened:
        protocol = protocol_map.get(each.listener)
        if protocol is None:
            raise InvalidSettingError(
                f"listeners names {each.listener}, which has no protocol: add {each.listener}:PLAINTEXT to "
                "listener.security.protocol.map"
            )
        protocols[each.listener] = protocol
    return protocols


def _protocol_map(entries: Iterable[str]) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not (name and colon and protocol in SecurityProtocol.__members__):
            raise InvalidSettingError(
                f"listener.security.protocol.map has {shortened(entry)!r}: write NAME:PROTOCOL, with one of "
                f"{', '.join(SecurityProtocol)}"
            )
        if name in protocols:
            raise InvalidSettingError(f"listener.security.protocol.map names {shortened(name)} more than once")
        protocols[name] = SecurityProtocol(protocol)
    return protocols
