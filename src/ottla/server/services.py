"""The services stage of a broker: its coordinators, and everything that gateways call."""

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.broker.access import Authorizer
from ottla.broker.acls import AclService
from ottla.broker.active_producers import ActiveProducers
from ottla.broker.broker import Broker
from ottla.broker.client_quotas import ClientQuotaService
from ottla.broker.cluster import ClusterView
from ottla.broker.cluster_share_groups import ClusterShareGroups
from ottla.broker.cluster_topics import ClusterTopics
from ottla.broker.committed_offsets import CommittedOffsetService
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.coordinators import CoordinatorLookup
from ottla.broker.dead_letters import DeadLetters
from ottla.broker.delayed import DelayedRecords
from ottla.broker.delegation_tokens import DelegationTokenService
from ottla.broker.features import FeatureService
from ottla.broker.fetch import FetchService
from ottla.broker.group_consumers import GroupConsumers
from ottla.broker.groups import GroupService
from ottla.broker.history_topic import HistoryTopic
from ottla.broker.internal_topic_creation import InternalTopicCreation
from ottla.broker.log_directories import LogDirectoryService
from ottla.broker.offsets import OffsetService
from ottla.broker.produce import ProduceService
from ottla.broker.quota_manager import ClientQuotaManager
from ottla.broker.record_deletion import RecordDeletion
from ottla.broker.records import RecordService
from ottla.broker.redis_exchange import RedisExchange, StreamGroups
from ottla.broker.remote_shares import RemoteShares
from ottla.broker.request_quotas import RequestQuotas
from ottla.broker.scram_users import ScramUserService
from ottla.broker.share_fetches import ShareFetchService
from ottla.broker.share_groups import ShareGroupService
from ottla.broker.share_partitions import SharePartitions
from ottla.broker.share_readers import ShareReaders
from ottla.broker.streams_groups import StreamsGroupService
from ottla.broker.topics import TopicService
from ottla.broker.transaction_gate import GateConfig, TransactionGate
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactional_produce import TransactionalProduceService
from ottla.broker.transactions import TransactionService
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.group_config import GroupConfig
from ottla.metadata.features import TRANSACTION_VERSION
from ottla.metadata.image.image import topic_resource
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.queues.share_coordinator import ShareCoordinator
from ottla.queues.share_states import ShareStates
from ottla.replication.leaderships import Leaderships
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.clock import monotonic_ns
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.environment import Environment
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.sampled_rate import Windows
from ottla.server.cluster import Cluster
from ottla.server.coordinators import Coordinators
from ottla.server.delay_topics import DelayTopics
from ottla.server.metadata import Metadata
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.topic_settings import REDIS_KEY
from ottla.storage.log_manager import LogManager
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.transaction_config import TransactionConfig

if TYPE_CHECKING:
    from ottla.broker.client_metrics import ClientMetricsService
    from ottla.server.client_metrics_topic import ClientMetricsTopic
    from ottla.server.own_client_io import OwnClientIo


class Services:
    """Belongs to the event loop. `broker` is what gateways are given."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        metadata: Metadata,
        logs: LogManager,
        replicas: ReplicaManager,
        cluster: Cluster,
        *,
        fetch_purgatory: Purgatory,
        leaderships: Leaderships,
        configs: ConfigService,
        offsets: OffsetService,
        view: ClusterView,
        config: BrokerConfig,
        authorizer: Authorizer,
        own_client: Callable[[], "OwnClientIo"],
    ) -> None:
        """`own_client` makes what connects this broker to its own cluster."""
        self._settings = settings
        self._environment = environment
        self._metadata = metadata
        self._own_client = own_client
        self._client_metrics: ClientMetricsService | None = None
        self._metrics_topic: ClientMetricsTopic | None = None
        clock, timer, tasks = environment.clock, environment.timer, environment.tasks
        controller, current_image = cluster.deciding.controller, metadata.current_image

        self.groups = GroupCoordinator(GroupConfig.from_settings(settings, configs.group_settings), environment)
        deadlines = Deadlines(clock, timer)
        completers = {CONSUMER_OFFSETS_TOPIC: self.groups.end_transaction}
        markers = TransactionMarkers(replicas, deadlines, authorizer, completers)
        self.transaction_coordinator = TransactionCoordinator(
            TransactionConfig.from_settings(settings),
            environment,
            cluster.marker_channel(markers),
            cluster.producer_ids.next,
            cluster_version=lambda: current_image().feature_level(TRANSACTION_VERSION),
        )
        self.shares = ShareCoordinator(settings, environment)
        self.coordinators = Coordinators(self.groups, self.transaction_coordinator, self.shares, leaderships)

        produce = ProduceService(replicas, deadlines, authorizer)
        fetches = FetchService(
            replicas,
            fetch_purgatory,
            settings.integer("fetch.max.bytes"),
            authorizer,
            follower_quota=cluster.follower_quota,
            selector=cluster.selector,
        )
        transactions = TransactionService(
            self.transaction_coordinator, authorizer, current_image, self.groups.partition_of
        )
        self.gate = TransactionGate(
            cluster.verifier(transactions, self.transaction_coordinator.partition_of),
            GateConfig.from_settings(settings),
            clock=clock,
            timer=timer,
            defer=environment.defer,
        )
        topics = TopicService(controller, config, authorizer, cluster.require_writable, cluster.controller)
        redis_exchange = RedisExchange(cluster.remote_redis())
        remote_readers = cluster.remote_readers()

        def stream_states(topic_id: UUID) -> StreamGroups | None:
            topic = current_image().topic_by_id(topic_id)
            is_stream = topic is not None and REDIS_KEY in current_image().config(topic_resource(topic.name))
            return redis_exchange.groups if is_stream else None

        states = ShareStates(
            self.shares,
            current_image,
            topics.ensure_internal,
            settings.node_id,
            timer,
            cluster.remote_states(),
            stream_states,
        )
        consumers = GroupConsumers(
            lambda group_id: share_partitions.consumers(group_id),  # noqa: PLW0108 (they are made later)
            current_image,
            settings.node_id,
            cluster.remote_share_groups(),
        )
        share_groups = ShareGroupService(self.groups, states, current_image, tasks, authorizer, consumers)
        records = RecordService(
            produce,
            fetches,
            replicas,
            environment,
            authorizer,
            current_image,
            settings.node_id,
            cluster.remote_records(),
        )
        letters = DeadLetters(
            records,
            topics,
            current_image,
            configs.topic_settings,
            settings.node_id,
            clock,
            auto_create=settings.boolean("errors.deadletterqueue.auto.create.topics.enable"),
        )
        self.share_history = HistoryTopic(records, topics, current_image, settings.node_id, clock, timer, tasks)
        share_partitions = SharePartitions(
            replicas,
            states,
            configs.group_settings,
            clock=clock,
            rng=environment.rng,
            timer=timer,
            tasks=tasks,
            authorizer=authorizer,
            write_letters=letters.write,
            history_topic=self.share_history,
            redis=redis_exchange,
        )
        share_fetches = ShareFetchService(
            share_partitions,
            settings.integer("group.share.max.share.sessions"),
            clock=clock,
            timer=timer,
            authorizer=authorizer,
        )
        self.delay_topics = DelayTopics(
            settings.node_id,
            environment,
            replicas,
            configs,
            topics,
            logs,
            own_client=own_client,
        )
        windows = Windows(settings.integer("quota.window.num"), settings.integer("quota.window.size.seconds") * 1_000)
        change_windows = Windows(
            settings.integer("controller.quota.window.num"),
            settings.integer("controller.quota.window.size.seconds") * 1_000,
        )
        quotas = ClientQuotaManager(clock, windows, change_windows, settings.integer("quota.clients.max"))
        self.broker = Broker(
            request_quotas=RequestQuotas(quotas, monotonic_ns),
            config=config,
            clock=clock,
            rng=environment.rng,
            timer=timer,
            tasks=tasks,
            authorizer=authorizer,
            replicas=replicas,
            produce=produce,
            fetches=fetches,
            offsets=offsets,
            topics=topics,
            configs=configs,
            groups=GroupService(self.groups, authorizer, environment.rng, share_groups.delete_group),
            streams_groups=StreamsGroupService(
                self.groups, InternalTopicCreation(topics, authorizer, clock, tasks), authorizer
            ),
            records=records,
            delayed=DelayedRecords(records, topics, current_image, clock, authorizer, self.delay_topics.waiting_count),
            share_groups=share_groups,
            cluster_topics=ClusterTopics(topics, configs, authorizer, cluster.remote_controller(), timer),
            cluster_share_groups=ClusterShareGroups(
                share_groups, self.groups.partition_of, current_image, settings.node_id, cluster.remote_share_groups()
            ),
            share_fetches=share_fetches,
            share_coordinator=self.shares,
            committed_offsets=CommittedOffsetService(self.groups, authorizer, current_image, self.gate, replicas),
            coordinators=CoordinatorLookup(
                topics,
                self.groups.partition_of,
                self.transaction_coordinator.partition_of,
                self.shares.partition_of,
                authorizer,
            ),
            transactions=transactions,
            cluster=view,
            producer_ids=cluster.producer_ids,
            record_deletion=RecordDeletion(replicas, logs.checkpoint_log_starts, timer, authorizer),
            log_directories=LogDirectoryService(logs, replicas, authorizer),
            active_producers=ActiveProducers(replicas, authorizer),
            features=FeatureService(controller, authorizer),
            client_quotas=ClientQuotaService(controller, authorizer),
            acls=AclService(controller, authorizer, is_enabled=settings.text("authorizer.class.name") != ""),
            scram_users=ScramUserService(controller, authorizer),
            delegation_tokens=DelegationTokenService(settings, controller, authorizer, clock, environment.rng),
            client_metrics=self._receive_metrics,
            controller=controller,
            defer=logs.cork.defer,
            transaction_gate=self.gate,
            transactional_produce=TransactionalProduceService(produce, self.gate, authorizer),
            transaction_markers=markers,
            redis_exchange=redis_exchange,
            share_readers=ShareReaders(share_partitions, share_groups, settings.node_id, timer),
            remote_shares=None
            if remote_readers is None
            else RemoteShares(
                remote_readers, current_image, settings.node_id, authorizer, rng=environment.rng, tasks=tasks
            ),
        )
        self.broker.redis_exchange.make_gateway = self._make_redis_gateway

    def _make_redis_gateway(self) -> None:
        """For keys of Redis clients that this broker leads and has no listener for."""
        from ottla.gateways.redis.gateway import redis_gateway

        redis_gateway(self.broker, self._settings)

    def _receive_metrics(self) -> "ClientMetricsService":
        """What takes the metrics that clients push; of many brokers it is never asked for."""
        if self._client_metrics is None:
            from ottla.broker.client_metrics import ClientMetricsService
            from ottla.server.client_metrics_topic import ClientMetricsTopic

            settings, environment = self._settings, self._environment
            push_bytes_max = settings.integer("telemetry.max.bytes")
            topic = self._metrics_topic = ClientMetricsTopic(
                self._own_client,
                settings.node_id,
                push_bytes_max,
                environment.clock,
                environment.tasks,
            )
            self._client_metrics = ClientMetricsService(
                self._metadata.current_image, environment.clock, environment.rng, topic, push_bytes_max
            )
        return self._client_metrics

    async def close_metrics(self) -> None:
        """Write what clients have pushed, if any did."""
        if self._metrics_topic is not None:
            await self._metrics_topic.close()
