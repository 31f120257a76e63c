"""Finding the right broker for a request, and trying again when the cluster has moved on.

```
 bootstrap addresses -> any broker -> Metadata -> brokers, leaders, controller
                                   -> FindCoordinator -> a group's coordinator
```

The client drops cached metadata that a retriable error contradicts, and looks up the leader or coordinator again
before the next attempt. Attempts have exponential back-off and end with the time limit of the call.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar
from uuid import UUID

from ottla.client.errors import (
    NO_CONNECTION,
    BrokerError,
    BrokerUnreachableError,
    ConnectionLostError,
    TopicNotFoundError,
    broker_error,
)
from ottla.client.io.client_io import ClientIo, Connection, R
from ottla.client.io.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.io.connection_pool import ConnectionPool, Lane
from ottla.client.io.retry import Backoff, Deadline
from ottla.client.io.troubles import Troubles
from ottla.client.io.unreachable import refused_at_first, unanswered
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

logger = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1
"""Key types of FindCoordinator: consumer groups by group id, transactions by transactional id."""

TOPIC_APPEARS_WITHIN_MS = 5_000
"""How long a topic that is being created by our own request may be missing from the answers."""

_TOPIC_NOT_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Cluster:
    """The brokers of one cluster as one client sees them. Shared by everything that the client does.

    With an asyncio `ClientIo` many tasks of one loop may use it; with a blocking one, one thread at a time.
    """

    def __init__(self, options: ClientOptions, io: ClientIo) -> None:
        self.options = options
        self.io = io
        self.metadata = ClusterMetadata()
        self.troubles = Troubles(io.clock)
        """What is being waited for."""
        self._pool = ConnectionPool(options, io, self.troubles)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)

    async def connect(self) -> None:
        """Reach any of the bootstrap addresses and learn the brokers.

        One attempt: a client that cannot start says so at once. Raises BrokerUnreachableError.
        """
        await self.refresh(())

    def close(self) -> None:
        """End all connections. Nothing can be asked afterwards."""
        self._pool.close()

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """The end of a call that begins now, by default after `api_timeout_ms`."""
        return Deadline(self.io.clock, self.options.api_timeout_ms if timeout_ms is None else timeout_ms)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def ask_any(self, message: ApiMessage, response: type[R], *, timeout_ms: int | None = None) -> R:
        """One attempt at whichever broker is connected."""
        connection = await self.any_connection()
        with self.troubles.waiting(unanswered(connection.address, message)):
            return await connection.request(message, response, timeout_ms=timeout_ms or self.options.request_timeout_ms)

    async def ask_node(
        self,
        node_id: int,
        message: ApiMessage,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        lane: Lane = Lane.GENERAL,
    ) -> R:
        """One attempt at this broker."""
        connection = await self.connection(node_id, lane)
        timeout_ms = timeout_ms or self.options.request_timeout_ms
        if lane == Lane.COORDINATOR:  # a group may take its time until all members have joined
            return await connection.request(message, response, timeout_ms=timeout_ms)
        with self.troubles.waiting(unanswered(connection.address, message)):
            return await connection.request(message, response, timeout_ms=timeout_ms)

    async def ask_coordinator(
        self,
        key: str,
        message: ApiMessage,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        key_type: int = GROUP_COORDINATOR,
    ) -> R:
        """One attempt at the coordinator of a group, or of a transactional id by its `key_type`.

        When it fails, `forget_coordinator` before the next.
        """
        node_id = await self.coordinator(key, key_type)
        try:
            return await self.ask_node(node_id, message, response, timeout_ms=timeout_ms, lane=Lane.COORDINATOR)
        except NO_CONNECTION:
            self.forget_coordinator(key, key_type)
            raise

    async def retrying(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """What `attempt` returns, tried again after retriable errors until the deadline.

        Between attempts, connections are opened again and contradicted metadata is dropped, so each attempt looks up
        the broker. After the deadline the last error is raised unchanged.
        """
        with self.troubles.repeated() as note:
            return await self._retrying(attempt, deadline, note)

    async def of_all_brokers(self, ask: Callable[[int], Coroutine[Any, Any, T]], deadline: Deadline) -> list[T]:
        """What each broker of the cluster answers, in the order of their ids.

        If one fails, all are asked again with new metadata: other brokers then lead the partitions of a lost one.
        """

        async def attempt() -> list[T]:
            await self.refresh(())
            return await self.io.together([ask(node_id) for node_id in sorted(self.metadata.brokers)])

        return await self.retrying(attempt, deadline)

    async def _retrying(
        self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, note: Callable[[Exception], None]
    ) -> T:
        failures = 0
        while True:
            try:
                return await attempt()
            except TopicNotFoundError:
                raise
            except (BrokerError, *NO_CONNECTION) as error:
                if self._pool.closed or (isinstance(error, BrokerError) and not error.retriable):
                    raise
                if self.metadata.updated_ms is None and not isinstance(error, BrokerError):
                    raise  # a client that reaches nobody says so at once
                self.metadata.stale = self.metadata.stale or not isinstance(error, BrokerError)
                delay_ms = self._backoff.delay_ms(failures, self.io.rng)
                if deadline.left_ms <= delay_ms:
                    raise
                logger.debug("trying again in %d ms: %s", delay_ms, error)
                note(error)
            failures += 1
            await self.io.pause(delay_ms)

    # --- connections ------------------------------------------------------------------------------------------------

    async def any_connection(self) -> Connection:
        """A connection to some broker: one that is open, else a known broker's, else a bootstrap address's."""
        return await self._pool.any_connection(self.metadata.brokers)

    def open_connection(self, node_id: int, lane: Lane = Lane.GENERAL) -> Connection | None:
        """The connection to a broker when there is one."""
        return self._pool.open_connection(node_id, lane)

    async def connection(self, node_id: int, lane: Lane = Lane.GENERAL) -> Connection:
        """The connection to a broker of the cluster, made when there is none."""
        connection = self._pool.open_connection(node_id, lane)
        if connection is not None:
            return connection
        node = self.metadata.brokers.get(node_id)
        if node is None:
            raise BrokerUnreachableError(f"broker {node_id} is not in the cluster; it may be down")
        return await self._pool.connection(node, lane)

    # --- metadata ---------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, ErrorCode]:
        """Ask for brokers and these topics (None: all); the topics that came with an error.

        `create` lets the broker create topics that do not exist, if its configuration allows it.
        """
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        try:
            response = await self.ask_any(request, MetadataResponse)
        except ConnectionLostError as error:
            if self.metadata.updated_ms is None and self.options.sasl is None:
                raise refused_at_first(error) from error.__cause__
            raise
        if response.error_code:
            raise broker_error(response.error_code, "asking for the cluster's metadata")
        return self.metadata.update(response, self.io.clock.monotonic_ms(), all_topics=topics is None)

    async def refresh_ids(self, topic_ids: Iterable[UUID]) -> None:
        """Ask for brokers and the topics of these ids; those that do not exist stay unknown."""
        wanted = tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids)
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self.ask_any(request, MetadataResponse)
        if response.error_code:
            raise broker_error(response.error_code, "asking for the cluster's metadata")
        self.metadata.update(response, self.io.clock.monotonic_ms(), all_topics=False)

    async def topic(self, name: str, deadline: Deadline, *, create: bool = False) -> TopicMetadata:
        """What is known of a topic; asked for when nothing is, or what is known is old.

        Raises TopicNotFoundError if it does not exist and, with `create`, has not appeared within a few seconds.
        """
        known = self.metadata.topics.get(name)
        if known is not None and not self.is_old:
            return known
        appears = self.deadline(min(TOPIC_APPEARS_WITHIN_MS, deadline.left_ms))

        async def attempt() -> TopicMetadata:
            code = (await self.refresh((name,), create=create)).get(name)
            if code in _TOPIC_NOT_THERE and (not create or appears.passed):
                raise TopicNotFoundError(name)
            if code is not None:
                raise broker_error(code, f"topic {name!r}")
            return self.metadata.topics[name]

        try:
            return await self.retrying(attempt, deadline)
        except BrokerError as error:
            if error.code in _TOPIC_NOT_THERE:
                raise TopicNotFoundError(name) from error
            raise

    async def leader(self, topic_partition: TopicPartition, deadline: Deadline) -> PartitionMetadata:
        """The partition with a leader that is a broker of the cluster.

        Raises TopicNotFoundError, or BrokerError LEADER_NOT_AVAILABLE if it has no leader until the deadline.
        """

        async def attempt() -> PartitionMetadata:
            partition = self.metadata.leader(topic_partition)
            if partition is not None and not self.is_old:
                return partition
            self.metadata.forget_topic(topic_partition.topic)
            topic = await self.topic(topic_partition.topic, deadline)
            if topic.partition(topic_partition.partition) is None:
                raise TopicNotFoundError(topic_partition.topic, topic_partition.partition)
            partition = self.metadata.leader(topic_partition)
            if partition is None:
                self.metadata.forget_topic(topic_partition.topic)
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
            return partition

        return await self.retrying(attempt, deadline)

    @property
    def is_old(self) -> bool:
        """Whether what is known of the cluster should be asked for again."""
        updated_ms = self.metadata.updated_ms
        if updated_ms is None or self.metadata.stale:
            return True
        return self.io.clock.monotonic_ms() - updated_ms > self.options.metadata_max_age_ms

    # --- coordinators -----------------------------------------------------------------------------------------------

    async def coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> int:
        """The broker that coordinates a group or a transactional id; one attempt.

        Raises BrokerError COORDINATOR_NOT_AVAILABLE and others.
        """
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self.metadata.brokers:
            return known
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        response = await self.ask_any(request, FindCoordinatorResponse)
        found = next((each for each in response.coordinators if each.key == key), None)
        if found is None or found.error_code:
            code = found.error_code if found is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE
            message = found.error_message if found is not None else None
            what = "group" if key_type == GROUP_COORDINATOR else "transactional id"
            raise broker_error(code, f"finding the coordinator of {what} {key!r}", message)
        if found.node_id not in self.metadata.brokers:
            await self.refresh(())
        self._coordinators[key_type, key] = found.node_id
        return found.node_id

    def forget_coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> None:
        """The coordinator was seen to have moved or gone: look for it before the next request."""
        self._coordinators.pop((key_type, key), None)
