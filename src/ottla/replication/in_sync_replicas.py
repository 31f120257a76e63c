"""The in-sync replicas of a partition as its leader knows them: decisions only, no I/O.

                    the controller says          the leader asked for         the high watermark needs
    committed       1 2 3                        -                            1 2 3
    shrinking       1 2 3                        1 2                          1 2 3
    growing         1 2                          1 2 3                        1 2 3
    answered        1 2 3, next partition epoch  -                            1 2 3

While a proposal is on its way the leader cannot know which of the two holds, so an offset is committed when every
member of both has it (KIP-497). The end offset of a follower is the offset it fetches from: what it has as safe as the
cluster asks for, on disk or written.

A follower that is not in the ISR and keeps up holds the high watermark back as well, for as long as it may join:
otherwise the leader alone would commit everything at once, and no follower would ever be at the high watermark. One
that has much to fetch yet does not: nobody waits for a broker that was just started.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from ottla.model.error_code import ErrorCode

UNKNOWN_OFFSET: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
_LONG_AGO_MS: Final = -(1 << 62)


def follower_high_watermark(before: int, end_offset: int, leader_high_watermark: int) -> int:
    """That of a follower which has everything below `end_offset` as safe as it has to be; it rises only."""
    return max(before, min(end_offset, leader_high_watermark))


class FollowerState(Struct):
    """What the leader knows of a follower from its fetches in this leader epoch. Times are of the monotonic clock."""

    end_offset: int = UNKNOWN_OFFSET
    """The offset it fetched from last: it has everything below. -1 before its first fetch."""
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    """The broker epoch its last fetch named: which incarnation of the broker has those records (KIP-903)."""
    caught_up_ms: int = _LONG_AGO_MS
    """When it last had everything that the leader had."""
    fetched_ms: int = _LONG_AGO_MS
    leader_end_offset: int = UNKNOWN_OFFSET
    """Where the leader's log ended at its last fetch."""
    keeps_up: bool = False
    """Whether its last fetch began where the log ended at the one before, or ends now."""

    def fetched(
        self, offset: int, log_start_offset: int, broker_epoch: int, *, leader_end_offset: int, now_ms: int
    ) -> None:
        """It asks for what begins at `offset`.

        In one leader epoch an incarnation of a broker loses nothing of what it had, so a lower offset is what it asked
        for before, over a connection that was cut and is healed: that changes nothing.

        Who fetches from where the log ended at the fetch before had caught up then: under a steady load nobody is ever
        at the very end.
        """
        if offset < self.end_offset and broker_epoch == self.broker_epoch:
            return
        self.keeps_up = True
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        else:
            self.keeps_up = False
        self.end_offset, self.log_start_offset, self.broker_epoch = offset, log_start_offset, broker_epoch
        self.leader_end_offset, self.fetched_ms = leader_end_offset, now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has everything, or had it not longer than `lag_max_ms` ago (`replica.lag.time.max.ms`)."""
        return self.end_offset >= leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def is_silent(self, leader_end_offset: int, now_ms: int, silent_ms: int) -> bool:
        """Whether it lacks something, and has not fetched for `silent_ms`."""
        return self.end_offset < leader_end_offset and now_ms - max(self.fetched_ms, self.caught_up_ms) >= silent_ms


class InSyncReplicas:
    """Those of one partition in one leader epoch; made anew with each.

    `committed` is what the controller said last, `proposed` what it was asked for and has not answered.
    """

    __slots__ = (
        "_live_brokers",
        "committed",
        "epoch_start_offset",
        "followers",
        "lag_max_ms",
        "leader_id",
        "needed",
        "partition_epoch",
        "proposed",
        "replicas",
    )

    def __init__(
        self,
        leader_id: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        *,
        epoch_start_offset: int,
        live_brokers: Mapping[int, int],
        lag_max_ms: int,
        now_ms: int,
    ) -> None:
        """`epoch_start_offset` is where the leader's log ended when it became the leader. `live_brokers` has the broker
        epochs of those that are neither fenced nor shutting down; its owner keeps it up to date.

        Members of the ISR count as caught up now, until `lag_max_ms` have passed without their fetches.
        """
        self.leader_id = leader_id
        self.epoch_start_offset = epoch_start_offset
        self.lag_max_ms = lag_max_ms
        self._live_brokers = live_brokers
        self.replicas: tuple[int, ...] = ()
        self.committed: tuple[int, ...] = ()
        self.proposed: tuple[int, ...] | None = None
        self.partition_epoch = -1
        self.followers: dict[int, FollowerState] = {}
        self.needed: tuple[FollowerState, ...] = ()
        """The followers without whom nothing is committed: members of the ISR, or of the proposed one."""
        self.adopt(replicas, isr, partition_epoch, now_ms)

    def adopt(self, replicas: Iterable[int], isr: Iterable[int], partition_epoch: int, now_ms: int) -> bool:
        """The controller decided: whatever was proposed before it is over. False, and nothing, for an older decision
        or the one that is known.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self.replicas, self.committed, self.proposed = tuple(replicas), tuple(isr), None
        known = self.followers
        self.followers = {
            broker_id: known.get(broker_id) or self._newcomer(broker_id, now_ms)
            for broker_id in self.replicas
            if broker_id != self.leader_id
        }
        self._find_needed()
        return True

    def fetched(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        *,
        leader_end_offset: int,
        now_ms: int,
    ) -> ErrorCode:
        """A replica fetches from `offset`; nothing is noted when that is an error.

        UNKNOWN_TOPIC_OR_PARTITION for one that is no replica, as in Kafka; STALE_BROKER_EPOCH for what an earlier
        incarnation of its broker sent: what it had then it may have lost since.
        """
        state = self.followers.get(broker_id)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker_epoch < state.broker_epoch or broker_epoch < self._live_brokers.get(broker_id, broker_epoch):
            return ErrorCode.STALE_BROKER_EPOCH
        state.fetched(offset, log_start_offset, broker_epoch, leader_end_offset=leader_end_offset, now_ms=now_ms)
        return ErrorCode.NONE

    def grew(self, end_offset_before: int, now_ms: int) -> None:
        """The leader's log got longer: who had all of it is behind from now on, however long ago it said so."""
        for state in self.followers.values():
            if state.end_offset >= end_offset_before and state.caught_up_ms < now_ms:
                state.caught_up_ms = now_ms

    def _newcomer(self, broker_id: int, now_ms: int) -> FollowerState:
        return FollowerState(caught_up_ms=now_ms) if broker_id in self.committed else FollowerState()

    def _find_needed(self) -> None:
        members = {*self.committed, *(self.proposed or ())}
        self.needed = tuple(state for broker_id, state in self.followers.items() if broker_id in members)

    def is_enough(self, min_insync_replicas: int) -> bool:
        """Whether the ISR is as large as `min.insync.replicas` asks for; all replicas are always enough (KIP-966)."""
        return len(self.committed) >= min(min_insync_replicas, len(self.replicas))

    def high_watermark(self, before: int, end_offset: int, min_insync_replicas: int, now_ms: int) -> int:
        """What is committed: `before`, or more when all who are needed have more. `end_offset` is the leader's own.

        It never falls, and does not rise while the ISR is smaller than `min_insync_replicas` asks for.
        """
        if end_offset <= before or not self.is_enough(min_insync_replicas):
            return before
        reached = end_offset
        for state in self.needed:
            if state.end_offset < reached:
                reached = state.end_offset
        if reached > before and len(self.needed) < len(self.followers):
            reached = min(reached, self._pending_requests(end_offset, now_ms))
        return max(reached, before)

    def _pending_requests(self, end_offset: int, now_ms: int) -> int:
        """Where those are who keep up and may join; the end when there are none."""
        return min(
            (
                state.end_offset
                for broker_id, state in self.followers.items()
                if state.keeps_up
                and state.end_offset >= self.epoch_start_offset
                and self.is_eligible(broker_id)
                and state.is_caught_up(end_offset, now_ms, self.lag_max_ms)
            ),
            default=end_offset,
        )

    def low_watermark(self, log_start_offset: int) -> int:
        """The lowest log start of the leader, whose own is given, and of the followers that are alive."""
        starts = (
            state.log_start_offset for broker_id, state in self.followers.items() if broker_id in self._live_brokers
        )
        return min((log_start_offset, *starts))

    def is_eligible(self, broker_id: int) -> bool:
        """Whether the incarnation of a broker that fetches is the one that is alive (KIP-841, KIP-903)."""
        state = self.followers.get(broker_id)
        return state is not None and self._live_brokers.get(broker_id) == state.broker_epoch

    def with_joining(self, broker_id: int, high_watermark: int) -> tuple[int, ...] | None:
        """The ISR with a follower that has everything committed, also what the epoch began with; None when it may not
        join, is a member, or a proposal is on its way.
        """
        if self.proposed is not None or broker_id in self.committed:
            return None
        state = self.followers.get(broker_id)
        if state is None or state.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return (*self.committed, broker_id) if self.is_eligible(broker_id) else None

    def silent(self, leader_end_offset: int, now_ms: int, silent_ms: int) -> Iterator[int]:
        """The members of the ISR that are behind and have not fetched for `silent_ms`."""
        for broker_id in self.committed:
            state = self.followers.get(broker_id)
            if state is not None and state.is_silent(leader_end_offset, now_ms, silent_ms):
                yield broker_id

    def lost(self, broker_ids: Iterable[int]) -> None:
        """These cannot be reached: they count as behind, and hold nothing back, until they fetch again."""
        for broker_id in broker_ids:
            state = self.followers[broker_id]
            state.caught_up_ms, state.keeps_up = _LONG_AGO_MS, False

    def without_lagging(self, leader_end_offset: int, now_ms: int) -> tuple[int, ...] | None:
        """The ISR without those who did not keep up; None when all did, or a proposal is on its way."""
        if self.proposed is not None:
            return None
        followers = self.followers
        isr = tuple(
            broker_id
            for broker_id in self.committed
            if broker_id not in followers
            or followers[broker_id].is_caught_up(leader_end_offset, now_ms, self.lag_max_ms)
        )
        return isr if len(isr) < len(self.committed) else None

    def propose(self, isr: tuple[int, ...]) -> list[tuple[int, int]]:
        """The controller is asked for `isr`, as of the partition epoch that is known: returns the members with the
        broker epoch of each, -1 where it is not known.
        """
        assert self.proposed is None, "one proposal at a time"
        self.proposed = isr
        self._find_needed()
        return [(broker_id, self._broker_epoch(broker_id)) for broker_id in isr]

    def _broker_epoch(self, broker_id: int) -> int:
        state = self.followers.get(broker_id)
        if state is not None:
            return state.broker_epoch
        return self._live_brokers.get(broker_id, UNKNOWN_BROKER_EPOCH)

    def withdraw(self) -> None:
        """The controller refused the proposal, and no earlier attempt at it can still be on its way."""
        self.proposed = None
        self._find_needed()


class ProposalFate(Struct, frozen=True):
    """What is to be done after an answer to AlterPartition."""

    is_withdrawn: bool = False
    """Nothing was changed: what was committed still is."""
    is_repeated: bool = False
    """Nobody knows whether it was changed: the same proposal is sent again."""


WITHDRAWN: Final = ProposalFate(is_withdrawn=True)
REPEATED: Final = ProposalFate(is_repeated=True)
AWAITED: Final = ProposalFate()
"""The controller knows of something newer: the proposal stays until the metadata says what."""

_FATES: Final = {
    ErrorCode.INELIGIBLE_REPLICA: WITHDRAWN,
    ErrorCode.OPERATION_NOT_ATTEMPTED: WITHDRAWN,
    ErrorCode.FENCED_LEADER_EPOCH: AWAITED,
    ErrorCode.INVALID_UPDATE_VERSION: AWAITED,
    ErrorCode.NEW_LEADER_ELECTED: AWAITED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: AWAITED,
    ErrorCode.UNKNOWN_TOPIC_ID: AWAITED,
    ErrorCode.INVALID_REQUEST: AWAITED,
}


def fate_of(error: ErrorCode, *, attempts_unanswered: int) -> ProposalFate:
    """What an error means for a proposal of which `attempts_unanswered` earlier attempts got no answer.

    One of those may still be carried out after this answer. A refusal ends a proposal only when there are none; with
    some, it is repeated until the partition epoch has moved on, one way or the other.
    """
    fate = _FATES.get(error, REPEATED)
    return REPEATED if fate is WITHDRAWN and attempts_unanswered else fate
