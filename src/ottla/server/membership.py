"""What a broker needs to be one of several: it is made only for brokers that share a store.

BrokerChannels      connections to the others      PeerAuthenticator   whom this one believes
ControllerChannel   asks whoever is the controller Forwarding          the same for requests of clients
Heartbeats          tell the controller that this broker lives, and when it wants to stop
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.broker.cluster import ClusterView
from ottla.broker.replica_log_ends import ReplicaLogEnds
from ottla.broker.transaction_coordinator_channel import TransactionCoordinatorChannel
from ottla.broker.transaction_marker_channel import TransactionMarkerChannel
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactions import TransactionService
from ottla.client.asyncio_io import AsyncioIo
from ottla.gateways.kafka.forwarding import Forwarding
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.broker_lifecycle import BrokerLifecycle
from ottla.metadata.controller.controller import Controller
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.model.errors import ApiError
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.authenticator import PeerAuthenticator
from ottla.peers.broker_channels import BrokerChannels
from ottla.peers.cluster_secret import BrokerIdentity
from ottla.peers.controller_channel import ControllerChannel
from ottla.peers.departed_brokers import DepartedBrokers
from ottla.peers.heartbeats import Disks, Heartbeats
from ottla.peers.lingering_brokers import LingeringBrokers
from ottla.peers.peer_connection import PeerIo
from ottla.server.doors import Doors
from ottla.settings.broker_settings import BrokerSettings

logger = logging.getLogger(__name__)

LEAVE_MS_MAX: Final = 30_000
"""How long a broker that is to stop waits for others to lead what it leads."""


class ClusterMembership:
    """Belongs to the event loop. Its parts may be handed out before it is started."""

    def __init__(
        self,
        settings: BrokerSettings,
        doors: Doors,
        lifecycle: BrokerLifecycle,
        controller: Controller,
        publisher: MetadataPublisher,
        disks: Callable[[], Disks],
        io: PeerIo | None = None,
    ) -> None:
        """`disks` says how the data directories are; `io` is where connections to other brokers come from, sockets
        unless told.
        """
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
        self.controller = ControllerChannel(
            controller,
            publisher,
            self.channels,
            lambda: lifecycle.session.broker_epoch,
            clock=doors.clock,
            timer=doors.timer,
        )
        self.heartbeats = Heartbeats(
            self.controller,
            interval_ms=settings.integer("broker.heartbeat.interval.ms"),
            timeout_ms=settings.integer("broker.session.timeout.ms") // 2,
            timer=doors.timer,
            tasks=doors.tasks,
            disks=disks,
        )
        self._departed = DepartedBrokers(doors.timer, self._on_departed)
        self._lingering = LingeringBrokers(doors.timer, self._on_lingering)
        self._view: ClusterView  # which clients see: from `identify` on
        self._controller = controller
        lifecycle.on_became_controller.append(lambda _epoch: self._look_for_all())
        lifecycle.on_registered.append(lambda _session: self.heartbeats.beat_soon())

    def marker_channel(self, local: TransactionMarkers) -> TransactionMarkerChannel:
        """Takes the markers of this broker's coordinator to whoever leads the partitions."""
        return TransactionMarkerChannel(local, self.channels, self._current_image, self._doors.tasks)

    def coordinator_channel(
        self, local: TransactionService, partition_of: Callable[[str], int]
    ) -> TransactionCoordinatorChannel:
        """Asks the coordinator of a transaction, wherever it is."""
        return TransactionCoordinatorChannel(
            local,
            partition_of,
            self.channels,
            self._current_image,
            defer=self._doors.loop.call_soon,
            tasks=self._doors.tasks,
        )

    def _current_image(self) -> MetadataImage:
        return self._publisher.image

    async def identify(self, cluster_id: str, gateway: KafkaGateway) -> None:
        """The store is open: learn the secret, and believe those who know it. Raises StoreError."""
        doors = self._doors
        given = self._settings.text("cluster.secret")
        secret = await self._lifecycle.cluster_secret() if given is None else given.encode()
        identity = BrokerIdentity(self._settings.node_id, cluster_id, secret)
        self.channels.authentication = BrokerAuthentication(identity, doors.rng, doors.tasks)
        gateway.authenticator = PeerAuthenticator(identity, self.listener_name, doors.rng, doors.tasks)
        gateway.forwarding = Forwarding(self.controller)
        gateway.on_broker_left = self.channels.check
        self._view = gateway.broker.cluster
        self._controller.log_ends = ReplicaLogEnds(gateway.broker.offsets, self.channels).ask

    def join(self, image: MetadataImage) -> None:
        """This broker is registered, and this is the cluster."""
        self.channels.on_unreachable = self._on_unreachable
        self.channels.on_image(image)
        self._publisher.subscribe(self.channels.on_image)
        self._publisher.subscribe(self._departed.on_image)
        self._lingering.on_image(image)
        self._publisher.subscribe(self._lingering.on_image)
        self._publisher.subscribe(self.heartbeats.on_image)

    def start(self) -> None:
        """The doors are open: have the controller let clients come."""
        self.heartbeats.start()

    async def leave(self) -> None:
        """Have others lead what this broker leads before the doors are closed: if there are any, not for long."""
        active = self._publisher.image.active_brokers()
        is_last = active <= {self._settings.node_id}
        if is_last or self._settings.node_id not in active:
            return  # nobody could take over, or this broker leads nothing
        if not await self.heartbeats.leave(LEAVE_MS_MAX):
            logger.warning("not all leaders have moved to other brokers in time; stopping all the same")

    def _look_for_all(self) -> None:
        """A controller that was elected over one that died finds out by itself who is gone."""
        for broker_id in self._publisher.image.brokers:
            self.channels.check(broker_id)

    def _on_unreachable(self, broker_id: int, broker_epoch: int) -> None:
        """The controller fences the broker; the others see to it that one who died is no controller for long. Until
        it is fenced, clients hear that what it led has no leader, and ask again soon.
        """
        image = self._publisher.image
        self._departed.add(broker_id, broker_epoch, image)
        if self._lifecycle.is_controller:
            self._doors.tasks.spawn(self._report(broker_id, broker_epoch), f"broker {broker_id} is unreachable")
        elif broker_id == image.controller_id:
            self._lifecycle.controller_unreachable(image.controller_epoch)

    def _on_departed(self, broker_ids: frozenset[int]) -> None:
        self._view.departed = broker_ids

    def _on_lingering(self, broker_ids: frozenset[int]) -> None:
        self._view.lingering = broker_ids

    async def _report(self, broker_id: int, broker_epoch: int) -> None:
        try:
            await self._controller.broker_unreachable(broker_id, broker_epoch)
        except ApiError as error:
            logger.info("broker %d is unreachable, and it was not fenced: %s", broker_id, error)

    def close(self) -> None:
        """Leave the others alone."""
        self.heartbeats.close()
        self.channels.close()
