"""The sections of the broker's settings that its parts take."""

import logging
from dataclasses import replace

from ottla.groups.group_config import GroupConfig
from ottla.network.config import NetworkConfig
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.connection_overrides import parse_connection_overrides

logger = logging.getLogger(__name__)

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


def network_config(settings: BrokerSettings, connections_max: int) -> NetworkConfig:
    """The limits of listeners and connections; what was not set keeps the default of `NetworkConfig`.

    There are never more than `connections_max` connections, as many as may be open beside the data files.
    """
    values = {name.replace(".", "_"): settings.integer(name) for name in _NETWORK_SETTINGS if settings.is_set(name)}
    overrides = parse_connection_overrides(settings.text("max.connections.per.ip.overrides") or "")
    config = NetworkConfig(**values, max_connections_per_ip_overrides=overrides)
    if config.max_connections <= connections_max:
        return config
    if settings.is_set("max.connections"):
        logger.warning(
            "max.connections is %d, but the limit on open files (ulimit -n) leaves room for %d beside the data files; "
            "that many are accepted",
            config.max_connections,
            connections_max,
        )
    return replace(config, max_connections=connections_max)


def group_config(settings: BrokerSettings) -> GroupConfig:
    """The settings of the group coordinator."""
    return GroupConfig.from_settings(settings)
