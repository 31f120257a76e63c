"""Hands the client quotas that the cluster has agreed on to the parts that keep them."""

from ottla.broker.quota_limits import QuotaLimits
from ottla.broker.quota_manager import QuotaKey
from ottla.broker.request_quotas import RequestQuotas
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.network.connection_quotas import ConnectionQuotas


class ClientQuotaKeeper:
    """A subscriber of the metadata. Belongs to the event loop."""

    def __init__(self, requests: RequestQuotas, gateway: KafkaGateway, connections: ConnectionQuotas) -> None:
        self._gateway = gateway
        self._connections = connections
        self._requests = requests

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        if delta.has_changed_quotas:
            self.apply(image)

    def apply(self, image: MetadataImage) -> None:
        """Apply what is set, before the listeners open too. Without quotas no request is counted."""
        self._requests.manager.configure(image.client_quotas)
        self._gateway.quotas = self._requests if self._requests.manager.has_limits else None
        limits = QuotaLimits(image.client_quotas, QuotaKey.CONNECTION_CREATION_RATE)
        self._connections.creation_rate_of = limits.of_ip if limits else None
