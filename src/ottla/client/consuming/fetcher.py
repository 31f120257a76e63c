"""Fetches ahead of what is polled, from all leaders, or the replicas they name, beside each other.

It stops when enough is waiting.
"""

import asyncio
import logging

from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.fetch import FetchedBatches, FetchPosition, FetchWait, fetch_request, fetched
from ottla.client.consuming.offsets import IsolationLevel, OffsetAt, list_offsets
from ottla.client.consuming.positions import PartitionPosition, Positions
from ottla.client.consuming.read_replicas import ReadReplicas
from ottla.client.consuming.visible_batches import whole_batches
from ottla.client.errors import ClientError, OffsetOutOfRangeError, TopicNotFoundError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.connection_pool import Lane
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.fetch import FetchResponse
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

_LEADERS = -2
"""Stands in `_busy` while leaders are looked for."""
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Fetcher:
    """The fetching half of one consumer, on one event loop."""

    def __init__(
        self, cluster: Cluster, positions: Positions, options: ConsumerOptions, timer: Timer, tasks: Tasks
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._options = options
        self._timer = timer
        self._tasks = tasks
        self._replicas = ReadReplicas(cluster.io.clock, cluster.options.metadata_max_age_ms)
        self._busy: set[int] = set()
        self._troubled: set[int] = set()
        """Brokers from which reading is interrupted."""
        self._refused: set[TopicPartition] = set()
        """Partitions that a broker did not serve."""
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._error: Exception | None = None

    def wake(self) -> None:
        """Positions were assigned, moved, resumed or polled."""
        self._changed.set()

    def take_error(self) -> Exception | None:
        """What the one who polls must be told, once."""
        error, self._error = self._error, None
        return error

    async def arrival(self, timeout_ms: int) -> None:
        """Return when there may be something to poll or to be told, at the latest after a time."""
        alarm = self._timer.schedule(timeout_ms, self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            alarm.cancel()
            self._arrived.clear()

    def interrupt(self) -> None:
        """Let the one who waits for an arrival look around."""
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """The next poll raises this."""
        self._error = error
        self._arrived.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            self._changed.clear()
            self._fetch_what_is_wanted()
            alarm = self._timer.schedule(self._cluster.options.retry_backoff_max_ms, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                alarm.cancel()

    # --- asking -----------------------------------------------------------------------------------------------------

    def _fetch_what_is_wanted(self) -> None:
        by_broker: dict[int, list[PartitionPosition]] = {}
        unknown: set[str] = set()
        now_ms = self._cluster.io.clock.monotonic_ms()
        for position in self._positions.fetchable(self._options.fetches_ahead_max, now_ms):
            node_id = self._source(position.topic_partition)
            if node_id is None:
                unknown.add(position.topic_partition.topic)
            elif node_id not in self._busy:
                by_broker.setdefault(node_id, []).append(position)
        self._forget_troubles()
        if (unknown or self._cluster.is_old) and _LEADERS not in self._busy:
            self._busy.add(_LEADERS)
            self._tasks.spawn(self._look_for_leaders(unknown), "look for leaders")
        for node_id, positions in by_broker.items():
            self._busy.add(node_id)
            self._tasks.spawn(self._fetch(node_id, positions), f"fetch from broker {node_id}")

    async def _look_for_leaders(self, topics: set[str]) -> None:
        topics = topics | {topic for topic, _ in self._positions.partitions()}
        try:
            errors = await self._cluster.refresh(topics)
            gone = [name for name, code in errors.items() if code in _GONE]
            if gone:
                self.fail(TopicNotFoundError(gone[0]))
            without = [each for each in self._positions.partitions() if self._cluster.metadata.leader(each) is None]
            if without:
                error = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{without[0]} has no leader")
                self._cluster.troubles.note(_LEADERS, error)
            else:
                self._cluster.troubles.over(_LEADERS)
            if errors or without:
                await self._cluster.io.pause(self._cluster.options.retry_backoff_ms)
        except ClientError as error:
            logger.debug("looking for leaders: %s", error)
            self._cluster.troubles.note(_LEADERS, error)
            await self._cluster.io.pause(self._cluster.options.retry_backoff_ms)
        finally:
            self._busy.discard(_LEADERS)
            self._changed.set()

    async def _fetch(self, node_id: int, positions: list[PartitionPosition]) -> None:
        asked = [
            (position, position.generation, FetchPosition(position.topic_partition, position.fetch_offset, self._bytes))
            for position in positions
            if position.fetch_offset is not None
        ]
        wait = FetchWait(self._options.fetch_max_wait_ms, self._options.fetch_min_bytes, self._options.fetch_max_bytes)
        wanted = [each for _, _, each in asked]
        request = fetch_request(wanted, self._cluster.metadata, wait, self._options.isolation, self._options.rack)
        try:
            response = await self._cluster.ask_node(
                node_id,
                request,
                FetchResponse,
                timeout_ms=self._cluster.options.request_timeout_ms + wait.max_wait_ms,
                lane=Lane.FETCH,
            )
            if response.error_code:
                raise broker_error(response.error_code, f"fetching from broker {node_id}")
        except (ClientError, InvalidInputError) as error:
            self._trouble(node_id, error)
            for position, _, _ in asked:
                self._replicas.forget(position.topic_partition)
            self._cluster.metadata.stale = True
            await self._cluster.io.pause(self._cluster.options.retry_backoff_ms)
        else:
            self._troubled.discard(node_id)
            self._cluster.troubles.over(("fetch", node_id))
            answers = {each.topic_partition: each for each in fetched(response, request)}
            for position, generation, _ in asked:
                answer = answers.get(position.topic_partition)
                if answer is None or position.generation != generation:
                    continue
                # Another broker may have been asked since, who led by then, and have answered first.
                if answer.offset == position.fetch_offset:
                    await self._on_answer(position, answer)
        finally:
            self._busy.discard(node_id)
            self._changed.set()

    def _trouble(self, node_id: int, error: Exception) -> None:
        """Say once that reading has stopped: it goes on by itself, but whoever waits should know why nothing comes."""
        self._cluster.troubles.note(("fetch", node_id), error)
        level = logging.DEBUG if node_id in self._troubled else logging.WARNING
        self._troubled.add(node_id)
        logger.log(level, "reading from broker %d is interrupted, trying again: %s", node_id, error)

    def _forget_troubles(self) -> None:
        """Of brokers that nothing is read from any more, and of partitions that are another's."""
        assigned = self._positions.partitions()
        for topic_partition in self._refused.difference(assigned):
            self._refused.discard(topic_partition)
            self._cluster.troubles.over(("fetch", topic_partition))
        if not self._troubled:
            return
        sources = [self._source(each) for each in assigned]
        if None in sources:  # it may be the one that is not there
            return
        for node_id in self._troubled.difference(sources):
            self._troubled.discard(node_id)
            self._cluster.troubles.over(("fetch", node_id))

    def _source(self, topic_partition: TopicPartition) -> int | None:
        """The broker that a partition is read from; None when it is not known."""
        leader = self._cluster.metadata.leader(topic_partition)
        if leader is None:
            return None
        replica = self._replicas.node(topic_partition, self._cluster.metadata.brokers)
        return leader.leader if replica is None else replica

    @property
    def _bytes(self) -> int:
        return self._options.partition_fetch_bytes_max

    # --- answers ----------------------------------------------------------------------------------------------------

    async def _on_answer(self, position: PartitionPosition, answer: FetchedBatches) -> None:
        topic_partition = position.topic_partition
        if answer.error == ErrorCode.NONE:
            if answer.preferred_read_replica >= 0 and not answer.records:
                self._replicas.name(topic_partition, answer.preferred_read_replica)
            self._keep(position, answer)
        elif self._replicas.node(topic_partition, self._cluster.metadata.brokers) is not None:
            # The leader knows whether an offset is out of range, and who leads.
            self._replicas.forget(topic_partition)
        elif answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(position, answer.offset)
        elif answer.error.retriable:
            self._cluster.metadata.forget_topic(topic_partition.topic)
            error = broker_error(answer.error, f"fetching from {topic_partition}")
            self._refused.add(topic_partition)
            self._cluster.troubles.note(("fetch", topic_partition), error)
            position.retry_at_ms = self._cluster.io.clock.monotonic_ms() + self._cluster.options.retry_backoff_ms
        else:
            self.fail(broker_error(answer.error, f"fetching from {topic_partition}"))
            position.retry_at_ms = self._cluster.io.clock.monotonic_ms() + self._cluster.options.retry_backoff_max_ms

    def _keep(self, position: PartitionPosition, answer: FetchedBatches) -> None:
        if position.topic_partition in self._refused:
            self._refused.discard(position.topic_partition)
            self._cluster.troubles.over(("fetch", position.topic_partition))
        committed = self._options.isolation == IsolationLevel.READ_COMMITTED
        position.high_watermark = answer.last_stable_offset if committed else answer.high_watermark
        if not answer.records:
            self._arrived.set()
            return
        try:
            batches = whole_batches(answer.records)
        except InvalidInputError as error:
            self.fail(ClientError(f"{position.topic_partition} at offset {answer.offset}: {error}"))
            position.seek(answer.offset)
            position.paused = True
            return
        if batches:
            position.fetch_offset = batches[-1].last_offset + 1
            position.waiting.append(answer)
            self._arrived.set()

    async def _out_of_range(self, position: PartitionPosition, offset: int) -> None:
        """The records before the log start offset were deleted; those after the end were lost, or never written."""
        if position.waiting:
            # What was fetched before is polled first: by then the position may be somewhere else.
            return
        topic_partition = position.topic_partition
        if self._options.auto_offset_reset is OffsetReset.NONE:
            self.fail(OffsetOutOfRangeError(*topic_partition, offset))
            position.paused = True
            return
        generation = position.generation
        begin = await begin_offsets(self._cluster, [topic_partition], self._options)
        if position.generation == generation:
            logger.warning(
                "offset %d of %s is out of range: continuing at the %s, %d",
                offset,
                topic_partition,
                "beginning" if self._options.auto_offset_reset is OffsetReset.EARLIEST else "end",
                begin[topic_partition],
            )
            position.seek(begin[topic_partition])


async def begin_offsets(
    cluster: Cluster, topic_partitions: list[TopicPartition], options: ConsumerOptions
) -> dict[TopicPartition, int]:
    """Where to begin without an offset: as `auto_offset_reset` says, which is not `NONE`."""
    at = OffsetAt.EARLIEST if options.auto_offset_reset is OffsetReset.EARLIEST else OffsetAt.LATEST
    listed = await list_offsets(cluster, dict.fromkeys(topic_partitions, at), cluster.deadline(), options.isolation)
    return {topic_partition: each.offset for topic_partition, each in listed.items()}
