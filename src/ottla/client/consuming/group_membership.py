"""Being a member of a consumer group, by the classic protocol.

```
           join                 sync                       heartbeats
 UNJOINED ------> JOINING ------------> STABLE <-----------------------+
    ^                |  ^                 |  REBALANCE_IN_PROGRESS      |
    |                |  +-----------------+                             |
    +----------------+-- UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, no heartbeat answered in time
```

The broker only stores the list of members and passes bytes between them. One member, the leader, assigns the
partitions.
Source: https://cwiki.apache.org/confluence/display/KAFKA/Kafka+Client-side+Assignment+Proposal, KIP-345, KIP-394.
"""

import logging
from collections.abc import Collection
from enum import Enum
from typing import NoReturn

from ottla.client.consuming.assignor import Assignor, MemberSubscription, RangeAssignor
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.group_offsets import Membership, check_group
from ottla.client.consuming.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.errors import BrokerError, ClientError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

logger = logging.getLogger(__name__)

PROTOCOL_TYPE = "consumer"
_JOIN_MARGIN_MS = 5_000
"""The coordinator may use the whole rebalance time-out before it answers JoinGroup."""

_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class MemberState(Enum):
    """Where a member is in the picture above."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"


class GroupMembership:
    """One member of one group. `join` and `leave` are for one task, `heartbeat` for another of the same loop."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, assignor: Assignor | None = None) -> None:
        assert options.group_id is not None
        self._cluster = cluster
        self._options = options
        self._assignor = assignor or RangeAssignor()
        self._group_id = options.group_id
        self._member_id = ""
        self._generation = -1
        self._heard_ms = 0
        self.state = MemberState.UNJOINED
        self.fatal: ClientError | None = None
        self.is_leader = False
        self.partition_counts: dict[str, int] = {}
        """What this member decided on when it is the leader."""

    @property
    def identity(self) -> Membership:
        """As whom to commit now."""
        return Membership(self._generation, self._member_id, self._options.group_instance_id)

    @property
    def lost(self) -> bool:
        """Whether the partitions this member had may already be another's."""
        return self.state is MemberState.UNJOINED

    def needs_rejoin(self) -> None:
        """Ask for a rebalance: the subscription or the partitions have changed."""
        if self.state is MemberState.STABLE:
            self.state = MemberState.JOINING

    def lose(self, why: str) -> None:
        """The group has gone on without this member."""
        if self.state is not MemberState.UNJOINED:
            logger.warning("lost membership of group %s: %s", self._group_id, why)
        self._generation = -1
        self._member_id = ""
        self.state = MemberState.UNJOINED

    async def join(self, topics: Collection[str], owned: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Join or rejoin and return what this member is to read. Waits for the others, up to `max_poll_interval_ms`.

        Raises BrokerError for errors that a retry cannot resolve, such as FENCED_INSTANCE_ID.
        """
        deadline = self._cluster.deadline(self._options.max_poll_interval_ms + self._cluster.options.api_timeout_ms)

        async def attempt() -> tuple[TopicPartition, ...]:
            while True:
                try:
                    return await self._join_once(topics, owned)
                except BrokerError as error:
                    self._after(error)

        return await self._cluster.retrying(attempt, deadline)

    async def heartbeat(self) -> None:
        """Tell the coordinator that this member is alive; changes `state` as the answer says. Does not raise."""
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
        )
        member = self.identity
        try:
            response = await self._cluster.ask_coordinator(self._group_id, request, HeartbeatResponse)
            if member != self.identity or self.state is not MemberState.STABLE:
                return
            check_group(self._cluster, self._group_id, response.error_code, f"heartbeat of group {self._group_id!r}")
            self._heard_ms = self._cluster.io.clock.monotonic_ms()
        except BrokerError as error:
            if member == self.identity:
                self._on_heartbeat_error(error)
        except ClientError as error:
            logger.debug("group %s: %s", self._group_id, error)
        silent_ms = self._cluster.io.clock.monotonic_ms() - self._heard_ms
        if self.state is MemberState.STABLE and silent_ms > self._options.session_timeout_ms:
            self.lose(f"no answer to heartbeats for {silent_ms} ms")

    async def leave(self, reason: str) -> None:
        """Leave, so that the others need not wait for the session time-out. A static member stays, to come back."""
        member_id, self._member_id = self._member_id, ""
        self._generation = -1
        self.state = MemberState.UNJOINED
        if not member_id or self._options.group_instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self._group_id, members=(MemberIdentity(member_id=member_id, reason=reason),)
        )
        try:
            await self._cluster.ask_coordinator(self._group_id, request, LeaveGroupResponse)
        except ClientError as error:
            logger.debug("leaving group %s: %s", self._group_id, error)

    # --- joining ----------------------------------------------------------------------------------------------------

    async def _join_once(
        self, topics: Collection[str], owned: Collection[TopicPartition]
    ) -> tuple[TopicPartition, ...]:
        self.state = MemberState.JOINING
        subscription = Subscription(tuple(topics), tuple(owned), self._generation, self._options.rack or None)
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(JoinGroupRequestProtocol(name=self._assignor.name, metadata=encode_subscription(subscription)),),
        )
        timeout_ms = self._options.max_poll_interval_ms + _JOIN_MARGIN_MS
        response = await self._cluster.ask_coordinator(
            self._group_id, request, JoinGroupResponse, timeout_ms=timeout_ms
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        check_group(self._cluster, self._group_id, response.error_code, f"joining group {self._group_id!r}")
        self._member_id = response.member_id
        self._generation = response.generation_id
        self.is_leader = response.leader == response.member_id
        return await self._sync(response)

    async def _sync(self, joined: JoinGroupResponse) -> tuple[TopicPartition, ...]:
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._decide(joined) if self.is_leader and not joined.skip_assignment else (),
        )
        timeout_ms = self._options.max_poll_interval_ms + _JOIN_MARGIN_MS
        response = await self._cluster.ask_coordinator(
            self._group_id, request, SyncGroupResponse, timeout_ms=timeout_ms
        )
        check_group(self._cluster, self._group_id, response.error_code, f"syncing with group {self._group_id!r}")
        self._heard_ms = self._cluster.io.clock.monotonic_ms()
        self.state = MemberState.STABLE
        return decode_assignment(response.assignment)

    async def _decide(self, joined: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        members = [
            MemberSubscription(member.member_id, member.group_instance_id, decode_subscription(member.metadata))
            for member in joined.members
        ]
        topics = {topic for member in members for topic in member.subscription.topics}
        await self._cluster.refresh(topics)
        known = self._cluster.metadata.topics
        self.partition_counts = {topic: len(known[topic].partitions) for topic in topics if topic in known}
        assignment = self._assignor.assign(self.partition_counts, members)
        return tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assignment.items()
        )

    # --- errors -----------------------------------------------------------------------------------------------------

    def _after(self, error: BrokerError) -> None:
        """Raise the error unless joining again at once mends it."""
        if error.code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            return
        if error.code in _LOST:
            self._generation = -1
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            return
        if not error.retriable:
            self._fail(error)
        raise error

    def _on_heartbeat_error(self, error: BrokerError) -> None:
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._heard_ms = self._cluster.io.clock.monotonic_ms()
            self.needs_rejoin()
        elif error.code in _LOST:
            self.lose(str(error))
        elif not error.retriable:
            self.fatal = self._explained(error)

    def _fail(self, error: BrokerError) -> NoReturn:
        self.fatal = self._explained(error)
        raise self.fatal

    def _explained(self, error: BrokerError) -> BrokerError:
        if error.code == ErrorCode.FENCED_INSTANCE_ID:
            return broker_error(
                error.code,
                f"group {self._group_id!r}",
                f"another member has the instance id {self._options.group_instance_id!r}; give each its own",
            )
        if error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return broker_error(
                error.code,
                f"group {self._group_id!r}",
                f"its members do not use the {self._assignor.name!r} assignor, or are not consumers",
            )
        return error
