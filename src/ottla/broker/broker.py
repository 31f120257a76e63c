"""Everything a broker can do, in one place for its gateways."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ottla.broker.access import Authorizer
from ottla.broker.acls import AclService
from ottla.broker.active_producers import ActiveProducers
from ottla.broker.client_quotas import ClientQuotaService
from ottla.broker.cluster import ClusterView
from ottla.broker.cluster_share_groups import ClusterShareGroups
from ottla.broker.cluster_topics import ClusterTopics
from ottla.broker.committed_offsets import CommittedOffsetService
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.coordinators import CoordinatorLookup
from ottla.broker.delayed import DelayedRecords
from ottla.broker.delegation_tokens import DelegationTokenService
from ottla.broker.features import FeatureService
from ottla.broker.fetch import FetchService
from ottla.broker.groups import GroupService
from ottla.broker.log_directories import LogDirectoryService
from ottla.broker.look_ups import LookUps
from ottla.broker.offsets import OffsetService
from ottla.broker.produce import ProduceService
from ottla.broker.record_deletion import RecordDeletion
from ottla.broker.records import RecordService
from ottla.broker.redis_exchange import RedisExchange
from ottla.broker.remote_shares import RemoteShares
from ottla.broker.request_quotas import RequestQuotas
from ottla.broker.scram_users import ScramUserService
from ottla.broker.share_fetches import ShareFetchService
from ottla.broker.share_groups import ShareGroupService
from ottla.broker.share_readers import ShareReaders
from ottla.broker.streams_groups import StreamsGroupService
from ottla.broker.topics import TopicService
from ottla.broker.transaction_gate import TransactionGate
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactional_produce import TransactionalProduceService
from ottla.broker.transactions import TransactionService
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.metadata.image.image import MetadataImage
from ottla.network.task_gate import TaskGate
from ottla.queues.share_coordinator import ShareCoordinator
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.clock import Clock
from ottla.runtime.environment import Defer
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

if TYPE_CHECKING:
    from ottla.broker.client_metrics import ClientMetricsService


class Broker(Struct, frozen=True):
    """The parts of one broker, as its gateways see them. It holds no state of its own."""

    config: BrokerConfig
    clock: Clock
    rng: Rng
    timer: Timer
    tasks: Tasks
    authorizer: Authorizer
    """Says who may do what; the services ask it."""
    replicas: ReplicaManager
    produce: ProduceService
    fetches: FetchService
    offsets: OffsetService
    topics: TopicService
    configs: ConfigService
    groups: GroupService
    streams_groups: StreamsGroupService
    records: RecordService
    delayed: DelayedRecords
    share_groups: ShareGroupService
    cluster_share_groups: ClusterShareGroups
    cluster_topics: ClusterTopics
    share_fetches: ShareFetchService
    share_coordinator: ShareCoordinator
    committed_offsets: CommittedOffsetService
    coordinators: CoordinatorLookup
    cluster: ClusterView
    producer_ids: ProducerIdAllocator
    record_deletion: RecordDeletion
    active_producers: ActiveProducers
    transactions: TransactionService
    transaction_gate: TransactionGate
    transactional_produce: TransactionalProduceService
    transaction_markers: TransactionMarkers
    log_directories: LogDirectoryService
    features: FeatureService
    client_quotas: ClientQuotaService
    acls: AclService
    scram_users: ScramUserService
    delegation_tokens: DelegationTokenService
    request_quotas: RequestQuotas
    """Counts the requests of clients that have a quota, of all gateways."""
    client_metrics: "Callable[[], ClientMetricsService]"
    """Made when the first client asks for it."""
    controller: Controller
    """Decides while it is active; what brokers ask in their own name goes to it."""
    share_readers: ShareReaders
    """Readers at other brokers of share partitions that this one leads."""
    defer: Defer
    """Calls back once when the run of requests that is under way has been handed out, and before what it appends goes
    to the disk (`ottla.runtime.cork`); or at the end of the event loop's turn."""
    task_gate: TaskGate = field(default_factory=TaskGate)
    """Admits requests that are tasks, of all gateways together."""
    look_ups: LookUps = field(default_factory=LookUps)
    """How many reads wait for the disk, of all gateways together."""
    redis_exchange: RedisExchange = field(default_factory=RedisExchange)
    """How brokers ask each other for what their Redis clients want."""
    remote_shares: RemoteShares | None = None
    """Share partitions that other brokers lead; None on a broker that is alone."""

    @property
    def image(self) -> MetadataImage:
        """What the cluster has agreed on, as this broker knows it now."""
        return self.topics.image
