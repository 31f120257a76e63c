"""Several brokers on one host, from the settings of one: directories and addresses that follow each other.

DIR                the first broker, and the store in DIR/metadata.db: what one broker left goes on as part of a cluster
DIR/brokers/2      the second, its ports one above those of the first, or free ones
DIR/brokers/3      the third
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from ottla.metadata.store.location import EMBEDDED
from ottla.server.other_gateways import LISTENER_SETTINGS
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import PORT_MAX, Endpoint, parse_host_port


def broker_settings(given: Mapping[str, str], count: int) -> list[dict[str, str]]:
    """What each of `count` brokers is given. Raises InvalidSettingError."""
    first = BrokerSettings(given)
    data_dir = Path(first.data_directory).absolute()
    return [dict(given), *(_moved(given, first, data_dir, index) for index in range(1, count))]


def shared_location(given: Mapping[str, str], metadata: str | None) -> str:
    """Where the store of brokers is that share one, when the command line says nothing or says where."""
    if metadata not in (None, EMBEDDED):
        assert metadata is not None
        return metadata
    return f"{EMBEDDED}:{Path(BrokerSettings(given).data_directory).absolute()}"


def _moved(given: Mapping[str, str], first: BrokerSettings, data_dir: Path, index: int) -> dict[str, str]:
    settings = {name: text for name, text in given.items() if name not in ("log.dir", "log.dirs", "broker.id")}
    settings["log.dirs"] = str(data_dir / "brokers" / str(index + 1))
    settings["listeners"] = ",".join(str(_next(endpoint, index)) for endpoint in first.listeners.opened)
    if first.listeners.advertised:
        settings["advertised.listeners"] = ",".join(
            str(_next(endpoint, index)) for endpoint in first.listeners.advertised.values()
        )
    for name in LISTENER_SETTINGS:
        if first.text(name):
            listener = _next(Endpoint(*parse_host_port(first.text(name) or "")), index)
            settings[name] = str(listener).partition("://")[2]
    if first.is_set("node.id"):
        settings["node.id"] = str(first.node_id + index)
    return settings


def _next(endpoint: Endpoint, index: int) -> Endpoint:
    if endpoint.port == 0:
        return endpoint
    if endpoint.port + index > PORT_MAX:
        raise InvalidSettingError(f"there is no port {endpoint.port + index} for broker {index + 1}: begin lower")
    return replace(endpoint, port=endpoint.port + index)
