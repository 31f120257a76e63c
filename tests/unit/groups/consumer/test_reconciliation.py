"""What a member has, step by step: never what it did not ask for, and nothing that another still has."""

from uuid import UUID

import pytest

from ottla.groups.consumer.member import AssignedPartitions, CurrentAssignment, MemberState
from ottla.groups.consumer.reconciliation import reconcile

A, B = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def has(*partitions: int, since: int = 5) -> dict[int, int]:
    return dict.fromkeys(partitions, since)


class Member:
    """One member of a group whose target is of epoch 5; it subscribes to A and B and has 0 and 1 of both."""

    def __init__(self, epoch: int = 5) -> None:
        self.current = CurrentAssignment(epoch, epoch - 1, STABLE, {A: has(0, 1), B: has(0, 1)}, {})
        self.target_epoch = 5
        self.target = {A: frozenset((0, 1)), B: frozenset((0, 1))}
        self.subscribed = {A, B}
        self.others: set[tuple[UUID, int]] = set()
        """What other members have."""

    def heartbeat(self, *, subscribes: set[UUID] | None = None, owns: AssignedPartitions | None = None) -> None:
        """`owns` is what the member says that it owns; nothing said where it is None."""
        asks_anew = subscribes is not None and subscribes != self.subscribed
        if subscribes is not None:
            self.subscribed = subscribes
        mine = {
            (topic_id, partition)
            for of in (self.current.assigned, self.current.pending_revocation)
            for topic_id, partitions in of.items()
            for partition in partitions
        }
        self.current = reconcile(
            self.current,
            self.target_epoch,
            self.target,
            None if owns is None else {topic_id: frozenset(partitions) for topic_id, partitions in owns.items()},
            is_subscribed=self.subscribed.__contains__,
            is_taken=lambda topic_id, partition: (topic_id, partition) in mine | self.others,
            asks_anew=asks_anew,
        )

    @property
    def now(self) -> tuple[MemberState, int, AssignedPartitions, AssignedPartitions]:
        return self.current.state, self.current.epoch, self.current.assigned, self.current.pending_revocation


def test_a_topic_that_is_no_longer_subscribed_to_is_given_up_before_there_is_a_new_target() -> None:
    member = Member()
    member.heartbeat(subscribes={B}, owns={A: has(0, 1), B: has(0, 1)})
    assert member.now == (UNREVOKED, 5, {B: has(0, 1)}, {A: has(0, 1)})
    member.heartbeat(owns={A: has(1), B: has(0, 1)})
    assert member.now == (UNREVOKED, 5, {B: has(0, 1)}, {A: has(0, 1)})
    member.heartbeat(owns={B: has(0, 1)})
    assert member.now == (STABLE, 5, {B: has(0, 1)}, {})
    member.heartbeat(owns={B: has(0, 1)})
    assert member.now == (STABLE, 5, {B: has(0, 1)}, {})


def test_who_owns_nothing_of_it_has_nothing_to_give_up() -> None:
    member = Member()
    member.heartbeat(subscribes={B}, owns={})
    assert member.now == (STABLE, 5, {B: has(0, 1)}, {})


def test_more_is_to_be_given_up_while_something_is() -> None:
    member = Member(epoch=4)
    member.target = {A: frozenset((0, 1)), B: frozenset((0,))}
    member.heartbeat(owns=member.current.assigned)
    assert member.now == (UNREVOKED, 4, {A: has(0, 1), B: has(0)}, {B: has(1)})
    member.heartbeat(subscribes={A}, owns={A: has(0, 1), B: has(0, 1)})
    assert member.now == (UNREVOKED, 4, {A: has(0, 1)}, {B: has(0, 1)})
    member.heartbeat(owns={A: has(0, 1)})
    assert member.now == (STABLE, 5, {A: has(0, 1)}, {})


@pytest.mark.parametrize("owns", [{}, None], ids=["nothing", "not said"])
def test_of_a_target_that_is_older_than_the_subscription_only_what_is_subscribed_to_is_given(
    owns: AssignedPartitions | None,
) -> None:
    member = Member(epoch=0)
    member.current = CurrentAssignment(0, 0, STABLE, {}, {})
    member.heartbeat(subscribes={B}, owns=owns)
    assert member.now == (STABLE, 5, {B: has(0, 1)}, {})


def test_what_comes_back_to_a_member_that_gave_it_up_is_its_at_once() -> None:
    member = Member(epoch=4)
    member.target = {A: frozenset((0,)), B: frozenset((0, 1))}
    member.heartbeat(owns=member.current.assigned)
    assert member.now == (UNREVOKED, 4, {A: has(0), B: has(0, 1)}, {A: has(1)})
    member.target_epoch, member.target = 6, {A: frozenset((0, 1, 2)), B: frozenset((0, 1))}
    member.others = {(A, 2)}
    member.heartbeat(owns={A: has(0), B: has(0, 1)})
    assert member.now == (UNRELEASED, 6, {A: has(0) | has(1, since=6), B: has(0, 1)}, {})
    member.others = set()
    member.heartbeat(owns={A: has(0, 1), B: has(0, 1)})
    assert member.now == (STABLE, 6, {A: has(0) | has(1, 2, since=6), B: has(0, 1)}, {})


def test_a_member_of_which_the_state_is_not_known_begins_anew_with_what_it_asks_for() -> None:
    member = Member()
    member.current = CurrentAssignment(3, 2, MemberState.UNKNOWN, {A: has(0, 1)}, {})
    member.heartbeat(subscribes={B}, owns={})
    assert member.now == (STABLE, 5, {B: has(0, 1)}, {})
