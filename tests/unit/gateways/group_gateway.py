"""The Kafka gateway's group APIs over a real coordinator with its log in memory; answers go through their wire form."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ottla.broker.access import ALLOW_ALL, Authorizer
from ottla.broker.committed_offsets import CommittedOffsetService
from ottla.broker.groups import GroupService
from ottla.broker.transaction_gate import GateConfig, TransactionGate, TransactionVerifier
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_10_find_coordinator import API as FIND_COORDINATOR
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.group_config import GroupConfig
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.principal import ANONYMOUS
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.rng import SeededRng
from ottla.runtime.timer import ManualTimer
from tests.unit.broker.no_coordinator import NoCoordinator
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import ManualEnvironment, until
from tests.unit.gateways.admin_gateway import AdminGateway
from tests.unit.gateways.answered import AnsweredContext, Peer, gateway_of

SETTINGS = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


class GroupGateway(AdminGateway):
    """A broker with the topic `flights` of two partitions, and an offsets topic of one that it coordinates."""

    def __init__(
        self, directory: Path, authorizer: Authorizer = ALLOW_ALL, settings: dict[str, str] | None = None
    ) -> None:
        super().__init__(directory, {**SETTINGS, **(settings or {})}, authorizer)
        self.principal = ANONYMOUS
        self.rng = SeededRng(0)
        self.timer = ManualTimer()

    async def open(self) -> GroupGateway:
        await super().open()
        environment = ManualEnvironment(
            self.timer.clock, self.rng, self.timer, self.tasks, asyncio.get_running_loop().call_soon
        )
        self.environment = environment
        self.partition = HeldPartition(environment, CONSUMER_OFFSETS_TOPIC, index=0)
        self.coordinator = GroupCoordinator(GroupConfig.from_settings(self.settings), environment)
        self.groups = GroupService(self.coordinator, self.authorizer, self.rng)
        self.replicas = ReplicaManager()
        self.replicas.add(self.partition)
        self.gate = TransactionGate(
            self.verifier(),
            GateConfig(),
            clock=self.timer.clock,
            timer=self.timer,
            defer=asyncio.get_running_loop().call_soon,
        )
        self.committed_offsets = CommittedOffsetService(
            self.coordinator, self.authorizer, lambda: self.image, self.gate, self.replicas
        )
        self.metadata.loader.publisher.subscribe(
            lambda image, delta: self.coordinator.metadata_changed(image, [each.name for each in delta.deleted_topics])
        )
        await self.topics.create(ANONYMOUS, [NewTopic("flights", num_partitions=2)])
        await self.ask(FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=("g",)))
        return self

    async def close(self) -> None:
        await super().close()
        for partition in self.replicas:
            assert isinstance(partition, HeldPartition)
            partition.close()

    def verifier(self) -> TransactionVerifier:
        """Who knows the transactions that offsets may be part of."""
        return NoCoordinator()

    async def elect(self) -> None:
        """This broker coordinates the groups from now on."""
        self.coordinator.elected(self.partition)
        await until(lambda: self.coordinator._runtime.state(0).name == "ACTIVE")

    async def ask(self, api: Api, request: Any, version: int | None = None) -> Any:
        return await self.send(api, request, version)

    def send(self, api: Api, request: Any, version: int | None = None) -> asyncio.Future[Any]:
        """Send a request; the future is its answer, as the client decodes it."""
        version = api.max_version if version is None else version
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def respond(response: Any) -> None:
            answered.set_result(type(response).decode(version, response.encode(version)))

        ctx = AnsweredContext(gateway_of(self), version, respond, Peer(self.reached_at, "10.0.0.1"))
        ctx.kafka_connection.principal = self.principal
        result = api.handle(ctx, type(request).decode(version, request.encode(version)))
        if asyncio.iscoroutine(result):
            self.tasks.spawn(_answer(result, respond), "handler")
        elif result is not None:
            respond(result)
        return answered


async def _answer(handling: Any, respond: Any) -> None:
    respond(await handling)
