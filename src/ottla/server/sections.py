"""The sections of the broker's settings that its parts take."""

from ottla.groups.group_config import GroupConfig
from ottla.model.broker_settings import BrokerSettings
from ottla.network.config import NetworkConfig

_NETWORK_SETTINGS = (
    "socket.request.max.bytes",
    "queued.max.request.bytes",
    "connections.max.idle.ms",
    "max.connections",
    "max.connections.per.ip",
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "socket.listen.backlog.size",
)


def network_config(settings: BrokerSettings) -> NetworkConfig:
    """The limits of listeners and connections; what was not set keeps the default of `NetworkConfig`."""
    values = {name.replace(".", "_"): settings.integer(name) for name in _NETWORK_SETTINGS if settings.is_set(name)}
    return NetworkConfig(**values)


def group_config(settings: BrokerSettings) -> GroupConfig:
    """The settings of the group coordinator."""
    return GroupConfig.from_settings(settings)
