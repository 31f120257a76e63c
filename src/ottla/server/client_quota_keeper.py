"""Hands the client quotas that the cluster has agreed on to the parts that keep them."""

from ottla.broker.quota_limits import QuotaLimits
from ottla.broker.quota_manager import ClientQuotaManager, QuotaKey
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.gateways.kafka.request_quotas import RequestQuotas
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.runtime.clock import monotonic_ns


class ClientQuotaKeeper:
    """A subscriber of the metadata. Belongs to the event loop."""

    def __init__(self, manager: ClientQuotaManager, gateway: KafkaGateway, connections: ConnectionQuotas) -> None:
        self._manager = manager
        self._gateway = gateway
        self._connections = connections
        self._requests = RequestQuotas(manager, monotonic_ns)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        if delta.has_changed_quotas:
            self.apply(image)

    def apply(self, image: MetadataImage) -> None:
        """Have what is set hold: also for the start, before the doors open. Without quotas no request is counted."""
        self._manager.configure(image.client_quotas)
        self._gateway.quotas = self._requests if self._manager.has_limits else None
        limits = QuotaLimits(image.client_quotas, QuotaKey.CONNECTION_CREATION_RATE)
        self._connections.creation_rate_of = limits.of_ip if limits else None
