"""A client for code that is not asynchronous: scripts, notebooks, Spark tasks.

Every call blocks the calling thread until its answer is there. There is no event loop and no thread behind it, so it
can be made after a fork, in any thread, and inside of a running event loop. Large answers are received into one buffer
and handed out as views of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.client.blocking_io import BlockingIo, run_blocking
from ottla.client.blocking_producer import BlockingProducer
from ottla.client.blocking_transactions import BlockingTransactions
from ottla.client.cluster import Cluster
from ottla.client.cluster_metadata import ClusterMetadata, TopicMetadata
from ottla.client.configs import ConfigResource, ConfigSource
from ottla.client.errors import ClientError, OffsetOutOfRangeError, broker_error
from ottla.client.fetch import FetchedBatches, FetchPosition, FetchWait, fetch_request, fetched
from ottla.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.client.offsets import IsolationLevel, ListedOffset, list_offsets
from ottla.client.options import ClientOptions
from ottla.client.produce import Acks, ProducedBatch, produce_request, produced
from ottla.client.producer_batch import Identity
from ottla.client.read_replicas import ReadReplicas
from ottla.client.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from ottla.client.admin import CreatedTopic, NewTopic

logger = logging.getLogger(__name__)


class BlockingClient:
    """One client of one cluster, for one thread at a time. `close()` it, or use it in a `with` statement.

    >>> with BlockingClient("localhost:9092") as client:  # doctest: +SKIP
    ...     [end] = client.list_offsets({TopicPartition("events", 0): OffsetAt.LATEST}).values()
    ...     answer = client.fetch_raw("events", 0, offset=0)

    `settings` are fields of `ClientOptions`. Nothing is sent before the first call. Calls retry what is retriable until
    `api_timeout_ms` has passed; they raise subclasses of ClientError.
    """

    def __init__(self, bootstrap: str, **settings: int | str) -> None:
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
        """End the connections. The only method that another thread may call meanwhile: it ends what is under way."""
        self._io.stop()
        self._cluster.close()

    def cluster(self) -> ClusterMetadata:
        """Id, controller and brokers of the cluster, asked for now."""
        run_blocking(self._cluster.refresh(()))
        return self._cluster.metadata

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, internal ones included, asked for now."""
        run_blocking(self._cluster.refresh(None))
        return dict(self._cluster.metadata.topics)

    def metadata(self, topics: Iterable[str], *, refresh: bool = True) -> dict[str, TopicMetadata]:
        """These topics with their partitions and leaders. Raises TopicNotFoundError for one that does not exist.

        With `refresh=False` what is already known is taken, unless it is stale.
        """
        deadline = self._cluster.deadline()
        found = {}
        for name in topics:
            if refresh:
                self._cluster.metadata.forget_topic(name)
            found[name] = run_blocking(self._cluster.topic(name, deadline))
        return found

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the offset at a timestamp (ms since 1970) or at `OffsetAt.EARLIEST`, `LATEST`.

        `offset` is -1 where no record is at or after the timestamp.
        """
        return run_blocking(list_offsets(self._cluster, at, self._cluster.deadline(), isolation))

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
        """Record batches of a partition from `offset` on, as they lie in the log; see `FetchedBatches`.

        They come from the leader, or from a replica in `rack` when the leader names one.

        At least one whole batch comes, if there is any, even when it is larger than `max_bytes`. Raises
        OffsetOutOfRangeError when the offset was deleted or lies after the end.
        """
        position = FetchPosition(TopicPartition(topic, partition), offset, max_bytes)
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
        """Append encoded record batches to a partition: at least once, as they are sent again after a lost answer.

        Batches that carry a producer id and sequence numbers are appended once. Raises BrokerError.
        """
        if acks == Acks.NONE:
            raise ValueError("a blocking produce waits for an answer: acks must be LEADER or ALL")
        topic_partition = TopicPartition(topic, partition)
        deadline = self._cluster.deadline()
        return run_blocking(
            self._cluster.retrying(lambda: self._produce(topic_partition, batches, acks, deadline), deadline)
        )

    def producer(self, *, transactional_id: str | None = None, identity: Identity | None = None) -> BlockingProducer:
        """A new idempotent producer of this client; with an id and an identity it writes to that one's transaction."""
        return BlockingProducer(self._cluster, transactional_id=transactional_id, identity=identity)

    def transactions(self, transactional_id: str) -> BlockingTransactions:
        """The coordinator's side of the transactions of this id."""
        return BlockingTransactions(self._cluster, transactional_id)

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Create a topic; see `Admin.create_topic`."""
        # Only here: readers and writers, which start often, have no use for it.
        from ottla.client.admin import Admin

        return run_blocking(Admin(self._cluster).create_topic(topic))

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The settings that a topic has of its own, secrets left out. Raises TopicNotFoundError."""
        from ottla.client.admin import Admin

        entries = run_blocking(Admin(self._cluster).describe_configs(ConfigResource.topic(topic)))
        return {
            each.name: each.value for each in entries if each.source is ConfigSource.TOPIC and each.value is not None
        }

    def group_ids(self) -> list[str]:
        """The groups that commit offsets: classic ones and those of KIP-848, by name."""
        from ottla.client.group_admin import GroupAdmin

        groups = run_blocking(GroupAdmin(self._cluster).list_groups())
        return [each.group_id for each in groups if each.group_type.lower() in {"", "classic", "consumer"}]

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a consumer group has committed, for these partitions or for all it has."""
        return run_blocking(committed_offsets(self._cluster, group_id, partitions, self._cluster.deadline()))

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        """Commit for a group that has no members, so that its progress can be seen. Raises BrokerError."""
        commits = {
            topic_partition: CommittedOffset(offset) if isinstance(offset, int) else offset
            for topic_partition, offset in offsets.items()
        }
        run_blocking(commit_offsets(self._cluster, group_id, commits, self._cluster.deadline()))

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
