"""Reads records from partitions: those it is told, or its share of topics that a group reads together."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from ottla.client.arguments import (
    EARLIEST_SPECIAL_OFFSET,
    INT64_MAX,
    function,
    offsets_of,
    options_of,
    partition_of,
    partitions_of,
    topic_name,
    topic_names,
    whole_number,
)
from ottla.client.consuming.consumer_group_subscription import ConsumerGroupSubscription
from ottla.client.consuming.consumer_options import ConsumerOptions, GroupProtocol, OffsetReset
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.decoded_records import DecodedRecords
from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.fetcher import Fetcher, begin_offsets
from ottla.client.consuming.group_offsets import NO_MEMBER, Membership
from ottla.client.consuming.group_subscription import (
    GroupSubscription,
    OnPartitions,
    RebalanceCallbacks,
    SubscriptionPattern,
    ignore_partitions,
)
from ottla.client.consuming.offset_committer import OffsetCommitter
from ottla.client.consuming.offsets import ListedOffset, OffsetAt, list_offsets
from ottla.client.consuming.positions import PartitionPosition, Positions
from ottla.client.errors import ClientError, InvalidOptionError, broker_error
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.client.io.troubles import Troubles
from ottla.client.options import ClientOptions, require_client_options
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer


class Consumer:
    """A consumer on the running event loop, for one task at a time.

    >>> options = ConsumerOptions(group_id="billing")
    >>> async with Consumer(ClientOptions.of("localhost:9092"), options) as consumer:  # doctest: +SKIP
    ...     consumer.subscribe(["events"])
    ...     async for record in consumer:
    ...         print(record.offset, record.value)

    Either `assign` partitions or `subscribe` to topics in a group. Rebalances happen during polling: the callbacks
    complete before records of new partitions arrive. A separate task sends heartbeats. `poll` returns records.
    `poll_batches` returns the batches as stored in the log, for other decoders. Use one of the two.
    """

    def __init__(
        self, options: ClientOptions, consumer_options: ConsumerOptions | None = None, *, io: AsyncioIo | None = None
    ) -> None:
        self._options = options_of("consumer_options", consumer_options, ConsumerOptions)
        self._io = io or AsyncioIo()
        self._cluster = Cluster(require_client_options(options), self._io)
        self._positions = Positions()
        self._tasks = Tasks("consumer", on_failure=self._on_crash)
        self._timer: Timer | None = None
        self._running: Fetcher | None = None
        self._subscription: GroupSubscription | ConsumerGroupSubscription | None = None
        self._decoded = DecodedRecords(self._options.decompressed_bytes_max)
        group_id = self._options.group_id
        self._committer = OffsetCommitter(self._cluster, group_id, self._positions) if group_id is not None else None
        self._polled_ms: int | None = None
        """When the application last left `poll`; None while it is there, and before its first time."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Reach the cluster. Raises BrokerUnreachableError at once when none of the addresses answers."""
        await self._cluster.connect()
        self._timer = Timer(self._io.clock, asyncio.get_running_loop().call_later)
        self._running = Fetcher(self._cluster, self._positions, self._options, self._timer, self._tasks)
        self._tasks.spawn(self._running.run(), "fetcher")

    # --- what to read -----------------------------------------------------------------------------------------------

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, from the committed offsets of the group, if any, or by `auto_offset_reset`."""
        partitions = partitions_of(topic_partitions)
        if self._subscription is not None:
            raise InvalidOptionError("a consumer either subscribes or assigns, not both")
        self._positions.assign(partitions)
        self._decoded.forget()
        self._fetcher.wake()

    def subscribe(
        self,
        topics: Iterable[str] | SubscriptionPattern,
        *,
        on_assigned: OnPartitions = ignore_partitions,
        on_revoked: OnPartitions = ignore_partitions,
        on_lost: OnPartitions = ignore_partitions,
    ) -> None:
        """Read this group's share of topics, from the next poll on.

        `on_revoked` gets partitions that this member still owns and is about to revoke, `on_lost` partitions that may
        already belong to another member. In the protocol `consumer` a `SubscriptionPattern` includes all topics whose
        names match, and the callbacks get the changes. In `classic` all partitions are revoked and assigned again.
        """
        wanted = topics if isinstance(topics, SubscriptionPattern) else topic_names(topics)
        for name, callback in (("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost)):
            function(name, callback)
        if self._options.group_id is None:
            raise InvalidOptionError("subscribing needs a group id: set group_id, or assign partitions")
        if self._positions and self._subscription is None:
            raise InvalidOptionError("a consumer either subscribes or assigns, not both")
        is_pattern = isinstance(wanted, SubscriptionPattern)
        if is_pattern and self._options.group_protocol is not GroupProtocol.CONSUMER:
            raise InvalidOptionError("a subscription by pattern needs group_protocol='consumer'")
        fetcher = self._fetcher
        if self._subscription is None:
            self._subscription = self._new_subscription()
            keep_alive = self._subscription.keep_alive(self._idle_ms, fetcher.interrupt)
            self._tasks.spawn(keep_alive, "heartbeats")
        self._subscription.subscribe(wanted, RebalanceCallbacks(on_assigned, on_revoked, on_lost))

    def _new_subscription(self) -> GroupSubscription | ConsumerGroupSubscription:
        parts = self._cluster, self._options, self._positions, self._decoded
        if self._options.group_protocol is GroupProtocol.CONSUMER:
            assert self._timer is not None
            return ConsumerGroupSubscription(*parts, self._timer)
        return GroupSubscription(*parts)

    @property
    def group_id(self) -> str | None:
        """The group this consumer belongs to or commits for."""
        return self._options.group_id

    @property
    def membership(self) -> Membership:
        """The group membership of this consumer, for `Producer.send_offsets_to_transaction`."""
        return self._identity()

    @property
    def io(self) -> AsyncioIo:
        """Its clock and its pauses."""
        return self._io

    @property
    def troubles(self) -> Troubles:
        """The problems that this client is waiting for, such as an unreachable broker."""
        return self._cluster.troubles

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self._positions.partitions()

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continue at this offset of an assigned partition."""
        self._assigned(topic_partition).seek(whole_number("offset", offset, highest=INT64_MAX))
        self._decoded.forget()
        self._fetcher.wake()

    async def seek_to(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Continue at timestamps (ms since 1970) or points of `OffsetAt`; returns the offsets.

        A partition without a record that young goes on at its end.
        """
        listed = await self.list_offsets(at)
        late = [each for each, offset in listed.items() if offset.offset < 0]
        ends = await self.list_offsets(dict.fromkeys(late, OffsetAt.LATEST))
        offsets = {each: (ends.get(each) or found).offset for each, found in listed.items()}
        for topic_partition, offset in offsets.items():
            self.seek(topic_partition, offset)
        return offsets

    def pause(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        for position in [self._assigned(each) for each in partitions_of(topic_partitions)]:
            position.paused = True

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Resume paused partitions."""
        for position in [self._assigned(each) for each in partitions_of(topic_partitions)]:
            position.paused = False
        self._fetcher.wake()

    def position(self, topic_partition: TopicPartition) -> int | None:
        """The offset of the next record that poll returns of a partition; None while it is not known yet."""
        return self._assigned(topic_partition).next_offset

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Records between the position and the end of a partition, as of the newest answer; None before the first."""
        return self._assigned(topic_partition).lag

    async def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """Offsets at timestamps or at points of `OffsetAt`, as this consumer's isolation level sees them."""
        wanted = offsets_of("at", at, EARLIEST_SPECIAL_OFFSET)
        return await list_offsets(self._cluster, wanted, self._cluster.deadline(), self._options.isolation)

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises TopicNotFoundError."""
        found = await self._cluster.topic(topic_name(topic), self._cluster.deadline())
        return [TopicPartition(topic, each.partition) for each in found.partitions]

    # --- reading ----------------------------------------------------------------------------------------------------

    async def poll_batches(self, timeout_ms: int = 1_000) -> list[FetchedBatches]:
        """What has arrived, at most one answer of each partition, batches as they lie in the log; empty when nothing.

        Positions advance past the returned batches. Raises permanent errors of brokers, and TopicNotFoundError.
        """
        whole_number("timeout_ms", timeout_ms)
        deadline = Deadline(self._io.clock, timeout_ms)
        with self._polling():
            while True:
                await self._keep_up()
                found = self._take_waiting()
                if found or deadline.passed:
                    return found
                await self._fetcher.arrival(deadline.left_ms)

    async def poll(self, max_records: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `max_records` records, in order within each partition; empty when none arrives within the timeout.

        With 0 it only keeps up with the group.
        Raises the errors of `poll_batches`, and KernelError for invalid batches.
        """
        whole_number("max_records", max_records)
        whole_number("timeout_ms", timeout_ms)
        deadline = Deadline(self._io.clock, timeout_ms)
        with self._polling():
            while True:
                await self._keep_up()
                records = self._decoded.give(max_records)
                while len(records) < max_records and (position := self._positions.next_waiting()) is not None:
                    try:
                        self._decoded.decode(position)
                    except ClientError as error:
                        if not records:
                            raise
                        # Those of other partitions count as given: they are, and the next poll raises.
                        self._fetcher.fail(error)
                        return records
                    self._fetcher.wake()
                    records += self._decoded.give(max_records - len(records))
                if records or deadline.passed:
                    return records
                await self._fetcher.arrival(deadline.left_ms)

    async def __aiter__(self) -> AsyncGenerator[ConsumerRecord, None]:
        """Records one by one, for ever. With `auto_commit` a record counts as read when the next one is asked for."""
        while True:
            for record in await self.poll(1):
                yield record

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit for the group: the next offsets to read, by default the positions of all partitions.

        Raises BrokerError. REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH and UNKNOWN_MEMBER_ID mean
        that the partitions may belong to another member.
        """
        await self._group.commit(self._identity, None if offsets is None else offsets_of("offsets", offsets))

    async def committed(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets for these partitions; partitions without one are left out."""
        return await self._group.fetch(partitions_of(topic_partitions))

    async def close(self) -> None:
        """Commit if `auto_commit` is set, leave the group and close the connections."""
        if self._running is not None:
            await self._auto_commit(at_once=True)
            if self._subscription is not None:
                await self._subscription.leave()
        await self._tasks.close()
        self._cluster.close()

    # --- within polling ---------------------------------------------------------------------------------------------

    @property
    def _fetcher(self) -> Fetcher:
        if self._running is None:
            raise ClientError("the consumer is not started: use `async with Consumer(...)` or `await consumer.start()`")
        return self._running

    @contextmanager
    def _polling(self) -> Iterator[None]:
        """While the application waits in here it is not slow, however long a rebalance takes."""
        self._polled_ms = None
        try:
            yield
        finally:
            self._polled_ms = self._io.clock.monotonic_ms()

    async def _keep_up(self) -> None:
        """What must be in order before records are given: membership, positions, and no error to tell."""
        fetcher = self._fetcher
        if self._subscription is not None and await self._subscription.keep_up(self._commit_before_rebalance):
            self._group.forget()
            fetcher.wake()
        error = fetcher.take_error()
        if error is not None:
            raise error
        if self._subscription is None and not self._positions:
            raise InvalidOptionError("nothing to poll: subscribe to topics or assign partitions first")
        await self._auto_commit()
        if self._positions.without_position():
            await self._begin()
            fetcher.wake()

    async def _begin(self) -> None:
        """Find where to begin in the partitions of which that is not known."""
        missing = self._positions.without_position()
        offsets: dict[TopicPartition, int] = {}
        if self._committer is not None:
            offsets = await self._committer.fetch(missing)
            self._committer.begin_at(offsets)
        uncommitted = [each for each in missing if each not in offsets]
        if uncommitted and self._options.auto_offset_reset is OffsetReset.NONE:
            raise broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"no offset to begin at in {uncommitted[0]}",
                "none is committed; set auto_offset_reset, or seek",
            )
        if uncommitted:
            offsets |= await begin_offsets(self._cluster, uncommitted, self._options)
        for topic_partition, offset in offsets.items():
            position = self._positions.get(topic_partition)
            if position is not None and position.next_offset is None:
                position.seek(offset)

    def _take_waiting(self) -> list[FetchedBatches]:
        """One answer of each partition that has any."""
        found: list[FetchedBatches] = []
        for _ in range(len(self._positions)):
            position = self._positions.next_waiting()
            if position is None or (found and found[0].topic_partition == position.topic_partition):
                break
            found.append(position.take())
        if found:
            self._fetcher.wake()
        return found

    # --- committing ----------------------------------------------------------------------------------------------

    @property
    def _group(self) -> OffsetCommitter:
        if self._committer is None:
            raise InvalidOptionError("committed offsets need a group: set group_id")
        return self._committer

    def _identity(self) -> Membership:
        return self._subscription.identity if self._subscription is not None else NO_MEMBER

    async def _commit_before_rebalance(self) -> None:
        await self._auto_commit(at_once=True)

    async def _auto_commit(self, *, at_once: bool = False) -> None:
        if self._committer is None or not self._options.auto_commit:
            return
        interval_ms = 0 if at_once else self._options.auto_commit_interval_ms
        still_member = await self._committer.commit_when_due(self._identity, interval_ms)
        if not still_member and self._subscription is not None:
            self._subscription.rejoin()

    def _idle_ms(self) -> int:
        return 0 if self._polled_ms is None else self._io.clock.monotonic_ms() - self._polled_ms

    def _assigned(self, topic_partition: TopicPartition) -> PartitionPosition:
        wanted = partition_of(topic_partition)
        position = self._positions.get(wanted)
        if position is None:
            raise InvalidOptionError(f"{wanted} is not assigned to this consumer")
        return position

    def _on_crash(self, task: str, error: BaseException) -> None:
        if self._running is not None:
            self._running.fail(ClientError(f"the consumer failed in {task!r}: {error!r}"))
