"""What a broker tells the others of itself when it starts."""

from collections.abc import Mapping
from types import MappingProxyType

from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store.location import ZOOKEEPER
from ottla.network.address import Address
from ottla.runtime.rng import Rng
from ottla.server.other_gateways import NSQ, NSQ_HTTP
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager
from ottla.storage.partition_metadata import format_topic_id

_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (addresses nobody can come to)


def registration_of(
    settings: BrokerSettings,
    addresses: Mapping[str, Address],
    logs: LogManager,
    rng: Rng,
    host_name: str | None,
    others: Mapping[str, Address] = MappingProxyType({}),
) -> BrokerRegistration:
    """The registration of a broker that listens at `addresses`, by the names of its listeners, and for clients of other
    gateways at `others`.

    Others find it at what it advertises, else where it listens; a listener on every address of the machine is found
    under `host_name`, and with None, when all brokers are of one host, at its loopback address. Clients that come by a
    listener which advertises nothing are told the address they came by, while all brokers are of one host.
    """
    advertised = settings.listeners.advertised
    endpoints = {
        name: (advertised[name].host, advertised[name].port) if name in advertised else _found_at(address, host_name)
        for name, address in addresses.items()
    }
    first = next(iter(addresses))
    is_told = first in advertised or host_name is not None
    host, port = endpoints[first]
    return BrokerRegistration(
        host=host if is_told else None,
        port=port,
        rack=settings.text("broker.rack"),
        endpoints=endpoints | _nsq_endpoints(settings, others),
        incarnation=str(rng.uuid()),
        directories=tuple(map(format_topic_id, logs.directory_ids)),
        previous_epoch=logs.use.broker_epoch,
        clean_since=logs.use.clean_since,
        flush=settings.boolean("log.flush.before.ack"),
        min_isr=settings.integer("min.insync.replicas"),
        between=settings.listeners.between_brokers,
    )


def _nsq_endpoints(settings: BrokerSettings, others: Mapping[str, Address]) -> dict[str, tuple[str, int]]:
    """Where NSQ clients are sent to."""
    found = {each.lower(): others[each].port for each in (NSQ, NSQ_HTTP) if each in others}
    if not found:
        return {}
    import socket

    host = settings.text("nsq.broadcast.address") or socket.gethostname()
    return {name: (host, port) for name, port in found.items()}


def name_of_host(location: str) -> str | None:
    """What brokers of other hosts call this one; None where a store can only have brokers of this host."""
    if not location.startswith(ZOOKEEPER):
        return None
    import socket

    return socket.gethostname()


def _found_at(address: Address, host_name: str | None) -> tuple[str, int]:
    if address.host in _EVERYWHERE:
        return host_name or ("::1" if address.host == "::" else "127.0.0.1"), address.port
    return address.host, address.port
