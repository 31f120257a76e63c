"""Everything a broker can do, in one place for its doors."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ottla.broker.access import Authorizer
from ottla.broker.active_producers import ActiveProducers
from ottla.broker.client_quotas import ClientQuotaService
from ottla.broker.cluster import ClusterView
from ottla.broker.committed_offsets import CommittedOffsetService
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.coordinators import CoordinatorLookup
from ottla.broker.features import FeatureService
from ottla.broker.fetch import FetchService
from ottla.broker.groups import GroupService
from ottla.broker.log_directories import LogDirectoryService
from ottla.broker.offsets import OffsetService
from ottla.broker.produce import ProduceService
from ottla.broker.record_deletion import RecordDeletion
from ottla.broker.streams_groups import StreamsGroupService
from ottla.broker.topics import TopicService
from ottla.broker.transaction_gate import TransactionGate
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactional_produce import TransactionalProduceService
from ottla.broker.transactions import TransactionService
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.metadata.image.image import MetadataImage
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

if TYPE_CHECKING:
    from ottla.broker.client_metrics import ClientMetricsService


class Broker(Struct, frozen=True):
    """The parts of one broker, as its doors see them. It holds no state of its own."""

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
    client_metrics: "Callable[[], ClientMetricsService]"
    """Made when the first client asks for it."""
    controller: Controller
    """Decides while it is active; what brokers ask in their own name goes to it."""

    @property
    def image(self) -> MetadataImage:
        """What the cluster has agreed on, as this broker knows it now."""
        return self.topics.image
