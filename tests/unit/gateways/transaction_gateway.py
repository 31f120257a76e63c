"""The Kafka gateway's APIs of transactions over real coordinators with their logs in memory."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.access import ALLOW_ALL, Authorizer
from ottla.broker.transaction_gate import TransactionVerifier
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactions import TransactionService
from ottla.gateways.kafka.api_10_find_coordinator import API as FIND_COORDINATOR
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.runtime.deadlines import Deadlines
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.transaction_config import TransactionConfig
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import until
from tests.unit.gateways.group_gateway import GroupGateway


class TransactionGateway(GroupGateway):
    """Besides groups, a transaction topic of one partition that it coordinates, and the partitions of `flights`."""

    def __init__(self, directory: Path, authorizer: Authorizer = ALLOW_ALL) -> None:
        super().__init__(directory, authorizer, {"transaction.state.log.num.partitions": "1"})

    def verifier(self) -> TransactionVerifier:
        completers = {CONSUMER_OFFSETS_TOPIC: self.coordinator.end_transaction}
        deadlines = Deadlines(self.timer.clock, self.timer)
        markers = TransactionMarkers(self.replicas, deadlines, self.authorizer, completers)
        self.transaction_coordinator = TransactionCoordinator(
            TransactionConfig.from_settings(self.settings), self.environment, markers, self.producer_ids.next
        )
        self.transactions = TransactionService(
            self.transaction_coordinator, self.authorizer, lambda: self.image, self.coordinator.partition_of
        )
        return self.transactions

    async def open(self) -> TransactionGateway:
        await super().open()
        self.metadata.loader.publisher.subscribe(
            lambda image, delta: self.transaction_coordinator.metadata_changed(image)
        )
        await self.ask(FIND_COORDINATOR, FindCoordinatorRequest(key_type=1, coordinator_keys=("t",)))
        self.transaction_partition = HeldPartition(self.environment, TRANSACTION_STATE_TOPIC, index=0)
        self.flights = [HeldPartition(self.environment, "flights", index) for index in range(2)]
        for partition in (self.transaction_partition, *self.flights):
            self.replicas.add(partition)
        return self

    async def elect(self) -> None:
        """This broker coordinates groups and transactions from now on."""
        await super().elect()
        self.transaction_coordinator.elected(self.transaction_partition)
        await until(lambda: not self.transaction_coordinator._runtime.is_loading)
