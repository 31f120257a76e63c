"""What has the partitions of a broker lead and follow: it is made only for brokers that share a store."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.client.errors import ClientError
from ottla.metadata.image.image import MetadataImage
from ottla.peers.broker_channels import PROBE, BrokerChannels, fetch_lane
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.gathered_proposals import Ask, GatheredProposals
from ottla.replication.isr_manager import IsrManager
from ottla.replication.partition_roles import PartitionRoles
from ottla.replication.replica_fetcher import ReplicaFetchLimits, Truncation
from ottla.replication.replica_fetchers import ReplicaFetchers
from ottla.replication.replica_selector import RackAwareSelector
from ottla.replication.replication_quota import ReplicationQuota
from ottla.runtime.environment import Environment
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.outage_log import OutageLog
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.sampled_rate import Windows
from ottla.settings.broker_replication_table import RACK_AWARE_SELECTOR
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager

logger: Final = logging.getLogger(__name__)


def selector_of(settings: BrokerSettings, current_image: Callable[[], MetadataImage]) -> RackAwareSelector | None:
    """Who sends consumers to replicas near them, if they are to be sent anywhere (`replica.selector.class`)."""
    if settings.text("replica.selector.class") != RACK_AWARE_SELECTOR:
        return None

    def rack_of(broker_id: int) -> str | None:
        broker = current_image().brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.rack

    return RackAwareSelector(settings.node_id, rack_of)


class Replication:
    """Belongs to the event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        logs: LogManager,
        fetch_purgatory: Purgatory,
        opener: BatchDecompressor,
        channels: BrokerChannels,
        alter_partition: Ask,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`alter_partition` asks the controller in the name of this broker, whose present epoch `broker_epoch` is."""
        self._channels = channels
        windows = Windows(
            settings.integer("replication.quota.window.num"),
            settings.integer("replication.quota.window.size.seconds") * 1_000,
        )
        self._own_quota = ReplicationQuota(environment.clock, windows)
        self.follower_quota = ReplicationQuota(environment.clock, windows)
        """What followers that are not in sync may be given of throttled partitions."""
        self._isr_manager = IsrManager(
            settings.node_id,
            GatheredProposals(alter_partition, environment.defer, environment.tasks),
            clock=environment.clock,
            timer=environment.timer,
            opener=opener,
            fetch_purgatory=fetch_purgatory,
            lag_max_ms=settings.integer("replica.lag.time.max.ms"),
            tasks=environment.tasks,
            reaches=self._reaches,
            silence_max_ms=settings.integer("broker.session.timeout.ms"),
        )
        self._fetchers = ReplicaFetchers(
            self._fetch_from,
            lambda: ReplicaState(settings.node_id, broker_epoch()),
            Truncation(logs.truncate_log, logs.restart_log),
            self._own_quota,
            count=settings.integer("num.replica.fetchers"),
            limits=ReplicaFetchLimits(
                max_wait_ms=settings.integer("replica.fetch.wait.max.ms"),
                min_bytes=settings.integer("replica.fetch.min.bytes"),
                partition_max_bytes=settings.integer("replica.fetch.max.bytes"),
                response_max_bytes=settings.integer("replica.fetch.response.max.bytes"),
                backoff_ms=settings.integer("replica.fetch.backoff.ms"),
                timeout_ms=settings.integer("replica.socket.timeout.ms"),
            ),
            timer=environment.timer,
            tasks=environment.tasks,
            throttled=LogThrottle(logger, environment.clock),
            outage_log=partial(OutageLog, logger, environment.clock),
        )
        self.roles = PartitionRoles(self._isr_manager, self._fetchers)
        """Gives partitions their roles; it hears of each image before whoever asks it to."""

    def start(self, image: MetadataImage) -> None:
        """This is the cluster: look for replicas that lag from now on."""
        self.roles.on_image(image)
        self._isr_manager.start()

    def configure(self, settings: BrokerSettings) -> None:
        """Have the rates that are set hold; they may change at any time."""
        self._own_quota.rate = settings.integer("follower.replication.throttled.rate")
        self.follower_quota.rate = settings.integer("leader.replication.throttled.rate")

    async def close(self) -> None:
        """Follow nobody and ask for nothing any more; the logs may be closed next."""
        self._isr_manager.close()
        await self._fetchers.close()

    async def _fetch_from(self, leader_id: int, number: int, request: FetchRequest, timeout_ms: int) -> FetchResponse:
        return await self._channels.request(
            leader_id, request, FetchResponse, timeout_ms=timeout_ms, lane=fetch_lane(number)
        )

    async def _reaches(self, broker_id: int, timeout_ms: int) -> bool:
        """Whether another broker answers anything at all."""
        try:
            await self._channels.request(
                broker_id, MetadataRequest(topics=()), MetadataResponse, timeout_ms=timeout_ms, lane=PROBE
            )
        except ClientError as error:
            logger.debug("broker %d does not answer: %s", broker_id, error)
            return False
        return True
