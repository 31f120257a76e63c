"""One member of a consumer group in the protocol of KIP-848: what it says to the coordinator, and what it makes of the
answers. No I/O here.

```
              heartbeat                  given and taken by
              of epoch 0     assignment  the one who polls          told
 UNSUBSCRIBED -> JOINING -> RECONCILING ------------> ACKNOWLEDGING -> STABLE
                    ^           ^                           |            |
                    |           +--------- assignment ------+------------+
                    |
                  FENCED  by the coordinator, or LEFT  by itself: what it had may be another's
```

The coordinator assigns the partitions. A member owns a partition until it reports in a heartbeat that it has revoked
it; only then does another member get it. Each change is sent in one heartbeat, and sent again in full if no response
came.
Source: https://cwiki.apache.org/confluence/display/KAFKA/KIP-848, with the ids of members made by clients (KIP-1082).
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.group_offsets import Membership
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member says that it will be back: its partitions are kept for it until its session ends."""

FENCING: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""The group has gone on without this member: what it had may be another's. Joining again mends it."""

Place = tuple[UUID, int]
"""A partition by the id of its topic."""


class MemberState(Enum):
    """Where a member is in the picture above."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    LEFT = "left"


_S = MemberState
TRANSITIONS: Final[Mapping[MemberState, frozenset[MemberState]]] = MappingProxyType(
    {
        _S.UNSUBSCRIBED: frozenset({_S.JOINING, _S.LEFT}),
        _S.JOINING: frozenset({_S.RECONCILING, _S.STABLE, _S.FENCED, _S.LEFT}),
        _S.RECONCILING: frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.FENCED, _S.LEFT}),
        _S.ACKNOWLEDGING: frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.FENCED, _S.LEFT}),
        _S.STABLE: frozenset({_S.RECONCILING, _S.FENCED, _S.LEFT}),
        _S.FENCED: frozenset({_S.JOINING, _S.LEFT}),
        _S.LEFT: frozenset({_S.JOINING, _S.LEFT}),
    }
)
"""What may follow a state."""

OUTSIDE: Final = frozenset({_S.UNSUBSCRIBED, _S.FENCED, _S.LEFT})
"""States in which nothing is said to the coordinator."""


class Wanted(NamedTuple):
    """What a member subscribes to: topics by name, an expression, or both."""

    topics: tuple[str, ...] = ()
    regex: str | None = None


class ConsumerGroupMember:
    """One member of one group, for one task that sends heartbeats and one that polls, of the same loop.

    The sending task calls `heartbeat`, then one of `on_answer`, `on_error`, `on_no_answer` with the same request. The
    polling task calls `settle` when it has applied `target`, and `rejoin` when it has revoked all partitions.
    """

    def __init__(self, options: ConsumerOptions, member_id: str) -> None:
        assert options.group_id is not None
        self._options = options
        self._group_id = options.group_id
        self._member_id = member_id
        self._wanted = Wanted()
        self._sent: ConsumerGroupHeartbeatRequest | None = None
        """The heartbeat that is not answered yet, with what it said of these."""
        self._sent_wanted = Wanted()
        self._sent_settled = 0
        self._told_wanted: Wanted | None = None
        """What the coordinator knows; None when it is to be told all."""
        self._told_settled = 0
        self._settled = 0
        """How often the one who polls has settled; what was settled last is told when it is `_told_settled`."""
        self._has_sent_regex = False
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self.heartbeat_interval_ms = 0
        """As the coordinator wants it; 0 before its first answer."""
        self.target: frozenset[Place] = frozenset()
        """What the coordinator has this member read."""
        self.owned: frozenset[Place] = frozenset()
        """What it reads."""

    @property
    def identity(self) -> Membership:
        """As whom to commit now."""
        return Membership(self.epoch, self._member_id, self._options.group_instance_id)

    @property
    def has_news(self) -> bool:
        """Whether the coordinator waits for something that this member has to say."""
        return self.state not in OUTSIDE and (self._told_wanted != self._wanted or self._told_settled != self._settled)

    def subscribe(self, wanted: Wanted) -> None:
        """Read this from now on."""
        self._wanted = wanted
        if self.state is MemberState.UNSUBSCRIBED:
            self._become(MemberState.JOINING)

    # --- who sends --------------------------------------------------------------------------------------------------

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """What to say now: all when joining and after a heartbeat without an answer, else what has changed."""
        assert self.state not in OUTSIDE
        is_full = self._told_wanted is None
        tells_wanted = self._told_wanted != self._wanted
        tells_owned = is_full or self._told_settled != self._settled
        regex = self._wanted.regex
        if regex is None and self._has_sent_regex:
            regex = ""  # takes back the one that the coordinator may have
        options = self._options
        self._sent = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self.epoch,
            instance_id=options.group_instance_id,
            rack_id=(options.rack or None) if is_full else None,
            rebalance_timeout_ms=options.max_poll_interval_ms if is_full else -1,
            subscribed_topic_names=self._wanted.topics if tells_wanted else None,
            subscribed_topic_regex=regex if tells_wanted else None,
            server_assignor=options.group_remote_assignor if is_full else None,
            topic_partitions=_by_topic(self.owned) if tells_owned else None,
        )
        self._sent_wanted, self._sent_settled = self._wanted, self._settled
        self._has_sent_regex |= tells_wanted and bool(regex)
        return self._sent

    def on_answer(self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> None:
        """The coordinator has heard `request`. An answer from before the member left says nothing any more."""
        if request is not self._sent:
            return
        self._sent = None
        self.epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        self._told_wanted = self._sent_wanted
        if request.topic_partitions is not None:
            self._told_settled = self._sent_settled
        if response.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
            self._become(MemberState.RECONCILING)
        elif self.state is MemberState.JOINING or (
            self.state is MemberState.ACKNOWLEDGING and self._told_settled == self._settled
        ):
            self._become(MemberState.STABLE)

    def on_error(self, request: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> bool:
        """The coordinator has refused `request`; False when that says nothing any more."""
        if request is not self._sent:
            return False
        if code in FENCING and self.state is not MemberState.JOINING:
            self._end(MemberState.FENCED)
        else:
            self.on_no_answer(request)
        return True

    def on_no_answer(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Whether the coordinator has heard `request` is not known: the next one says all."""
        if request is self._sent:
            self._sent = self._told_wanted = None

    def leave(self) -> ConsumerGroupHeartbeatRequest | None:
        """Leave; what to send so that the others need not wait, None for one that is not in the group."""
        was_in = self.state not in OUTSIDE
        self._end(MemberState.LEFT)
        if not was_in:
            return None
        instance_id = self._options.group_instance_id
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=LEAVE_EPOCH if instance_id is None else LEAVE_STATIC_EPOCH,
            instance_id=instance_id,
        )

    # --- who polls --------------------------------------------------------------------------------------------------

    def settle(self, owned: Iterable[Place]) -> None:
        """This is what the member reads now; it is told at once. All of `target`, or it goes on reconciling."""
        self.owned = frozenset(owned)
        self._settled += 1
        if self.state is MemberState.RECONCILING and self.owned == self.target:
            self._become(MemberState.ACKNOWLEDGING)

    def rejoin(self) -> None:
        """All that the member had is given up: it joins anew."""
        assert not self.owned
        self._become(MemberState.JOINING)

    def _end(self, state: MemberState) -> None:
        self.epoch = JOIN_EPOCH
        self.target = self.owned = frozenset()
        self._sent = self._told_wanted = None
        self._has_sent_regex = False
        self._told_settled = self._settled
        self._become(state)

    def _become(self, state: MemberState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} to {state.name}"
        self.state = state


def _by_topic(places: Iterable[Place]) -> tuple[TopicPartitions, ...]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(places):
        topics.setdefault(topic_id, []).append(partition)
    return tuple(TopicPartitions(topic_id=each, partitions=tuple(numbers)) for each, numbers in topics.items())
