"""One member of a share group: its heartbeats, and the partitions that the coordinator assigns to it (KIP-932).

```
 OUT -- subscribe --> JOINING -- answer --> IN -- fenced --> JOINING
                         ^                   |
                         +-- the next poll --+-- no poll for too long, or close --> OUT
```

Members share partitions, so an assignment needs no agreement with the others: it applies as soon as it arrives.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Final
from uuid import UUID

from ottla.client.consuming.group_offsets import COORDINATOR_MOVED
from ottla.client.consuming.share_options import ShareConsumerOptions
from ottla.client.consuming.share_session import Place
from ottla.client.errors import BrokerError, ClientError, UnsupportedApiError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Backoff
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
_FENCING: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
_NOTHING_TO_SAY_MS: Final = 60_000


class ShareMemberState(Enum):
    """Where a member is in the picture above."""

    OUT = "out"
    JOINING = "joining"
    IN = "in"


class ShareMembership:
    """Belongs to one event loop. `keep_alive` runs in a task of its own."""

    def __init__(self, cluster: Cluster, options: ShareConsumerOptions, timer: Timer) -> None:
        self._cluster = cluster
        self._options = options
        self._timer = timer
        self._topics: tuple[str, ...] = ()
        self._told: tuple[str, ...] | None = None
        self._epoch = JOIN_EPOCH
        self._changed = asyncio.Event()
        self._backoff = Backoff(cluster.options.retry_backoff_ms, cluster.options.retry_backoff_max_ms)
        self._failures = 0
        self._empty_answers = 0
        self._next_ms = 0
        self.member_id = str(cluster.io.rng.uuid())
        self.state = ShareMemberState.OUT
        self.fatal: ClientError | None = None
        """What ends this member for good."""
        self.assigned: frozenset[Place] = frozenset()
        """What the coordinator has this member read."""

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Read these topics; the next heartbeat says so."""
        self._topics = topics
        self._changed.set()

    def be_in(self) -> None:
        """The program polls: join, if this member has left or never was in."""
        if self.state is ShareMemberState.OUT and self._topics:
            self._rejoin()
            self._changed.set()

    def _rejoin(self) -> None:
        self.state = ShareMemberState.JOINING
        self._epoch, self._told, self._next_ms = JOIN_EPOCH, None, 0
        self._empty_answers = 0

    async def keep_alive(self, idle_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        """Send heartbeats until cancelled; leave when the program has not polled for too long."""
        while True:
            await self._until_due()
            idle = idle_ms()
            if idle > self._options.max_poll_interval_ms:
                logger.warning(
                    "no poll for %d ms: leaving share group %s until the next poll; poll more often, or raise"
                    " max_poll_interval_ms",
                    idle,
                    self._options.group_id,
                )
                await self.leave()
            else:
                await self._heartbeat()
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
        if self.state is ShareMemberState.OUT or self.fatal is not None:
            return _NOTHING_TO_SAY_MS
        if self._told != self._topics and not self._failures:
            return 0
        return self._next_ms - self._cluster.io.clock.monotonic_ms()

    async def _heartbeat(self) -> None:
        options, topics = self._options, self._topics
        request = ShareGroupHeartbeatRequest(
            group_id=options.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rack_id=(options.rack or None) if self._told is None else None,
            subscribed_topic_names=topics if self._told != topics else None,
        )
        what = f"heartbeat of share group {options.group_id!r}"
        try:
            response = await self._cluster.ask_coordinator(options.group_id, request, ShareGroupHeartbeatResponse)
            if response.error_code:
                raise broker_error(response.error_code, what, response.error_message)
        except BrokerError as error:
            self._on_refusal(error)
        except UnsupportedApiError as error:
            self.fatal = error
        except ClientError as error:
            self._cluster.metadata.stale = True
            self._failed(error)
        else:
            self._on_answer(response, topics)

    def _on_answer(self, response: ShareGroupHeartbeatResponse, topics: tuple[str, ...]) -> None:
        self._failures = 0
        self._cluster.troubles.over(("group", self._options.group_id))
        if self.state is ShareMemberState.OUT:
            return
        self.state = ShareMemberState.IN
        self._epoch, self._told = response.member_epoch, topics
        if response.assignment is not None:
            self.assigned = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
        self._empty_answers = 0 if self.assigned else self._empty_answers + 1
        delay_ms = response.heartbeat_interval_ms
        if not self.assigned:
            # The coordinator assigns partitions soon after the first member has joined: look again before long.
            delay_ms = min(delay_ms, self._cluster.options.retry_backoff_ms << min(self._empty_answers, 20))
        self._next_ms = self._cluster.io.clock.monotonic_ms() + delay_ms

    def _on_refusal(self, error: BrokerError) -> None:
        if error.code in _FENCING and self.state is ShareMemberState.IN:
            logger.warning("lost membership of share group %s: %s", self._options.group_id, error)
            self.assigned = frozenset()
            self._rejoin()
        elif error.retriable or error.code in _FENCING - {ErrorCode.GROUP_ID_NOT_FOUND}:
            if error.code in COORDINATOR_MOVED:
                self._cluster.forget_coordinator(self._options.group_id)
            self._failed(error)
        else:
            self.fatal = error

    def _failed(self, error: ClientError) -> None:
        logger.debug("share group %s: %s", self._options.group_id, error)
        self._told = None
        self._cluster.troubles.note(("group", self._options.group_id), error)
        delay_ms = self._backoff.delay_ms(self._failures, self._cluster.io.rng)
        self._failures += 1
        self._next_ms = self._cluster.io.clock.monotonic_ms() + delay_ms

    async def leave(self) -> None:
        """Leave the group, so that its partitions are divided anew at once."""
        was_in = self.state is not ShareMemberState.OUT
        self.state = ShareMemberState.OUT
        self.assigned = frozenset()
        if not was_in or self.fatal is not None:
            return
        request = ShareGroupHeartbeatRequest(
            group_id=self._options.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )
        try:
            await self._cluster.ask_coordinator(self._options.group_id, request, ShareGroupHeartbeatResponse)
        except ClientError as error:
            logger.debug("leaving share group %s: %s", self._options.group_id, error)

    async def look_up(self) -> None:
        """Learn the names and leaders of the topics that are assigned."""
        names = self._cluster.metadata.topic_names
        unknown: set[UUID] = {topic_id for topic_id, _ in self.assigned if topic_id not in names}
        if unknown:
            await self._cluster.refresh_ids(sorted(unknown))
        else:
            await self._cluster.refresh({names[topic_id] for topic_id, _ in self.assigned})
