"""Who leads and who is in sync: each rule on a state that shows it."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.controller.partition_leadership import (
    Election,
    PartitionProposal,
    alter,
    begin_reassignment,
    cancel_reassignment,
    elect,
    fence,
    fence_all,
    lose,
    new_state,
    reassign,
    recount,
    renew_leader,
    unclean_order,
)
from ottla.metadata.image.image import BrokerImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode

TOPIC = UUID(int=1)


def state(leader, isr, *, elr=(), last=-1, replicas=(1, 2, 3), adding=(), removing=(), epoch=5, change=9):
    return PartitionState(leader, epoch, replicas, isr, change, adding, removing, elr, last)


def brokers(*live, fenced=(), stopping=()):
    found = {each: BrokerImage(each, 100 + each, None, 9092, None) for each in live}
    found |= {each: BrokerImage(each, 100 + each, None, 9092, None, fenced=True) for each in fenced}
    return found | {each: BrokerImage(each, 100 + each, None, 9092, None, shutting_down=True) for each in stopping}


def proposal(*isr, epoch=5, change=9):
    return PartitionProposal(TOPIC, 0, epoch, change, tuple((each, 100 + each) for each in isr))


@pytest.mark.parametrize(
    ("before", "gone", "live", "min_isr", "after"),
    [
        # the leader goes: the next replica in sync leads, with a new epoch
        (state(1, (1, 2, 3)), 1, {2, 3}, 1, state(2, (2, 3), epoch=6, change=10)),
        # a follower goes: the leader and its epoch stay
        (state(1, (1, 2, 3)), 3, {1, 2}, 1, state(1, (1, 2), change=10)),
        # the ISR is smaller than min.insync.replicas now: who left has everything committed
        (state(1, (1, 2)), 2, {1}, 2, state(1, (1,), elr=(2,), change=10)),
        (state(1, (1, 2, 3)), 2, {1, 3}, 2, state(1, (1, 3), change=10)),
        (state(1, (1,), elr=(2,)), 1, {3}, 2, state(-1, (), elr=(2, 1), last=1, epoch=6, change=10)),
        # nobody in sync is left, but one that is eligible
        (state(1, (1,), elr=(2,)), 1, {2, 3}, 2, state(2, (2,), elr=(1,), epoch=6, change=10)),
        # the only member of the ISR goes, and is waited for
        (state(1, (1,)), 1, {2, 3}, 1, state(-1, (), elr=(1,), last=1, epoch=6, change=10)),
        # it was not in sync
        (state(1, (1, 2)), 3, {1, 2}, 2, state(1, (1, 2))),
        # no more is asked of two replicas than two
        (state(1, (1, 2), replicas=(1, 2)), 2, {1}, 3, state(1, (1,), elr=(2,), replicas=(1, 2), change=10)),
    ],
)  # fmt: skip
def test_who_is_fenced_leaves_the_isr_and_the_leadership(before, gone, live, min_isr, after):
    assert fence(before, gone, live, min_isr=min_isr) == after


def test_who_was_in_sync_together_stays_eligible_together():
    before = state(1, (1, 2))
    both_gone = fence_all(before, (1, 2), {3}, min_isr=1)
    assert both_gone == state(-1, (), elr=(1, 2), last=1, epoch=6, change=10)
    assert elect(both_gone, {2, 3}, min_isr=1) == state(2, (2,), epoch=7, change=11)


def test_who_leaves_the_isr_last_is_remembered_even_if_it_did_not_lead():
    before = state(-1, (2,))
    assert fence(before, 2, set(), min_isr=1) == state(-1, (), elr=(2,), last=2, change=10)


def test_an_unclean_election_by_setting_takes_any_live_replica_and_ends_the_elr():
    before = state(1, (1,), elr=(2,))
    assert fence(before, 1, {3}, min_isr=2, election=Election.UNCLEAN) == state(3, (3,), epoch=6, change=10)
    assert fence(before, 1, {2, 3}, min_isr=2, election=Election.UNCLEAN).leader == 2


@pytest.mark.parametrize(
    ("before", "live", "election", "after"),
    [
        # a live member of the ELR leads; the other one stays eligible, since the ISR is small
        (state(-1, (), elr=(2, 3), last=1), {3}, Election.ONLINE, state(3, (3,), elr=(2,), epoch=6, change=10)),
        (state(-1, (), elr=(2, 3), last=1), {1}, Election.ONLINE, state(-1, (), elr=(2, 3), last=1)),
        # the last leader leads only when nobody is eligible
        (state(-1, (), last=1), {1, 2}, Election.ONLINE, state(1, (1,), epoch=6, change=10)),
        (state(-1, (), last=1), {2}, Election.ONLINE, state(-1, (), last=1)),
        (state(-1, (), last=1), {2}, Election.UNCLEAN, state(2, (2,), epoch=6, change=10)),
        # preferred: only when it is in sync
        (state(2, (1, 2)), {1, 2, 3}, Election.PREFERRED, state(1, (1, 2), epoch=6, change=10)),
        (state(2, (2, 3)), {1, 2, 3}, Election.PREFERRED, state(2, (2, 3))),
        (state(2, (1, 2)), {2, 3}, Election.PREFERRED, state(2, (1, 2))),
        (state(2, (1, 2)), {1, 2, 3}, Election.ONLINE, state(2, (1, 2))),
        (state(-1, (), elr=(3,), last=1), {1, 3}, Election.PREFERRED, state(3, (3,), epoch=6, change=10)),
    ],
)
def test_an_election_takes_who_has_everything(before, live, election, after):
    assert elect(before, live, min_isr=2 if before.elr else 1, election=election) == after


def test_the_elr_ends_when_an_election_makes_the_isr_large_enough():
    before = state(-1, (), elr=(2, 3), last=1)
    assert elect(before, {2}, min_isr=1) == state(2, (2,), epoch=6, change=10)


def test_an_unclean_election_prefers_the_newest_epoch_then_the_longest_log():
    order = unclean_order((1, 2, 3, 4), {1: (4, 900), 2: (5, 10), 3: (5, 20)})
    assert order == (3, 2, 1, 4)
    before = state(-1, (), replicas=(1, 2, 3, 4))
    elected = elect(before, {1, 2}, min_isr=1, election=Election.UNCLEAN, unclean_order=order)
    assert elected.leader == 2


def test_who_lost_its_records_is_not_eligible():
    before = state(1, (1,), elr=(2, 3))
    assert lose(before, 3, {1, 2}, min_isr=2) == state(1, (1,), elr=(2,), change=10)
    assert lose(before, 1, {3}, min_isr=2) == state(3, (3,), elr=(2,), epoch=6, change=10)
    assert lose(state(1, (1,)), 1, set(), min_isr=1) == state(-1, (), last=1, epoch=6, change=10)


def test_an_empty_directory_is_not_waited_for_where_another_replica_may_have_more():
    assert lose(state(1, (1,)), 1, set(), min_isr=1, is_empty=True) == state(-1, (), epoch=6, change=10)
    assert lose(state(-1, (), last=1), 1, set(), min_isr=1, is_empty=True) == state(-1, (), change=10)
    alone = state(1, (1,), replicas=(1,))
    assert lose(alone, 1, set(), min_isr=1, is_empty=True).last_known_leader == 1


def test_a_new_partition_has_its_live_replicas_in_sync():
    assert new_state((3, 1, 2), {1, 2}) == PartitionState(1, 0, (3, 1, 2), (1, 2), 0)


def test_another_incarnation_of_the_leader_is_another_leader():
    assert renew_leader(state(1, (1, 2))) == state(1, (1, 2), epoch=6, change=10)


def test_an_isr_that_is_large_enough_for_a_changed_setting_has_no_elr():
    before = state(1, (1,), elr=(2,))
    assert recount(before, {1}, min_isr=1) == state(1, (1,), change=10)
    assert recount(before, {1}, min_isr=3) is before


ALL = brokers(1, 2, 3)


@pytest.mark.parametrize(
    ("by", "proposed", "known", "expected"),
    [
        (1, proposal(1, 2, 3), ALL, state(1, (1, 2, 3), change=10)),
        (1, proposal(1), ALL, state(1, (1,), elr=(2,), change=10)),
        (1, proposal(1, 2), ALL, state(1, (1, 2), change=10)),
        (1, proposal(1, 2, epoch=6), ALL, ErrorCode.NOT_CONTROLLER),
        (1, proposal(1, 2, change=10), ALL, ErrorCode.NOT_CONTROLLER),
        (1, proposal(1, 2, epoch=4), ALL, ErrorCode.FENCED_LEADER_EPOCH),
        (2, proposal(1, 2), ALL, ErrorCode.INVALID_REQUEST),
        (1, proposal(1, 3, change=8), ALL, ErrorCode.INVALID_UPDATE_VERSION),
        (1, proposal(2, 3), ALL, ErrorCode.INVALID_REQUEST),
        (1, proposal(1, 4), brokers(1, 2, 3, 4), ErrorCode.INVALID_REQUEST),
        (1, proposal(1, 2, 2), ALL, ErrorCode.INVALID_REQUEST),
        (1, proposal(), ALL, ErrorCode.INVALID_REQUEST),
        (1, proposal(1, 3), brokers(1, 2), ErrorCode.INELIGIBLE_REPLICA),
        (1, proposal(1, 3), brokers(1, 2, fenced=[3]), ErrorCode.INELIGIBLE_REPLICA),
        (1, proposal(1, 3), brokers(1, 2, stopping=[3]), ErrorCode.INELIGIBLE_REPLICA),
        (1, PartitionProposal(TOPIC, 0, 5, 9, ((1, 101), (3, 7))), ALL, ErrorCode.INELIGIBLE_REPLICA),
        (1, PartitionProposal(TOPIC, 0, 5, 9, ((1, 101), (3, -1))), ALL, state(1, (1, 3), change=10)),
    ],
)
def test_what_a_leader_proposes_is_checked(by, proposed, known, expected):
    live = {each for each, broker in known.items() if broker.is_active}
    assert alter(state(1, (1, 2)), by, proposed, known, live, min_isr=2) == expected


def test_a_reassignment_is_over_when_all_replicas_that_stay_are_in_sync():
    before = state(1, (1, 2, 3))
    begun = reassign(before, (4, 2, 3, 1), (4,), (1,), {1, 2, 3, 4}, min_isr=2)
    assert begun == state(1, (1, 2, 3), replicas=(4, 2, 3, 1), adding=(4,), removing=(1,), change=10)
    members = brokers(1, 2, 3, 4)
    done = alter(begun, 1, proposal(1, 2, 3, 4, change=10), members, set(members), min_isr=2)
    assert done == state(4, (2, 3, 4), replicas=(4, 2, 3), epoch=6, change=11)


def test_a_reassignment_that_only_takes_away_ends_at_once_with_a_new_epoch():
    after = reassign(state(2, (1, 2, 3)), (1, 2, 3), (), (3,), {1, 2, 3}, min_isr=2)
    assert after == state(2, (1, 2), replicas=(1, 2), epoch=6, change=10)


def test_who_is_taken_away_is_not_eligible_and_not_waited_for():
    before = state(1, (1,), elr=(3,), replicas=(1, 2, 3))
    after = reassign(before, (1,), (), (), {1}, min_isr=2, isr=(1,))
    assert after == state(1, (1,), replicas=(1,), epoch=6, change=10)
    waiting = state(-1, (), last=3, replicas=(1, 2, 3))
    assert reassign(waiting, (1, 2), (), (), {1, 2}, min_isr=1).last_known_leader == -1


BROKERS = (1, 2, 3, 4)
ids = st.sampled_from(BROKERS)
steps = st.lists(
    st.tuples(
        st.sampled_from(["fence", "unfence", "lose", "alter", "reassign", "cancel", "preferred", "unclean", "recount"]),
        ids,
        st.lists(ids, unique=True, min_size=1),
        st.integers(1, 3),
    ),
    max_size=30,
)


@given(st.lists(ids, unique=True, min_size=1), st.integers(1, 3), steps)
def test_whatever_happens_to_a_partition_it_stays_sound(replicas, min_isr, happens):
    live = set(BROKERS)
    now = new_state(replicas, live)
    for what, broker, some, other_min in happens:
        before, is_unclean = now, what in ("unclean", "lose")
        if what == "fence":
            live.discard(broker)
            now = fence(now, broker, live, min_isr=min_isr)
        elif what == "unfence":
            live.add(broker)
            now = elect(now, live, min_isr=min_isr)
        elif what == "lose":
            live.discard(broker)
            now = lose(now, broker, live, min_isr=min_isr, is_empty=other_min == 1)
        elif what == "alter":
            isr = [each for each in some if each in now.replicas and each in live]
            proposed = PartitionProposal(
                TOPIC, 0, now.leader_epoch, now.partition_epoch, tuple((each, -1) for each in isr)
            )
            outcome = alter(now, now.leader, proposed, brokers(*live), live, min_isr=min_isr)
            now = now if isinstance(outcome, ErrorCode) else outcome
        elif what == "reassign":
            now = begin_reassignment(now, some, live, min_isr=min_isr)
        elif what == "cancel":
            now = cancel_reassignment(now, live, min_isr=min_isr, may_lose_records=False) or now
        elif what == "preferred":
            now = elect(now, live, min_isr=min_isr, election=Election.PREFERRED)
        elif what == "unclean":
            now = elect(now, live, min_isr=min_isr, election=Election.UNCLEAN)
        elif what == "recount":
            min_isr = other_min
            now = recount(now, live, min_isr=min_isr)
        assert_sound(now, live, min_isr)
        assert_follows(before, now, is_unclean=is_unclean)


def assert_sound(now, live, min_isr):
    members = set(now.replicas)
    assert len(members) == len(now.replicas) > 0
    assert set(now.isr) <= members
    assert set(now.elr) <= members
    assert not set(now.isr) & set(now.elr)
    assert set(now.adding) | set(now.removing) <= members
    assert now.last_known_leader in (-1, *members)
    if now.leader == -1:
        assert not (set(now.isr or now.elr) & live)
        assert now.isr or now.elr or now.last_known_leader not in live
    else:
        assert now.leader in now.isr
        assert now.leader in live
        assert now.last_known_leader == -1
    if len(now.isr) >= min(min_isr, len(members)):
        assert now.elr == ()


def assert_follows(before, now, *, is_unclean):
    if now == before:
        assert now is before
        return
    assert now.partition_epoch == before.partition_epoch + 1
    assert now.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    if now.leader != before.leader:
        assert now.leader_epoch == before.leader_epoch + 1
    had_everything = set(before.isr or before.elr)
    if now.leader not in (-1, before.leader) and had_everything and not is_unclean:
        assert now.leader in had_everything
