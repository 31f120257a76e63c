"""What a broker needs to be one of several: it is made only for brokers that share a store.

BrokerChannels      connections to the others      PeerAuthenticator   whom this one believes
ControllerChannel   asks whoever is the controller Forwarding          the same for requests of clients
"""

from ottla.client.asyncio_io import AsyncioIo
from ottla.gateways.kafka.forwarding import Forwarding
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.broker_lifecycle import BrokerLifecycle
from ottla.metadata.controller.controller import Controller
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.authenticator import PeerAuthenticator
from ottla.peers.broker_channels import BrokerChannels
from ottla.peers.cluster_secret import BrokerIdentity
from ottla.peers.controller_channel import ControllerChannel
from ottla.peers.peer_connection import PeerIo
from ottla.server.doors import Doors
from ottla.settings.broker_settings import BrokerSettings


class ClusterMembership:
    """Belongs to the event loop. Its parts may be handed out before it is started."""

    def __init__(
        self,
        settings: BrokerSettings,
        doors: Doors,
        lifecycle: BrokerLifecycle,
        controller: Controller,
        publisher: MetadataPublisher,
        io: PeerIo | None = None,
    ) -> None:
        """`io` is where connections to other brokers come from, sockets unless told."""
        self._settings = settings
        self._doors = doors
        self._lifecycle = lifecycle
        self._publisher = publisher
        self.listener_name = settings.listeners.between_brokers
        self.channels = BrokerChannels(
            settings.node_id,
            self.listener_name,
            io or AsyncioIo(doors.clock, doors.rng),
            clock=doors.clock,
            rng=doors.rng,
            timer=doors.timer,
            tasks=doors.tasks,
        )
        self.controller = ControllerChannel(controller, publisher, self.channels, clock=doors.clock, timer=doors.timer)

    async def identify(self, cluster_id: str, gateway: KafkaGateway) -> None:
        """The store is open: learn the secret, and believe those who know it. Raises StoreError."""
        doors = self._doors
        identity = BrokerIdentity(self._settings.node_id, cluster_id, await self._lifecycle.cluster_secret())
        self.channels.authentication = BrokerAuthentication(identity, doors.rng, doors.tasks)
        gateway.authenticator = PeerAuthenticator(identity, self.listener_name, doors.rng, doors.tasks)
        gateway.forwarding = Forwarding(self.controller)

    def join(self, image: MetadataImage) -> None:
        """This broker is registered, and this is the cluster."""
        self.channels.on_image(image)
        self._publisher.subscribe(self.channels.on_image)

    def close(self) -> None:
        """Leave the others alone."""
        self.channels.close()
