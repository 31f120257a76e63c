"""Transactions as an operator sees them: who has one open, where, and what to do about one that hangs (KIP-664)."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ottla.client.errors import BrokerError, ClientError, broker_error
from ottla.client.io.cluster import TRANSACTION_COORDINATOR, Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_OFFSET = -1
FENCE_TIMEOUT_MS = 60_000
"""The time-out of transactions that is left with an id; the next producer brings its own."""
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class TransactionListing(Struct, frozen=True, order=True):
    """A transactional id in a list, with the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionDescription(Struct, frozen=True):
    """A transactional id, its producer, and the partitions of its transaction; times in milliseconds.

    `start_ms` is None when it has not begun one.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(Struct, frozen=True):
    """A transaction that is open in a partition, as the partition's leader knows it.

    `start_offset` is the offset of its first record there, `last_timestamp_ms` the time of its newest.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class TransactionAdmin:
    """Looks at transactions, and ends one that nobody ends. Calls raise subclasses of ClientError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators, of those that pass the filters.

        `duration_ms` keeps those whose transaction has been open for longer. Raises ClientError for an unknown state.
        """
        deadline = self._cluster.deadline()
        request = ListTransactionsRequest(
            state_filters=tuple(states), producer_id_filters=tuple(producer_ids), duration_filter=duration_ms
        )

        async def of_broker(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.ask_node(node_id, request, ListTransactionsResponse)
            if response.error_code:
                raise broker_error(response.error_code, f"listing the transactions of broker {node_id}")
            if response.unknown_state_filters:
                raise ClientError(f"there is no state {response.unknown_state_filters[0]!r} of a transaction")
            return [
                TransactionListing(each.transactional_id, node_id, each.producer_id, each.transaction_state)
                for each in response.transaction_states
            ]

        lists = await self._cluster.of_all_brokers(of_broker, deadline)
        return sorted(each for found in lists for each in found)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """A transactional id. Raises BrokerError TRANSACTIONAL_ID_NOT_FOUND."""
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))

        async def attempt() -> TransactionDescription:
            coordinator = await self._cluster.coordinator(transactional_id, TRANSACTION_COORDINATOR)
            response = await self._cluster.ask_coordinator(
                transactional_id, request, DescribeTransactionsResponse, key_type=TRANSACTION_COORDINATOR
            )
            found = response.transaction_states[0]
            if found.error_code:
                error = broker_error(found.error_code, f"transactional id {transactional_id!r}")
                if error.code in _MOVED:
                    self._cluster.forget_coordinator(transactional_id, TRANSACTION_COORDINATOR)
                raise error
            return TransactionDescription(
                transactional_id=transactional_id,
                coordinator=coordinator,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                state=found.transaction_state,
                timeout_ms=found.transaction_timeout_ms,
                start_ms=found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
                partitions=tuple(
                    TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions
                ),
            )

        return await self._cluster.retrying(attempt, self._cluster.deadline())

    async def open_in(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """The transactions that are open in these partitions, by partition and offset."""
        deadline = self._cluster.deadline()
        found: list[OpenTransaction] = []
        for topic_partition in partitions:
            found += await self._open_in(topic_partition, deadline)
        return sorted(found, key=lambda each: (each.topic_partition, each.start_offset))

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int, now_ms: int
    ) -> list[OpenTransaction]:
        """The transactions that are open in a partition for longer than any may be, and that no coordinator will end.

        A transaction that a coordinator knows with this partition is only slow: its timeout ends it.
        """
        old = [each for each in await self.open_in(partitions) if now_ms - each.last_timestamp_ms > older_than_ms]
        if not old:
            return []
        listed = await self.list_transactions(producer_ids=sorted({each.producer_id for each in old}))
        known: set[tuple[int, TopicPartition]] = set()
        for listing in listed:
            try:
                description = await self.describe(listing.transactional_id)
            except BrokerError as error:
                if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    continue
                raise
            known.update((description.producer_id, each) for each in description.partitions)
        return [each for each in old if (each.producer_id, each.topic_partition) not in known]

    async def abort(self, transaction: OpenTransaction) -> None:
        """Write the marker that ends a transaction in its partition, as its coordinator would have."""
        name = transaction.topic_partition
        marker = WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=name.topic, partition_indexes=(name.partition,)),),
            coordinator_epoch=max(transaction.coordinator_epoch, 0),
        )
        deadline = self._cluster.deadline()

        async def attempt() -> None:
            leader = await self._cluster.leader(name, deadline)
            request = WriteTxnMarkersRequest(markers=(marker,))
            response = await self._cluster.ask_node(leader.leader, request, WriteTxnMarkersResponse)
            for of_producer in response.markers:
                for topic in of_producer.topics:
                    for each in topic.partitions:
                        if each.error_code:
                            self._cluster.metadata.forget_topic(name.topic)
                            what = f"aborting the transaction of producer {transaction.producer_id} in {name}"
                            raise broker_error(each.error_code, what)

        await self._cluster.retrying(attempt, deadline)

    async def fence(self, transactional_id: str) -> None:
        """Abort what the producer of a transactional id has going on, and keep it from writing any more.

        A new producer with the id can continue. Returns when the transaction is aborted everywhere.
        """
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCE_TIMEOUT_MS)

        async def attempt() -> None:
            response = await self._cluster.ask_coordinator(
                transactional_id, request, InitProducerIdResponse, key_type=TRANSACTION_COORDINATOR
            )
            if response.error_code:
                error = broker_error(response.error_code, f"fencing off the producer of {transactional_id!r}")
                if error.code in _MOVED:
                    self._cluster.forget_coordinator(transactional_id, TRANSACTION_COORDINATOR)
                raise error

        await self.describe(transactional_id)  # an id that is not there is not to be made by this
        await self._cluster.retrying(attempt, self._cluster.deadline())

    async def _open_in(self, name: TopicPartition, deadline: Deadline) -> list[OpenTransaction]:
        request = DescribeProducersRequest(topics=(TopicRequest(name=name.topic, partition_indexes=(name.partition,)),))

        async def attempt() -> list[OpenTransaction]:
            leader = await self._cluster.leader(name, deadline)
            response = await self._cluster.ask_node(leader.leader, request, DescribeProducersResponse)
            found = []
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code:
                        self._cluster.metadata.forget_topic(name.topic)
                        raise broker_error(partition.error_code, f"the producers of {name}", partition.error_message)
                    found += [
                        OpenTransaction(
                            topic_partition=name,
                            producer_id=each.producer_id,
                            producer_epoch=each.producer_epoch,
                            coordinator_epoch=each.coordinator_epoch,
                            start_offset=each.current_txn_start_offset,
                            last_timestamp_ms=each.last_timestamp,
                        )
                        for each in partition.active_producers
                        if each.current_txn_start_offset != NO_OFFSET
                    ]
            return found

        return await self._cluster.retrying(attempt, deadline)
