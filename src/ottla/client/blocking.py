"""A client for code that is not asynchronous: scripts, notebooks, Spark tasks.

Every call blocks the calling thread until its response arrives. It uses no event loop and no other thread, so it can
be created after a fork, in any thread, and inside of a running event loop. Large responses are received into one
buffer and returned as views of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.client.address import Address
from ottla.client.admin.configs import ConfigResource, ConfigSource
from ottla.client.arguments import (
    EARLIEST_SPECIAL_OFFSET,
    INT64_MAX,
    flag,
    instance_of,
    items_of,
    kind_name,
    member_of,
    offsets_of,
    partition_of,
    partitions_of,
    text,
    topic_name,
    whole_number,
)
from ottla.client.consuming.fetch import FetchedBatches, FetchPosition, FetchWait, fetch_request, fetched
from ottla.client.consuming.group_offsets import CommittedOffset, commit_offsets, committed_offsets, offsets_to_commit
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, list_offsets
from ottla.client.consuming.read_replicas import ReadReplicas
from ottla.client.errors import ClientError, InvalidOptionError, OffsetOutOfRangeError, broker_error
from ottla.client.io.blocking_io import BlockingIo, run_blocking
from ottla.client.io.cluster import Cluster
from ottla.client.io.cluster_metadata import ClusterMetadata, TopicMetadata
from ottla.client.io.retry import Deadline
from ottla.client.options import ClientOptions
from ottla.client.producing.blocking_producer import BlockingProducer
from ottla.client.producing.blocking_transactions import BlockingTransactions
from ottla.client.producing.produce import Acks, ProducedBatch, produce_request, produced
from ottla.client.producing.producer_batch import Identity
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from ottla.client.admin.admin import CreatedTopic, NewTopic

logger = logging.getLogger(__name__)


class BlockingClient:
    """One client of one cluster, for one thread at a time. `close()` it, or use it in a `with` statement.

    >>> with BlockingClient("localhost:9092") as client:  # doctest: +SKIP
    ...     [end] = client.list_offsets({TopicPartition("events", 0): OffsetAt.LATEST}).values()
    ...     answer = client.fetch_raw("events", 0, offset=0)

    `settings` are fields of `ClientOptions`. Nothing is sent before the first call. Calls retry retriable errors until
    `api_timeout_ms` has passed. They raise subclasses of ClientError.
    """

    def __init__(self, bootstrap: str | Iterable[str | Address], **settings: int | str) -> None:
        self._io = BlockingIo()
        self._cluster = Cluster(ClientOptions.of(bootstrap, **settings), self._io)
        self._replicas = ReadReplicas(self._io.clock, self._cluster.options.metadata_max_age_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and interrupt a call in progress. Other threads may call only this method."""
        self._io.stop()
        self._cluster.close()

    def cluster(self) -> ClusterMetadata:
        """The id, controller and brokers of the cluster, from a new request."""
        run_blocking(self._cluster.refresh(()))
        return self._cluster.metadata

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, including internal ones, from a new request."""
        run_blocking(self._cluster.refresh(None))
        return dict(self._cluster.metadata.topics)

    def metadata(self, topics: Iterable[str], *, refresh: bool = True) -> dict[str, TopicMetadata]:
        """These topics with their partitions and leaders. Raises TopicNotFoundError for one that does not exist.

        With `refresh=False` cached metadata is used, unless it is stale.
        """
        flag("refresh", refresh)
        deadline = self._cluster.deadline()
        found = {}
        for name in [topic_name(each) for each in items_of("topics", topics, "names", "['orders']")]:
            if refresh:
                self._cluster.metadata.forget_topic(name)
            found[name] = run_blocking(self._cluster.topic(name, deadline))
        return found

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the offset at a timestamp (ms since 1970) or at `OffsetAt.EARLIEST`, `LATEST`.

        `offset` is -1 if no record is at or after the timestamp.
        """
        wanted = offsets_of("at", at, EARLIEST_SPECIAL_OFFSET)
        level = member_of(IsolationLevel, "isolation", isolation)
        return run_blocking(list_offsets(self._cluster, wanted, self._cluster.deadline(), level))

    def fetch_raw(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 16 * 1024 * 1024,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        rack: str = "",
    ) -> FetchedBatches:
        """Record batches of a partition from `offset` on, as stored in the log; see `FetchedBatches`.

        They come from the leader, or from a replica in `rack` if the leader returns one.

        If there is a batch, at least one whole batch is returned, even if it is larger than `max_bytes`. Raises
        OffsetOutOfRangeError if the offset was deleted or is after the end.
        """
        whole_number("offset", offset, highest=INT64_MAX)
        for name, number in (("max_bytes", max_bytes), ("max_wait_ms", max_wait_ms), ("min_bytes", min_bytes)):
            whole_number(name, number)
        isolation = member_of(IsolationLevel, "isolation", isolation)
        instance_of("rack", rack, str)
        position = FetchPosition(partition_of((topic, partition)), offset, max_bytes)
        wait = FetchWait(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes)
        deadline = self._cluster.deadline()

        async def attempt() -> FetchedBatches:
            if rack:
                answer = await self._fetch_nearby(position, wait, isolation, deadline, rack)
                if answer is not None:
                    return answer
            leader = await self._cluster.leader(position.topic_partition, deadline)
            return await self._fetch(leader.leader, position, wait, isolation, "")

        return run_blocking(self._cluster.retrying(attempt, deadline))

    def produce_raw(
        self, topic: str, partition: int, batches: bytes | bytearray | memoryview, *, acks: Acks = Acks.ALL
    ) -> ProducedBatch:
        """Append encoded record batches to a partition, at least once: they are sent again after a lost response.

        Batches that carry a producer id and sequence numbers are appended once. Raises BrokerError.
        """
        acks = member_of(Acks, "acks", acks)
        if acks == Acks.NONE:
            raise InvalidOptionError("a blocking produce waits for an answer: acks must be LEADER or ALL")
        if not isinstance(batches, bytes | bytearray | memoryview):
            raise InvalidOptionError(f"batches must be the bytes of record batches, not {kind_name(batches)}")
        topic_partition = partition_of((topic, partition))
        deadline = self._cluster.deadline()
        return run_blocking(
            self._cluster.retrying(lambda: self._produce(topic_partition, batches, acks, deadline), deadline)
        )

    def producer(self, *, transactional_id: str | None = None, identity: Identity | None = None) -> BlockingProducer:
        """A new idempotent producer of this client; with an id and an identity it writes to that one's transaction."""
        if (transactional_id is None) != (identity is None):
            raise InvalidOptionError("transactional_id and identity belong together: give both, or neither")
        if transactional_id is not None:
            text("transactional_id", transactional_id)
            instance_of("identity", identity, Identity, ": see BlockingTransactions.take_over")
        return BlockingProducer(self._cluster, transactional_id=transactional_id, identity=identity)

    def transactions(self, transactional_id: str) -> BlockingTransactions:
        """The coordinator's side of the transactions of this id."""
        return BlockingTransactions(self._cluster, text("transactional_id", transactional_id))

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Create a topic; see `Admin.create_topic`."""
        # Only here: readers and writers, which start often, have no use for it.
        from ottla.client.admin.admin import Admin

        return run_blocking(Admin(self._cluster).create_topic(topic))

    def topic_settings(self, topic: str, *, own: bool = True) -> dict[str, str]:
        """The topic's own settings, or all of its settings, without secrets. Raises TopicNotFoundError."""
        from ottla.client.admin.admin import Admin

        flag("own", own)
        entries = run_blocking(Admin(self._cluster).describe_configs(ConfigResource.topic(topic_name(topic))))
        return {
            each.name: each.value
            for each in entries
            if each.value is not None and (each.source is ConfigSource.TOPIC or not own)
        }

    def group_ids(self) -> list[str]:
        """The groups that commit offsets: classic ones and those of KIP-848, by name."""
        from ottla.client.admin.group_admin import GroupAdmin

        groups = run_blocking(GroupAdmin(self._cluster).list_groups())
        return [each.group_id for each in groups if each.group_type.lower() in {"", "classic", "consumer"}]

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a consumer group, for these partitions or for all."""
        text("group_id", group_id)
        wanted = None if partitions is None else partitions_of(partitions)
        return run_blocking(committed_offsets(self._cluster, group_id, wanted, self._cluster.deadline()))

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        """Commit offsets for a group without members, so that tools show its lag. Raises BrokerError."""
        commits = offsets_to_commit(offsets)
        run_blocking(commit_offsets(self._cluster, text("group_id", group_id), commits, self._cluster.deadline()))

    async def _fetch_nearby(
        self, position: FetchPosition, wait: FetchWait, isolation: IsolationLevel, deadline: Deadline, rack: str
    ) -> FetchedBatches | None:
        """From the replica that the leader names for the rack; None when that is in trouble, or behind."""
        topic_partition = position.topic_partition
        leader = await self._cluster.leader(topic_partition, deadline)
        node_id = self._replicas.node(topic_partition, self._cluster.metadata.brokers)
        if node_id is None:
            answer = await self._fetch(leader.leader, position, wait, isolation, rack)
            node_id = answer.preferred_read_replica
            if node_id < 0 or node_id not in self._cluster.metadata.brokers:
                return answer if node_id < 0 else None
            self._replicas.name(topic_partition, node_id)
        try:
            return await self._fetch(node_id, position, wait, isolation, rack)
        except ClientError as error:
            # The leader knows whether an offset is out of range, and who leads.
            logger.debug("reading %s from its leader, not from replica %d: %s", topic_partition, node_id, error)
            self._replicas.forget(topic_partition)
            return None

    async def _fetch(
        self, node_id: int, position: FetchPosition, wait: FetchWait, isolation: IsolationLevel, rack: str
    ) -> FetchedBatches:
        cluster = self._cluster
        topic_partition = position.topic_partition
        request = fetch_request([position], cluster.metadata, wait, isolation, rack)
        timeout_ms = cluster.options.request_timeout_ms + wait.max_wait_ms
        response = await cluster.ask_node(node_id, request, FetchResponse, timeout_ms=timeout_ms)
        if response.error_code:
            raise broker_error(response.error_code, f"fetching from {topic_partition}")
        answers = fetched(response, request)
        if not answers:
            raise broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker left {topic_partition} out of its answer")
        answer = answers[0]
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(*topic_partition, position.offset)
        if answer.error != ErrorCode.NONE:
            cluster.metadata.forget_topic(topic_partition.topic)
            raise broker_error(answer.error, f"fetching from {topic_partition}")
        return answer

    async def _produce(
        self,
        topic_partition: TopicPartition,
        batches: bytes | bytearray | memoryview,
        acks: Acks,
        deadline: Deadline,
    ) -> ProducedBatch:
        cluster = self._cluster
        leader = await cluster.leader(topic_partition, deadline)
        timeout_ms = cluster.options.request_timeout_ms
        request = produce_request([(topic_partition, batches)], cluster.metadata, acks, timeout_ms)
        response = await cluster.ask_node(leader.leader, request, ProduceResponse, timeout_ms=timeout_ms)
        answers = produced(response, request)
        if not answers:
            raise broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker left {topic_partition} out of its answer")
        if answers[0].error != ErrorCode.NONE:
            cluster.metadata.forget_topic(topic_partition.topic)
            raise answers[0].as_exception()
        return answers[0]
