"""A consumer's share of topics that a group reads together, as the coordinator divides them (KIP-848).

One task sends heartbeats, and sends one at once if there is a change to report. The polling task accepts and revokes
partitions, so the callbacks complete before records of other partitions arrive.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla.client.consuming.consumer_group_member import OUTSIDE, ConsumerGroupMember, MemberState, Place, Wanted
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.decoded_records import DecodedRecords
from ottla.client.consuming.group_offsets import Membership, check_group
from ottla.client.consuming.group_subscription import RebalanceCallbacks, SubscriptionPattern
from ottla.client.consuming.positions import Positions
from ottla.client.errors import BrokerError, ClientError, UnsupportedApiError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Backoff
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

_NOTHING_TO_SAY_MS = 60_000
"""How long the task that sends heartbeats sleeps while the member is in no group; what changes that wakes it."""

_TO_LOOK_AT = frozenset({MemberState.RECONCILING, MemberState.FENCED, MemberState.LEFT})


class ConsumerGroupSubscription:
    """Used as `ottla.client.consuming.group_subscription.GroupSubscription` is. Belongs to one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        decoded: DecodedRecords,
        timer: Timer,
    ) -> None:
        assert options.group_id is not None
        self._cluster = cluster
        self._options = options
        self._group_id = options.group_id
        self._positions = positions
        self._decoded = decoded
        self._timer = timer
        self._member = ConsumerGroupMember(options, str(cluster.io.rng.uuid()))
        self._callbacks = RebalanceCallbacks()
        self._owned: Mapping[Place, TopicPartition] = {}
        self._fatal: ClientError | None = None
        self._is_closed = False
        self._changed = asyncio.Event()
        self._backoff = Backoff(cluster.options.retry_backoff_ms, cluster.options.retry_backoff_max_ms)
        self._failures = 0
        self._next_ms = 0
        """When the next heartbeat is due, of a member that has nothing new to tell or was not heard."""
        self._look_up_ms = 0
        """When topics that are not known by their ids may be asked for again."""

    @property
    def identity(self) -> Membership:
        """As whom to commit now."""
        return self._member.identity

    @property
    def needs_poll(self) -> bool:
        """Whether the one who polls has something to do or to learn."""
        return self._member.state in _TO_LOOK_AT or self._fatal is not None

    def subscribe(self, topics: Iterable[str] | SubscriptionPattern, callbacks: RebalanceCallbacks) -> None:
        """Read these topics, or those that match; what changes comes with heartbeats."""
        if isinstance(topics, SubscriptionPattern):
            wanted = Wanted(regex=topics.regex)
        else:
            wanted = Wanted(tuple(sorted(set(topics))))
        self._callbacks = callbacks
        self._member.subscribe(wanted)
        self._changed.set()

    def rejoin(self) -> None:
        """A commit was refused: the next heartbeat, which tells what the member is by now, is due."""
        self._next_ms = 0
        self._changed.set()

    async def keep_up(self, commit: Callable[[], Awaitable[None]]) -> bool:
        """Take and give up what the coordinator wants; whether partitions have changed.

        `commit` is awaited before partitions that are still owned are given up. Raises what joining again cannot mend.
        """
        if self._fatal is not None:
            raise self._fatal
        state = self._member.state
        if state is MemberState.RECONCILING:
            return await self._reconcile(commit)
        if state in (MemberState.FENCED, MemberState.LEFT):
            lost = sorted(self._owned.values())
            try:
                if lost:
                    self._callbacks.on_lost(lost)
            finally:
                self._own({})
                self._member.rejoin()
                self._next_ms = 0
                self._changed.set()
            return bool(lost)
        return False

    async def leave(self) -> None:
        """Leave the group. What is owned stays owned until another gets it."""
        self._is_closed = True
        await self._leave()

    # --- partitions ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, commit: Callable[[], Awaitable[None]]) -> bool:
        """Give up what is not in the target, then take what is; topics whose names are not known come later."""
        member = self._member
        await self._look_up_topics()
        if any(place not in member.target for place in self._owned):
            await commit()
        if member.state is not MemberState.RECONCILING:
            return False
        target, names = member.target, self._cluster.metadata.topic_names
        kept = {place: partition for place, partition in self._owned.items() if place in target}
        revoked = sorted(partition for place, partition in self._owned.items() if place not in target)
        added = {
            place: TopicPartition(names[place[0]], place[1])
            for place in sorted(target)
            if place not in kept and place[0] in names
        }
        if revoked:
            try:
                self._callbacks.on_revoked(revoked)
            finally:
                self._own(kept)
        if added:
            self._own({**kept, **added})
        if revoked or added or len(kept) == len(target):
            member.settle(self._owned)
            self._changed.set()
        if added:
            self._callbacks.on_assigned(sorted(added.values()))
        return bool(revoked or added)

    def _own(self, owned: Mapping[Place, TopicPartition]) -> None:
        is_less = any(place not in owned for place in self._owned)
        self._owned = owned
        self._positions.assign(owned.values())
        if is_less:
            self._decoded.forget()

    async def _look_up_topics(self) -> None:
        """Learn the names of topics that are not known, not more often than is good while there are none."""
        known = self._cluster.metadata.topic_names
        unknown = {topic_id for topic_id, _ in self._member.target if topic_id not in known}
        now_ms = self._cluster.io.clock.monotonic_ms()
        if not unknown or now_ms < self._look_up_ms:
            return
        self._look_up_ms = now_ms + self._cluster.options.retry_backoff_ms
        try:
            await self._cluster.refresh_ids(sorted(unknown))
        except ClientError as error:
            logger.debug("group %s: looking for topics: %s", self._group_id, error)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    async def keep_alive(self, idle_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        """Send heartbeats until cancelled; leave when the application has not polled for too long.

        `idle_ms` says for how long it has not; `wake` is called when it has to poll.
        """
        while True:
            await self._until_due()
            idle = idle_ms()
            if idle > self._options.max_poll_interval_ms:
                logger.warning(
                    "no poll for %d ms: leaving group %s, so that other members can read; poll more often, or raise"
                    " max_poll_interval_ms",
                    idle,
                    self._group_id,
                )
                await self._leave()
            else:
                await self._heartbeat()
            if self.needs_poll:
                wake()

    async def _until_due(self) -> None:
        while True:
            self._changed.clear()
            wait_ms = self._wait_ms()
            if wait_ms <= 0:
                return
            alarm = self._timer.schedule(wait_ms, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                alarm.cancel()

    def _wait_ms(self) -> int:
        if self._member.state in OUTSIDE or self._fatal is not None or self._is_closed:
            return _NOTHING_TO_SAY_MS
        if self._member.has_news and not self._failures:
            return 0
        return self._next_ms - self._cluster.io.clock.monotonic_ms()

    async def _heartbeat(self) -> None:
        member = self._member
        request = member.heartbeat()
        what = f"heartbeat of group {self._group_id!r}"
        try:
            response = await self._cluster.ask_coordinator(self._group_id, request, ConsumerGroupHeartbeatResponse)
            check_group(self._cluster, self._group_id, response.error_code, what, response.error_message)
        except BrokerError as error:
            self._on_refusal(request, error)
        except UnsupportedApiError as error:
            self._fatal = ClientError(f"group {self._group_id!r}: {error}; use group_protocol='classic'")
        except ClientError as error:
            logger.debug("%s: %s", what, error)
            member.on_no_answer(request)
            self._cluster.metadata.stale = True
            self._failed(error)
        else:
            self._failures = 0
            self._cluster.troubles.over(("group", self._group_id))
            member.on_answer(request, response)
            self._next_ms = self._cluster.io.clock.monotonic_ms() + member.heartbeat_interval_ms

    def _on_refusal(self, request: ConsumerGroupHeartbeatRequest, error: BrokerError) -> None:
        member = self._member
        if not member.on_error(request, error.code):
            return
        if member.state is MemberState.FENCED:
            self._failures = 0
            logger.warning("lost membership of group %s: %s", self._group_id, error)
        elif error.retriable or error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            logger.debug("%s", error)
            self._failed(error)
        else:
            self._fatal = self._explained(error)

    def _failed(self, error: Exception) -> None:
        self._cluster.troubles.note(("group", self._group_id), error)
        delay_ms = self._backoff.delay_ms(self._failures, self._cluster.io.rng)
        self._failures += 1
        self._next_ms = self._cluster.io.clock.monotonic_ms() + delay_ms

    async def _leave(self) -> None:
        request = self._member.leave()
        if request is None:
            return
        try:
            await self._cluster.ask_coordinator(self._group_id, request, ConsumerGroupHeartbeatResponse)
        except ClientError as error:
            logger.debug("leaving group %s: %s", self._group_id, error)

    def _explained(self, error: BrokerError) -> BrokerError:
        if error.code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            return broker_error(
                error.code,
                f"group {self._group_id!r}",
                f"another member has the instance id {self._options.group_instance_id!r}; give each its own",
            )
        return error
