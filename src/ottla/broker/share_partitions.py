"""The share partitions that this broker leads and somebody reads: their state, loaded when it is first needed.

Members of share groups and the readers of other protocols enter a group first; while nobody is in it, nothing of it is
kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.deliveries import Deliveries
from ottla.queues.history import Event, Histories
from ottla.queues.recent_reads import RecentReads
from ottla.queues.redelivery import Backoff
from ottla.queues.remembered_batches import RememberedBatches
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_partition import SharePartition
from ottla.queues.share_state import ShareKey
from ottla.queues.state_batches import combine
from ottla.queues.surroundings import Surroundings

if TYPE_CHECKING:
    from ottla.broker.history_topic import HistoryTopic
    from ottla.broker.redis_exchange import RedisExchange
    from ottla.model.principal import Principal
    from ottla.queues.letters import WriteLetters
    from ottla.queues.share_states import ShareStates
    from ottla.queues.shared_partition import SharedPartition
    from ottla.replication.partition import Partition
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.runtime.clock import Clock
    from ottla.runtime.rng import Rng
    from ottla.runtime.tasks import Tasks
    from ottla.runtime.timer import Timer
    from ottla.settings.group_settings import GroupSettings

SHARE_PARTITIONS_MAX: Final = 100_000
"""Share partitions that this broker leads and has loaded; a further one is refused until the group uses fewer."""
LOOK_MS: Final = 5_000
"""So often a partition that is read looks whether its group was made to begin elsewhere: leaders are not told."""
LOOKS_MAX: Final = 100
"""So many look at a time."""

Place = tuple[UUID, int]
"""A partition: topic id and number."""


class Waiter(Protocol):
    """An `asyncio.Event`, or something like it."""

    def set(self) -> None:
        """Records may be delivered again."""
        ...


class SharePartitions:
    """Belongs to the event loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        states: ShareStates,
        settings_of: Callable[[str], GroupSettings],
        *,
        clock: Clock,
        rng: Rng,
        timer: Timer,
        tasks: Tasks,
        authorizer: Authorizer,
        write_letters: WriteLetters | None = None,
        history_topic: HistoryTopic | None = None,
        redis: RedisExchange | None = None,
    ) -> None:
        """`settings_of` gives the settings of a group; without `write_letters` none are written, and without
        `history_topic` the history is in memory only. `redis` has the
        groups of topics that are streams of Redis.
        """
        self._rng = rng
        self._write_letters = write_letters
        self._redis = redis
        self._replicas = replicas
        self._states = states
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._authorizer = authorizer
        self.settings_of = settings_of
        self._readers: dict[str, int] = {}
        """How many readers each group has here."""
        self._consumers: dict[str, int] = {}
        """How many of them are no members of it."""
        self._partitions: dict[ShareKey, asyncio.Task[SharedPartition | ApiError]] = {}
        self._reads = RecentReads()
        self._history_topic = history_topic
        self._histories = Histories() if history_topic is None else Histories(history_topic.note)
        self._remembered = RememberedBatches()
        self._waiters: dict[Place, set[Waiter]] = {}
        self._looks = 0

    def enter(self, group_id: str, *, is_member: bool = True) -> None:
        """A reader of a group comes: its partitions may be loaded. Other protocols have readers that are no members."""
        self._readers[group_id] = self._readers.get(group_id, 0) + 1
        if not is_member:
            self._consumers[group_id] = self._consumers.get(group_id, 0) + 1

    def consumers(self, group_id: str) -> int:
        """How many readers of a group are here that are no members of it; so are Redis clients that have something."""
        count = self._consumers.get(group_id, 0)
        if self._redis is not None and self._redis.stream_groups is not None:
            count += self._redis.stream_groups.consumers(group_id)
        return count

    def leave(self, group_id: str, *, is_member: bool = True) -> None:
        """A reader of a group goes. When it was the last, its partitions are given up once their state is written."""
        if not is_member:
            self._consumers[group_id] -= 1
            if not self._consumers[group_id]:
                del self._consumers[group_id]
        self._readers[group_id] -= 1
        if self._readers[group_id]:
            return
        del self._readers[group_id]
        for key in [key for key in self._partitions if key.group_id == group_id]:
            share = _result(self._partitions[key])
            if share is not None:
                share.retire()

    def loaded(self, group_id: str, place: Place) -> SharedPartition | None:
        """The partition, if its state is loaded."""
        return _result(self._partitions.get(ShareKey(group_id, *place)))

    def add_waiter(self, place: Place, waiter: Waiter) -> None:
        """Set a waiter whenever records of a partition may be delivered again, to any group."""
        self._waiters.setdefault(place, set()).add(waiter)

    def remove_waiter(self, place: Place, waiter: Waiter) -> None:
        """No longer set a waiter. One that was not added does nothing."""
        waiters = self._waiters.get(place)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[place]

    def deliveries(self, principal: Principal, group_id: str, place: Place) -> Deliveries | None:
        """How a group stands in a partition; None where no member has fetched since this broker leads it.

        Raises ApiError: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
        TOPIC_AUTHORIZATION_FAILED.
        """
        partition = self._replicas.get_by_id(*place)
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.TOPIC, partition.topic_partition.topic)
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition.topic_partition}")
        share = self.loaded(group_id, place)
        if share is None and self._redis is not None and partition.log.config.is_stream:
            return self._redis.groups.deliveries(group_id, partition)
        return None if share is None or not share.is_current else share.deliveries()

    async def history(self, principal: Principal, group_id: str, place: Place, offset: int) -> tuple[int, list[Event]]:
        """How long a group has it remembered what becomes of records of a partition, and what did of one.

        Raises ApiError as `deliveries` does, and where what was stored cannot be read now.
        """
        partition = self._replicas.get_by_id(*place)
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.TOPIC, partition.topic_partition.topic)
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition.topic_partition}")
        key, now_ms = ShareKey(group_id, *place), self._clock.now_ms()
        noted = self._histories.find(key)
        keep_ms = noted.keep_ms if noted is not None else self.settings_of(group_id).integer("ottla.history.ms")
        stored: list[Event] = []
        if keep_ms and self._history_topic is not None:
            stored = await self._history_topic.read(key, offset, now_ms - keep_ms)
        # What this broker has noted is in the topic as well, but for the last moments.
        events = dict.fromkeys(stored + ([] if noted is None else noted.of(offset, now_ms)))
        return keep_ms, sorted(events, key=lambda each: each.at_ms)

    async def get(self, principal: Principal, group_id: str, place: Place) -> SharedPartition:
        """The partition with its state, loaded when it is first needed. Raises ApiError."""
        partition = self._replicas.get_by_id(*place)
        self._require_readable(principal, group_id, partition)
        if not partition.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition.topic_partition}")
        key = ShareKey(group_id, *place)
        loading = self._partitions.get(key)
        if loading is not None and loading.done():
            before = _result(loading)
            if before is None:
                loading = None
            elif not before.is_current:
                before.lose()
                loading = None
        if loading is None:
            if len(self._partitions) >= SHARE_PARTITIONS_MAX:
                raise ApiError(ErrorCode.POLICY_VIOLATION, "this broker serves too many share partitions")
            loading = self._partitions[key] = self._tasks.spawn(self._load(key, partition), "share-load")
        share = await asyncio.shield(loading)
        if isinstance(share, ApiError):
            if self._partitions.get(key) is loading:
                del self._partitions[key]
            raise share
        # Meanwhile another may lead, and the members of the group may be gone.
        if not share.is_current:
            share.lose()
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {partition.topic_partition}")
        if group_id not in self._readers:
            share.retire()
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"no share session of group {group_id} is open")
        share.keep()
        return share

    def at_hand(self, principal: Principal, group_id: str, place: Place) -> SharedPartition | None:
        """As `get`; None where that would have to wait. Raises ApiError for who may not read."""
        share = self.loaded(group_id, place)
        if share is None or not share.is_current or group_id not in self._readers:
            return None
        self._require_readable(principal, group_id, share.partition)
        share.keep()
        return share

    def _require_readable(self, principal: Principal, group_id: str, partition: Partition) -> None:
        require(self._authorizer, principal, Operation.READ, ResourceType.TOPIC, partition.topic_partition.topic)
        require(self._authorizer, principal, Operation.READ, ResourceType.GROUP, group_id)

    async def get_current(self, principal: Principal, group_id: str, place: Place) -> None:
        """Load a partition, anew where the group was made to begin elsewhere since: that is not told to leaders."""
        loaded = _result(self._partitions.get(ShareKey(group_id, *place)))
        share = await self.get(principal, group_id, place)
        if share is not loaded:
            return
        if await self._is_anew(share):
            share.lose()
            await self.get(principal, group_id, place)

    def look_again(self, group_id: str, places: Iterable[Place]) -> None:
        """Have partitions be given up, and so loaded anew, whose group was made to begin elsewhere while members read.

        Who reads need not notice by itself: its session may go on, and where nothing is delivered nothing is written.
        """
        now_ms = self._clock.monotonic_ms()
        for place in places:
            share = self.loaded(group_id, place)
            if share is not None and now_ms - share.looked_ms >= LOOK_MS and self._looks < LOOKS_MAX:
                share.looked_ms = now_ms
                self._looks += 1
                self._tasks.spawn(self._look(share), "share-look")

    async def look_now(self, group_id: str, topic_id: UUID) -> None:
        """The same of all partitions of a topic; it is done when this returns."""
        for key in [key for key in self._partitions if key.group_id == group_id and key.topic_id == topic_id]:
            share = _result(self._partitions.get(key))
            if share is not None and await self._is_anew(share):
                share.lose()

    async def _look(self, share: SharedPartition) -> None:
        try:
            if await self._is_anew(share):
                share.lose()
        finally:
            self._looks -= 1

    async def _is_anew(self, share: SharedPartition) -> bool:
        """Whether the group was made to begin elsewhere since the state was loaded, or its state is gone (epoch 0)."""
        stored = await self._states.summary(share.key)
        return stored.error is ErrorCode.NONE and stored.state.state_epoch != share.state_epoch

    async def _load(self, key: ShareKey, partition: Partition) -> SharedPartition | ApiError:
        """The partition, or why its state cannot be read now, such as that its coordinator moves: no crash of ours."""
        try:
            return await self._read(key, partition)
        except ApiError as error:
            return error

    async def _read(self, key: ShareKey, partition: Partition) -> SharedPartition:
        if self._redis is not None and partition.log.config.is_stream:
            around = Surroundings(self._reads, self._histories.of(key), self._released, self._lost, self._write_letters)
            return await self._redis.groups.open(key, partition, around)
        leader_epoch = partition.leader_epoch
        answer = await self._states.read(key, leader_epoch)
        if answer.error is not ErrorCode.NONE:
            raise ApiError(_TOLD.get(answer.error, answer.error), answer.message or answer.error.name)
        state = answer.state
        start_offset = state.start_offset
        if start_offset < 0:
            start_offset = await self.first_offset(key.group_id, partition)
        start_offset = max(start_offset, partition.log.log_start_offset)
        share = SharePartition(
            key,
            partition,
            self._states,
            leader_epoch,
            start_offset,
            state.state_epoch,
            combine(state.batches, (), start_offset),  # the log may begin within a batch
            timer=self._timer,
            tasks=self._tasks,
            on_released=self._released,
            on_lost=self._lost,
            clock=self._clock,
            rng=self._rng,
            write_letters=self._write_letters,
            reads=self._reads,
            history=self._histories.of(key),
            acquired_batches=self._remembered.take(key, (leader_epoch, state.state_epoch)),
        )
        share.looked_ms = self._clock.monotonic_ms()
        if state.start_offset < 0:
            share.store_start()
        return share

    async def first_offset(self, group_id: str, partition: Partition) -> int:
        """Where a group begins that has not read the partition (`share.auto.offset.reset`)."""
        reset = self.settings_of(group_id).text("share.auto.offset.reset") or "latest"
        if reset == "earliest":
            return partition.log.log_start_offset
        if reset.startswith("by_duration:"):
            from ottla.settings.offset_reset import duration_ms

            timestamp = self._clock.now_ms() - duration_ms(reset.removeprefix("by_duration:"))
            found = await partition.log.offset_for_timestamp(timestamp, lambda: partition.high_watermark)
            if found is not None:
                return found[1]
        limits = self.limits(group_id)
        return partition.last_stable_offset if limits.read_committed else partition.high_watermark

    def limits(self, group_id: str) -> ShareLimits:
        settings = self.settings_of(group_id)
        return ShareLimits(
            settings.integer("share.record.lock.duration.ms"),
            settings.integer("share.delivery.count.limit"),
            settings.integer("share.partition.max.record.locks"),
            settings.text("share.isolation.level") == "read_committed",
            Backoff(
                settings.integer("ottla.retry.backoff.ms"),
                settings.integer("ottla.retry.backoff.max.ms"),
                settings.integer("ottla.retry.backoff.jitter.percent"),
            ),
            settings.text("errors.deadletterqueue.topic.name"),
            settings.boolean("errors.deadletterqueue.copy.record.enable"),
            settings.boolean("ottla.delivery.pause"),
            settings.integer("ottla.delivery.rate.max"),
            settings.text("ottla.delivery.order") == "key",
            settings.integer("ottla.delivery.ahead.max"),
            tuple(map(int, settings.words("ottla.delivery.priority.weights"))),
            settings.integer("ottla.history.ms"),
        )

    def _released(self, share: SharedPartition) -> None:
        place = share.key.topic_id, share.key.partition
        for waiter in self._waiters.get(place, ()):
            waiter.set()

    def _lost(self, share: SharedPartition) -> None:
        loaded = self._partitions.get(share.key)
        if _result(loaded) is share:
            del self._partitions[share.key]
        if share.is_retired:
            self._remembered.keep(share.key, (share.leader_epoch, share.state_epoch), share.acquired_batches)
        self._released(share)


_TOLD: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a member is told when the state cannot be read; INVALID_REQUEST where there is none."""


def _result(loaded: asyncio.Task[SharedPartition | ApiError] | None) -> SharedPartition | None:
    """What was loaded; None while it is not, or could not be."""
    if loaded is None or not loaded.done() or loaded.cancelled() or loaded.exception() is not None:
        return None
    found = loaded.result()
    return None if isinstance(found, ApiError) else found
