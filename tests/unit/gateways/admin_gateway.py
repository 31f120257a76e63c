"""The Kafka gateway's admin APIs over a real controller, without sockets: every answer goes through its wire form."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ottla.broker.access import ALLOW_ALL, Authorizer
from ottla.broker.acls import AclService
from ottla.broker.client_metrics import ClientMetricsService, Push
from ottla.broker.client_quotas import ClientQuotaService
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.coordinators import CoordinatorLookup
from ottla.broker.delegation_tokens import DelegationTokenService
from ottla.broker.features import FeatureService
from ottla.broker.scram_users import ScramUserService
from ottla.broker.topics import TopicService
from ottla.coordination.key_partition import partition_of_key
from ottla.gateways.kafka.api import Api
from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.metadata.image.image import MetadataImage
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.network.address import Address
from ottla.runtime.clock import ManualClock
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.gateways.answered import AnsweredContext, Peer, gateway_of
from tests.unit.metadata.metadata_broker import MetadataBroker


class AdminGateway:
    """Has what a broker gives to the handlers of these APIs."""

    def __init__(
        self, directory: Path, settings: dict[str, str] | None = None, authorizer: Authorizer = ALLOW_ALL
    ) -> None:
        self.settings = BrokerSettings(settings or {})
        self.config = BrokerConfig.from_settings(self.settings)
        self.tasks = Tasks()
        self.metadata = MetadataBroker(directory, self.settings, SeededRng(0), self.tasks)
        self.controller = self.metadata.controller
        self.authorizer = authorizer
        self.topics = TopicService(self.controller, self.config, authorizer)
        self.coordinators = CoordinatorLookup(
            self.topics,
            self.partition_of_group,
            self.partition_of_transactional_id,
            self.partition_of_share_key,
            authorizer,
        )
        self.configs = ConfigService(self.controller, self.settings, authorizer)
        self.cluster = ClusterView(self.config, lambda: self.image, authorizer)
        self.features = FeatureService(self.controller, authorizer)
        self.client_quotas = ClientQuotaService(self.controller, authorizer)
        self.acls = AclService(
            self.controller, authorizer, is_enabled=bool(self.settings.text("authorizer.class.name"))
        )
        self.scram_users = ScramUserService(self.controller, authorizer)
        self.clock = ManualClock()
        self.delegation_tokens = DelegationTokenService(
            self.settings, self.controller, authorizer, self.clock, SeededRng(2)
        )
        self.pushes: list[Push] = []
        self.telemetry = ClientMetricsService(lambda: self.image, self.clock, SeededRng(1), self, 1_000)
        self.producer_ids = ProducerIdAllocator(self.controller.allocate_producer_ids, self.tasks)
        self.reached_at = Address("broker.example", 19092)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def partition_of_transactional_id(self, transactional_id: str) -> int:
        """The partition of the transaction topic that keeps the id."""
        return partition_of_key(transactional_id, len(self.image.topics_by_name[TRANSACTION_STATE_TOPIC].partitions))

    def partition_of_share_key(self, key: str) -> int:
        """The partition of the share state topic that keeps the state of a share partition."""
        return partition_of_key(key, len(self.image.topics_by_name[SHARE_GROUP_STATE_TOPIC].partitions))

    def partition_of_group(self, group_id: str) -> int:
        """The partition of the offsets topic that keeps the group."""
        return partition_of_key(group_id, len(self.image.topics_by_name[CONSUMER_OFFSETS_TOPIC].partitions))

    def client_metrics(self) -> ClientMetricsService:
        """What takes the metrics that clients push."""
        return self.telemetry

    def receive(self, push: Push) -> None:
        """Take metrics that a client has pushed."""
        self.pushes.append(push)

    async def open(self) -> AdminGateway:
        await self.metadata.start()
        return self

    async def close(self) -> None:
        await self.tasks.close()
        await self.metadata.close()

    async def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        """Send a request in a version, the newest unless told; the answer as the client decodes it."""
        version = api.max_version if version is None else version
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ctx = AnsweredContext(gateway_of(self), version, answered.set_result, Peer(self.reached_at))
        result = api.handle(ctx, type(request).decode(version, request.encode(version)))
        if asyncio.iscoroutine(result):
            result = await result
        response = result if result is not None else await answered
        return type(response).decode(version, response.encode(version))
