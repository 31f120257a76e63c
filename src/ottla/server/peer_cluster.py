"""The cluster stage of a broker that is one of several: it is made only for brokers that share a store.

BrokerChannels      connections to the others      PeerAuthenticator   whom this one believes
ControllerChannel   asks whoever is the controller Forwarding          the same for requests of clients
Heartbeats          tell the controller that this broker lives, and when it wants to stop
Replication         has partitions lead and follow
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from ottla.broker.broker import Broker
from ottla.broker.cluster import ClusterView
from ottla.broker.cluster_share_groups import ShareGroupChannel
from ottla.broker.offsets import OffsetService
from ottla.broker.record_channel import RecordChannel
from ottla.broker.redis_exchange import RedisChannel
from ottla.broker.replica_log_ends import ReplicaLogEnds
from ottla.broker.share_read_channel import ShareReadChannel
from ottla.broker.transaction_coordinator_channel import TransactionCoordinatorChannel
from ottla.broker.transaction_marker_channel import TransactionMarkerChannel
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactions import TransactionService
from ottla.client.options import ClientOptions
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.forwarding import Forwarding
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.metadata.image.image import MetadataImage
from ottla.model.errors import ApiError
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.authenticator import PeerAuthenticator
from ottla.peers.broker_channels import BrokerChannels
from ottla.peers.cluster_secret import BrokerIdentity
from ottla.peers.controller_channel import ControllerChannel
from ottla.peers.departed_brokers import DepartedBrokers
from ottla.peers.heartbeats import Disks, Heartbeats
from ottla.peers.lingering_brokers import LingeringBrokers
from ottla.peers.peer_connection import PeerConnection, PeerIo
from ottla.peers.peer_sockets import PeerSockets
from ottla.peers.store_reach import StoreReach
from ottla.protocol.message import ZERO_UUID
from ottla.queues.share_states import StateChannel
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.roles import Roles
from ottla.runtime.environment import Environment
from ottla.runtime.purgatory import Purgatory
from ottla.server.listener_tls import BetweenBrokersTls
from ottla.server.metadata import Deciding, Metadata
from ottla.server.partition_manager import PartitionManager
from ottla.server.replica_directory_assignments import ReplicaDirectoryAssignments
from ottla.server.replication import Replication, selector_of
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

STORED: Final = "stored"
"""As `cluster.secret.accepted`: the secret that the cluster made for itself."""
ACCEPTED_CHARACTERS_MIN: Final = 16
"""As those of `cluster.secret`."""

LEAVE_MS_MAX: Final = 30_000
"""How long a broker that is to stop waits for others to lead what it leads."""


class PeerCluster:
    """A `Cluster` of several brokers. Belongs to the event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        metadata: Metadata,
        logs: LogManager,
        replicas: ReplicaManager,
        *,
        fetch_purgatory: Purgatory,
        opener: BatchDecompressor,
        offsets: OffsetService,
        view: ClusterView,
        io: PeerIo | None = None,
        tls: BetweenBrokersTls | None = None,
    ) -> None:
        """`view` is what clients see of the cluster; `io` is where connections to other brokers come from, sockets
        unless told. `tls` is how brokers speak TLS to each other, where they do.
        """
        self._settings = settings
        self._environment = environment
        self._metadata = metadata
        self._logs = logs
        self._view = view
        self._identity: BrokerIdentity | None = None
        """Who this broker is, once the store is open."""
        rng, clock, timer, tasks = environment.rng, environment.clock, environment.timer, environment.tasks
        self.channels = BrokerChannels(
            settings.node_id,
            settings.listeners.between_brokers,
            io or PeerSockets(clock, rng),
            clock=clock,
            rng=rng,
            timer=timer,
            tasks=tasks,
            authentication=BrokerAuthentication(self._known_identity, rng, tasks),
            on_unreachable=self._on_unreachable,
            tls=tls,
        )
        self.deciding = Deciding(
            settings,
            environment,
            metadata,
            others_reach=StoreReach(self.channels, metadata.current_image).any,
            log_ends=ReplicaLogEnds(offsets, self.channels).ask,
        )
        lifecycle = self.deciding.lifecycle
        self.controller = ControllerChannel(
            self.deciding.controller,
            metadata.publisher,
            self.channels,
            lambda: lifecycle.session.broker_epoch,
            clock=clock,
            timer=timer,
        )
        self.producer_ids = ProducerIdAllocator(self.controller.allocate_producer_ids, tasks)
        self.places = ReplicaDirectoryAssignments(
            settings.node_id,
            logs,
            replicas,
            metadata.current_image,
            self.controller.place_replicas,
            timer,
            tasks,
        )
        self._replication = Replication(
            settings,
            environment,
            logs,
            fetch_purgatory,
            opener,
            self.channels,
            self.controller.alter_partition,
            lambda: lifecycle.session.broker_epoch,
        )
        self.roles: Roles = self._replication.roles
        self.follower_quota = self._replication.follower_quota
        self.selector = selector_of(settings, metadata.current_image)
        self.heartbeats = Heartbeats(
            self.controller,
            interval_ms=settings.integer("broker.heartbeat.interval.ms"),
            timeout_ms=settings.integer("broker.session.timeout.ms") // 2,
            timer=timer,
            tasks=tasks,
            disks=self._disks,
        )
        self._departed = DepartedBrokers(timer, self._on_departed)
        self._lingering = LingeringBrokers(timer, self._on_lingering)
        self._is_started = False
        self._stood_down_at: MetadataImage | None = None
        """The image whose partitions are led no more because this broker is fenced."""
        lifecycle.on_became_controller.append(lambda _epoch: self._look_for_all())
        lifecycle.on_registered.append(lambda _session: self.heartbeats.beat_soon())

    async def connect_to(self, broker_id: int, options: ClientOptions) -> PeerConnection:
        """A new connection to another broker, to which this one has proved who it is. Raises ClientError."""
        return await self.channels.connect_to(broker_id, options)

    def marker_channel(self, local: TransactionMarkers) -> TransactionMarkerChannel:
        """Takes the markers of this broker's coordinator to whoever leads the partitions."""
        return TransactionMarkerChannel(local, self.channels, self._metadata.current_image, self._environment.tasks)

    def remote_states(self) -> StateChannel:
        """Reaches the coordinators of share partitions on other brokers."""
        return StateChannel(self.channels)

    def remote_controller(self) -> ControllerChannel:
        """Reaches the controller."""
        return self.controller

    def remote_share_groups(self) -> ShareGroupChannel:
        """Reaches the coordinators of groups on other brokers."""
        return ShareGroupChannel(self.channels, self._metadata.current_image)

    def remote_records(self) -> RecordChannel:
        """Reaches the records of partitions that other brokers lead."""
        return RecordChannel(self.channels, self._topic_id)

    def remote_redis(self) -> RedisChannel:
        """Reaches what other brokers serve Redis clients."""
        return RedisChannel(self.channels)

    def remote_readers(self) -> ShareReadChannel:
        """Reaches the leaders of share partitions that clients here read."""
        return ShareReadChannel(self.channels)

    def _topic_id(self, name: str) -> UUID:
        topic = self._metadata.current_image().topic(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def verifier(self, local: TransactionService, partition_of: Callable[[str], int]) -> TransactionCoordinatorChannel:
        """Asks the coordinator of a transaction, wherever it is."""
        return TransactionCoordinatorChannel(
            local,
            partition_of,
            self.channels,
            self._metadata.current_image,
            defer=self._environment.defer,
            tasks=self._environment.tasks,
        )

    def gateway(self, broker: Broker, apis: ApiTable, sessions: FetchSessionCache) -> KafkaGateway:
        """Brokers prove who they are, and what the controller decides is sent on to it."""
        return KafkaGateway(
            broker,
            apis,
            sessions,
            authenticator=PeerAuthenticator(
                self._known_identity,
                self._environment.rng,
                self._environment.tasks,
                lambda broker_id: broker_id in self._metadata.current_image().brokers,
                self._settings.integer("connection.failed.authentication.delay.ms"),
            ),
            forwarding=Forwarding(self.controller, self.deciding.outage),
            on_broker_left=self.channels.check,
        )

    def require_writable(self) -> None:
        """Others may have room."""
        if not self._metadata.current_image().active_brokers() - {self._settings.node_id}:
            self._logs.require_online()

    def configure(self, settings: BrokerSettings) -> None:
        """Apply the rates of replication."""
        self._replication.configure(settings)

    def _known_identity(self) -> BrokerIdentity:
        assert self._identity is not None, "the store is not open yet"
        return self._identity

    async def identify(self, cluster_id: str) -> None:
        """Learn the secret, and believe those who know it. Raises StoreError, and InvalidSettingError."""
        given = self._settings.text("cluster.secret")
        also = self._settings.text("cluster.secret.accepted")
        if also not in (None, STORED) and len(also) < ACCEPTED_CHARACTERS_MIN:
            raise InvalidSettingError(
                f"cluster.secret.accepted must have at least {ACCEPTED_CHARACTERS_MIN} characters, or be {STORED}"
            )
        stored = await self.deciding.lifecycle.cluster_secret() if given is None or also == STORED else b""
        accepted = () if also is None else (stored if also == STORED else also.encode(),)
        secret = stored if given is None else given.encode()
        self._identity = BrokerIdentity(self._settings.node_id, cluster_id, secret, accepted)

    def join(self, image: MetadataImage) -> None:
        """Connect to those that are there, and look for replicas that lag."""
        publisher = self._metadata.publisher
        self.channels.on_image(image)
        publisher.subscribe(self.channels.on_image)
        publisher.subscribe(self._departed.on_image)
        self._lingering.on_image(image)
        publisher.subscribe(self._lingering.on_image)
        publisher.subscribe(self.heartbeats.on_image)
        self._replication.start(image)
        publisher.subscribe(self._replication.roles.on_image)

    def start(self, partitions: PartitionManager) -> None:
        """Have the controller let clients come."""
        self._is_started = True
        self.heartbeats.start(partial(self._on_heartbeat, partitions))
        self._metadata.probe.start()
        self.producer_ids.prepare()

    def disks_changed(self) -> None:
        """The controller hears of it at once."""
        self.heartbeats.beat_soon()

    async def leave(self) -> None:
        """Have others lead what this broker leads before its listeners are closed: if there are any, not for long."""
        active = self._metadata.current_image().active_brokers()
        is_last = active <= {self._settings.node_id}
        if not self._is_started or is_last or self._settings.node_id not in active:
            return  # nobody could take over, or this broker leads nothing
        if not await self.heartbeats.leave(LEAVE_MS_MAX):
            logger.warning("not all leaders have moved to other brokers in time; stopping anyway")

    async def close(self) -> None:
        """Follow nobody, and leave the others alone, whatever a part says to it."""
        try:
            await self._replication.close()
        finally:
            self.heartbeats.close()
            self.channels.close()

    def _disks(self) -> Disks:
        if self._logs.failure is not None:
            return Disks(has_none=True)
        failed = [each.directory_id for each in self._logs.directories if each.failure is not None]
        return Disks(frozenset(each for each in failed if each is not None) | self.places.missing())

    def _on_heartbeat(self, partitions: PartitionManager, is_fenced: bool) -> None:
        """Lead nothing while fenced, also when the metadata that says who leads is old: its store cannot be reached."""
        image = self._metadata.current_image()
        known = image.brokers.get(self._settings.node_id)
        if is_fenced and known is not None and known.is_active:
            # Until the metadata says so, clients hear that what this broker led has no leader, and ask again soon,
            # somebody else as a rule.
            self._departed.add(known.broker_id, known.broker_epoch, image)
            if self._stood_down_at is not image:
                self._stood_down_at = image
                partitions.stand_down()
        elif not is_fenced and self._stood_down_at is not None:
            self._stood_down_at = None
            self._environment.tasks.spawn(partitions.serve_missing(), "taking roles again")

    def _look_for_all(self) -> None:
        """A controller that was elected over one that died finds out by itself who is gone."""
        for broker_id in self._metadata.current_image().brokers:
            self.channels.check(broker_id)

    def _on_unreachable(self, broker_id: int, broker_epoch: int) -> None:
        """The controller fences the broker; the others see to it that one who died is no controller for long. Until
        it is fenced, clients hear that what it led has no leader, and ask again soon.
        """
        image, lifecycle = self._metadata.current_image(), self.deciding.lifecycle
        self._departed.add(broker_id, broker_epoch, image)
        if lifecycle.is_controller:
            reporting = self._report(broker_id, broker_epoch)
            self._environment.tasks.spawn(reporting, f"broker {broker_id} is unreachable")
        elif broker_id == image.controller_id:
            lifecycle.controller_unreachable(image.controller_epoch)

    def _on_departed(self, broker_ids: frozenset[int]) -> None:
        self._view.departed = broker_ids

    def _on_lingering(self, broker_ids: frozenset[int]) -> None:
        self._view.lingering = broker_ids

    async def _report(self, broker_id: int, broker_epoch: int) -> None:
        try:
            await self.deciding.controller.broker_unreachable(broker_id, broker_epoch)
        except ApiError as error:
            logger.info("broker %d is unreachable and could not be fenced: %s", broker_id, error)
