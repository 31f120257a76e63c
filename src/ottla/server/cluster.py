"""The cluster stage of a broker: `LoneCluster` on one that is alone with its store, `PeerCluster` on one of several."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.cluster_share_groups import RemoteShareGroups
from ottla.broker.records import RemoteRecords
from ottla.broker.redis_exchange import RemoteRedis
from ottla.broker.share_read_channel import RemoteReaders
from ottla.broker.transaction_gate import TransactionVerifier
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactions import TransactionService
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.queues.share_states import RemoteStates
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.roles import LoneRoles, Roles
from ottla.runtime.environment import Environment
from ottla.server.metadata import Deciding, Metadata
from ottla.server.partition_manager import PartitionManager
from ottla.server.replica_directory_assignments import ReplicaDirectoryAssignments
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager
from ottla.transactions.messages import MarkerChannel

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.client.options import ClientOptions
    from ottla.peers.controller_channel import ControllerChannel
    from ottla.peers.peer_connection import PeerConnection
    from ottla.replication.replica_selector import RackAwareSelector
    from ottla.replication.replication_quota import ReplicationQuota


class Cluster(Protocol):
    """Who decides, who copies, and how the others are reached, be there any or none. Belongs to the event loop.

    Its parts may be handed out before it is started. In the order of a broker's life: `identify`, `join`, `start`,
    `leave`, `close`.
    """

    deciding: Deciding
    roles: Roles
    """Has partitions lead and follow."""
    places: ReplicaDirectoryAssignments
    """Where the replicas of this broker lie."""
    producer_ids: ProducerIdAllocator

    @property
    def controller(self) -> "Controller | ControllerChannel":
        """Whoever decides: the controller, wherever it is."""
        ...

    @property
    def follower_quota(self) -> "ReplicationQuota | None":
        """What followers of throttled partitions may be given; None for a broker without followers."""
        ...

    @property
    def selector(self) -> "RackAwareSelector | None":
        """Sends consumers to replicas in their rack; None when all read from leaders."""
        ...

    async def connect_to(self, broker_id: int, options: "ClientOptions") -> "PeerConnection":
        """A new connection to another broker, to which this one has proved who it is. Raises ClientError."""
        ...

    def marker_channel(self, local: TransactionMarkers) -> MarkerChannel:
        """Takes the markers of this broker's coordinator to whoever leads the partitions."""
        ...

    def verifier(self, local: TransactionService, partition_of: Callable[[str], int]) -> TransactionVerifier:
        """Asks the coordinator of a transaction, wherever it is."""
        ...

    def remote_states(self) -> RemoteStates | None:
        """Reaches the coordinators of share partitions on other brokers; None where there are none."""
        ...

    def remote_controller(self) -> "ControllerChannel | None":
        """Reaches the controller; None where that is always here."""
        ...

    def remote_share_groups(self) -> RemoteShareGroups | None:
        """Reaches the coordinators of groups on other brokers; None where there are none."""
        ...

    def remote_records(self) -> RemoteRecords | None:
        """Reaches the records of partitions that other brokers lead; None where there are none."""
        ...

    def remote_redis(self) -> RemoteRedis | None:
        """Reaches what other brokers serve Redis clients; None where there are none."""
        ...

    def remote_readers(self) -> RemoteReaders | None:
        """Reaches the leaders of share partitions that clients here read; None where there are no other brokers."""
        ...

    def gateway(self, broker: "Broker", apis: ApiTable, sessions: FetchSessionCache) -> KafkaGateway:
        """The Kafka gateway, with what it needs for other brokers."""
        ...

    def require_writable(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR while no new partition could be written anywhere."""
        ...

    def configure(self, settings: BrokerSettings) -> None:
        """Apply the settings of replication that changed; they may do so at any time."""
        ...

    async def identify(self, cluster_id: str) -> None:
        """The store is open: find out what brokers prove to each other. Raises StoreError."""
        ...

    def join(self, image: MetadataImage) -> None:
        """This broker is registered, and this is the cluster."""
        ...

    def start(self, partitions: PartitionManager) -> None:
        """The listeners are open: let clients come."""
        ...

    def disks_changed(self) -> None:
        """A data directory failed."""
        ...

    async def leave(self) -> None:
        """Have others lead what this broker leads, if there are any, before its listeners are closed."""
        ...

    async def close(self) -> None:
        """Leave the others alone, and follow nobody; the logs may be closed next."""
        ...


class LoneCluster:
    """A broker that is alone with its store, as a rule: it hears of others that come."""

    follower_quota: Final = None
    selector: Final = None

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        metadata: Metadata,
        logs: LogManager,
        replicas: ReplicaManager,
        on_peers: Callable[[], object],
    ) -> None:
        """`on_peers` is called when another broker registers with the store."""
        self._node_id = settings.node_id
        self._metadata = metadata
        self._logs = logs
        self._on_peers = on_peers
        self.deciding = Deciding(settings, environment, metadata)
        self.roles: Roles = LoneRoles(settings.node_id)
        self.producer_ids = ProducerIdAllocator(self.controller.allocate_producer_ids, environment.tasks)
        self.places = ReplicaDirectoryAssignments(
            settings.node_id,
            logs,
            replicas,
            metadata.current_image,
            self._place_replicas,
            environment.timer,
            environment.tasks,
        )

    @property
    def controller(self) -> Controller:
        """This broker."""
        return self.deciding.controller

    async def _place_replicas(self, places: Sequence[ReplicaPlace]) -> list[Outcome[None]]:
        session = self.deciding.lifecycle.session
        return await self.controller.place_replicas(session.broker_id, session.broker_epoch, places)

    async def connect_to(self, broker_id: int, options: "ClientOptions") -> "PeerConnection":
        """There is none."""
        del options
        from ottla.client.errors import BrokerUnreachableError

        raise BrokerUnreachableError(f"this broker is alone: there is no broker {broker_id}")

    def marker_channel(self, local: TransactionMarkers) -> MarkerChannel:
        """This broker leads all partitions."""
        return local

    def verifier(self, local: TransactionService, partition_of: Callable[[str], int]) -> TransactionVerifier:
        """This broker coordinates all transactions."""
        return local

    def remote_states(self) -> None:
        """This broker coordinates all share partitions."""

    def remote_controller(self) -> None:
        """This broker is the controller."""

    def remote_share_groups(self) -> None:
        """This broker coordinates all groups."""

    def remote_records(self) -> None:
        """This broker leads all partitions."""

    def remote_redis(self) -> None:
        """This broker leads all streams."""

    def remote_readers(self) -> None:
        """This broker leads all share partitions."""

    def gateway(self, broker: "Broker", apis: ApiTable, sessions: FetchSessionCache) -> KafkaGateway:
        """Nobody is believed to be a broker, and nothing is sent on."""
        return KafkaGateway(broker, apis, sessions)

    def require_writable(self) -> None:
        """All partitions are made here."""
        self._logs.require_online()

    def configure(self, settings: BrokerSettings) -> None:
        """Nothing is copied."""

    async def identify(self, cluster_id: str) -> None:
        """Nobody has to prove anything."""

    def join(self, image: MetadataImage) -> None:
        """Look out for others from here on."""
        self._metadata.publisher.subscribe(self._look_for_peers)

    def _look_for_peers(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.changed_brokers - {self._node_id}:
            self._on_peers()

    def start(self, partitions: PartitionManager) -> None:
        """Clients come as soon as there are listeners."""

    def disks_changed(self) -> None:
        """Nobody else could lead what lies there."""

    async def leave(self) -> None:
        """Nobody could take over."""

    async def close(self) -> None:
        """There is nobody."""
