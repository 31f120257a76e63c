"""The gateways beside Kafka's that the settings of a broker ask for, each read when it is needed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.network.address import Address
from ottla.server.listeners import GatewayAt
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import Endpoint, parse_host_port

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.nsq.gateway import NsqGateway
    from ottla.network.wire_protocol import WireProtocol

NSQ = "NSQ"
NSQ_HTTP = "NSQ-HTTP"
NSQ_HTTPS = "NSQ-HTTPS"
NSQ_LOOKUPD = "NSQ-LOOKUPD"
REDIS = "REDIS"
LISTENER_SETTINGS = (
    "nsq.listener",
    "nsq.http.listener",
    "nsq.https.listener",
    "nsq.lookupd.http.listener",
    "redis.listener",
)
NSQ_NEEDS_LISTENER = LISTENER_SETTINGS[1:4]


def other_gateways(settings: BrokerSettings) -> list[GatewayAt]:
    """What else a broker serves than Kafka's clients. Raises InvalidSettingError."""
    gateways = []
    nsq, nsq_http, nsq_https, nsq_lookupd, redis = (settings.text(name) for name in LISTENER_SETTINGS)
    name = next((each for each in NSQ_NEEDS_LISTENER if settings.text(each)), None)
    if name is not None and not nsq:
        raise InvalidSettingError(f"{name} needs nsq.listener: give the address of NSQ clients too")
    if nsq_https and not settings.text("nsq.tls.cert"):
        raise InvalidSettingError("nsq.https.listener needs a certificate: set nsq.tls.cert")

    def redis_protocol(broker: "Broker") -> "WireProtocol":
        from ottla.gateways.redis.gateway import redis_protocol

        return redis_protocol(broker, settings)

    face = _NsqFace(settings)
    if nsq:
        gateways.append(GatewayAt(Endpoint(*parse_host_port(nsq), NSQ), face.protocol, face.started))
    if nsq_http:
        gateways.append(GatewayAt(Endpoint(*parse_host_port(nsq_http), NSQ_HTTP), face.http_protocol))
    if nsq_https:
        gateways.append(GatewayAt(Endpoint(*parse_host_port(nsq_https), NSQ_HTTPS), face.https_protocol))
    if nsq_lookupd:
        gateways.append(GatewayAt(Endpoint(*parse_host_port(nsq_lookupd), NSQ_LOOKUPD), face.lookupd_protocol))
    if redis:
        gateways.append(GatewayAt(Endpoint(*parse_host_port(redis), REDIS), redis_protocol))
    return gateways


def require_usable_gateways(settings: BrokerSettings) -> None:
    """Refuse settings with which these gateways could not be served, as they would. Raises InvalidSettingError."""
    if any(gateway.endpoint.listener == NSQ for gateway in other_gateways(settings)):
        from ottla.gateways.nsq.gateway import nsq_auth_servers
        from ottla.gateways.nsq.limits import NsqLimits
        from ottla.gateways.nsq.tls import nsq_tls_context

        limits = NsqLimits.from_settings(settings)
        nsq_tls_context(limits)
        nsq_auth_servers(limits, lambda below: 0)


class _NsqFace:
    """NSQ over TCP and HTTP, which are one gateway."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._gateway: NsqGateway | None = None

    def protocol(self, broker: "Broker") -> "WireProtocol":
        from ottla.gateways.nsq.gateway import nsq_protocol

        return nsq_protocol(self._gateway_over(broker))

    def http_protocol(self, broker: "Broker") -> "WireProtocol":
        from ottla.gateways.nsq.http_api import nsq_http_protocol

        return nsq_http_protocol(self._gateway_over(broker))

    def https_protocol(self, broker: "Broker") -> "WireProtocol":
        from ottla.gateways.nsq.http_api import nsq_http_protocol

        return nsq_http_protocol(self._gateway_over(broker), has_tls=True)

    def lookupd_protocol(self, broker: "Broker") -> "WireProtocol":
        from ottla.gateways.nsq.lookup.cluster_api import cluster_lookup_protocol

        return cluster_lookup_protocol(self._gateway_over(broker))

    def started(self, addresses: Mapping[str, Address]) -> None:
        assert self._gateway is not None
        tcp, http, https = (addresses[name].port if name in addresses else 0 for name in (NSQ, NSQ_HTTP, NSQ_HTTPS))
        self._gateway.start(tcp, http, https)

    def _gateway_over(self, broker: "Broker") -> "NsqGateway":
        if self._gateway is None:
            from ottla.gateways.nsq.gateway import NsqGateway
            from ottla.gateways.nsq.limits import NsqLimits

            self._gateway = NsqGateway(broker, NsqLimits.from_settings(self._settings))
        return self._gateway
