from hypothesis import given
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.replication.in_sync_replicas import (
    AWAITED,
    REPEATED,
    WITHDRAWN,
    InSyncReplicas,
    fate_of,
    follower_high_watermark,
)

LAG_MAX_MS = 1_000
EPOCHS = {1: 11, 2: 12, 3: 13}


def replicas(isr: tuple[int, ...] = (1, 2, 3), start: int = 0, live: dict[int, int] | None = None) -> InSyncReplicas:
    return InSyncReplicas(
        1,
        (1, 2, 3),
        isr,
        5,
        epoch_start_offset=start,
        live_brokers=EPOCHS if live is None else live,
        lag_max_ms=LAG_MAX_MS,
        now_ms=0,
    )


def fetch(known: InSyncReplicas, broker_id: int, offset: int, end: int, now_ms: int = 0) -> ErrorCode:
    return known.fetched(broker_id, EPOCHS[broker_id], offset, 0, leader_end_offset=end, now_ms=now_ms)


def test_an_offset_is_committed_when_every_member_of_the_isr_has_it() -> None:
    known = replicas()
    assert known.high_watermark(0, 10, 1, 0) == 0
    fetch(known, 2, 8, 10)
    assert known.high_watermark(0, 10, 1, 0) == 0
    fetch(known, 3, 6, 10)
    assert known.high_watermark(0, 10, 1, 0) == 6
    assert known.high_watermark(0, 5, 1, 0) == 5


def test_the_high_watermark_does_not_fall_when_a_member_comes_back_with_less() -> None:
    known = replicas((1, 2))
    fetch(known, 2, 8, 10)
    fetch(known, 2, 3, 10)
    assert known.high_watermark(8, 10, 1, 5_000) == 8


def test_what_a_member_asked_for_before_and_comes_late_changes_nothing() -> None:
    known = replicas((1, 2))
    fetch(known, 2, 10, 10, 5_000)
    fetch(known, 2, 3, 12, 5_010)
    assert known.high_watermark(3, 12, 2, 5_010) == 10
    assert known.followers[2].keeps_up
    fetch(known, 2, 12, 12, 5_020)
    assert known.high_watermark(10, 12, 2, 5_020) == 12


def test_what_another_incarnation_of_a_member_has_counts_though_it_be_less() -> None:
    known = replicas((1, 2))
    fetch(known, 2, 10, 10)
    known.fetched(2, EPOCHS[2] + 1, 3, 0, leader_end_offset=10, now_ms=1)
    assert known.followers[2].end_offset == 3


def test_while_a_proposal_is_on_its_way_the_old_and_the_proposed_members_are_needed() -> None:
    known = replicas((1, 2))
    fetch(known, 2, 10, 10)
    fetch(known, 3, 10, 10)
    assert known.propose((1, 2, 3)) == [(1, 11), (2, 12), (3, 13)]
    fetch(known, 2, 20, 20, 5_000)
    assert known.high_watermark(10, 20, 1, 9_000) == 10
    known.withdraw()
    assert known.high_watermark(10, 20, 1, 9_000) == 20
    known.propose((1,))
    fetch(known, 2, 20, 30, 9_000)
    assert known.high_watermark(20, 30, 1, 99_000) == 20
    assert known.adopt((1, 2, 3), (1,), 6, 99_000)
    assert known.high_watermark(20, 30, 1, 99_000) == 30


def test_an_older_decision_changes_nothing_and_leaves_the_proposal() -> None:
    known = replicas((1, 2))
    known.propose((1,))
    assert not known.adopt((1, 2, 3), (1, 2, 3), 5, 0)
    assert known.proposed == (1,)
    assert known.adopt((1, 2, 3), (1, 2, 3), 6, 0)
    assert (known.proposed, known.committed) == (None, (1, 2, 3))


def test_the_high_watermark_does_not_rise_while_the_isr_is_too_small() -> None:
    known = replicas((1,))
    assert known.high_watermark(3, 10, 2, 0) == 3
    assert known.high_watermark(3, 10, 1, 0) == 10
    single = InSyncReplicas(
        1, (1,), (1,), 0, epoch_start_offset=0, live_brokers=EPOCHS, lag_max_ms=LAG_MAX_MS, now_ms=0
    )
    assert single.high_watermark(3, 10, 2, 0) == 10


def test_who_keeps_up_and_may_join_holds_the_high_watermark_back_until_it_lags_or_is_gone() -> None:
    live = dict(EPOCHS)
    known = replicas((1,), live=live)
    fetch(known, 2, 10, 10)
    assert known.high_watermark(10, 20, 1, LAG_MAX_MS) == 10
    assert known.high_watermark(10, 20, 1, LAG_MAX_MS + 1) == 20
    assert known.with_joining(2, 10) == (1, 2)
    del live[2]
    assert known.high_watermark(10, 20, 1, LAG_MAX_MS) == 20
    assert known.with_joining(2, 10) is None


def test_who_has_much_to_fetch_yet_holds_nothing_back_however_lately_it_had_everything() -> None:
    known = replicas((1,))
    fetch(known, 2, 10, 10)
    fetch(known, 2, 11, 50)
    assert known.high_watermark(10, 50, 1, 0) == 11
    fetch(known, 2, 30, 60)
    assert known.high_watermark(11, 60, 1, 0) == 60
    fetch(known, 2, 60, 70)
    assert known.high_watermark(60, 70, 1, 0) == 60


def test_a_follower_joins_with_everything_committed_and_what_the_epoch_began_with() -> None:
    known = replicas((1,), start=10)
    assert known.with_joining(2, 5) is None
    fetch(known, 2, 9, 20)
    assert known.with_joining(2, 5) is None
    fetch(known, 2, 10, 20)
    assert known.with_joining(2, 11) is None
    assert known.with_joining(2, 10) == (1, 2)
    known.propose((1, 2))
    fetch(known, 3, 20, 20)
    assert known.with_joining(3, 10) is None


def test_who_reached_the_end_of_the_fetch_before_was_caught_up_then() -> None:
    known = replicas()
    fetch(known, 2, 5, 10, 100)
    fetch(known, 2, 10, 20, 200)
    fetch(known, 2, 20, 30, 300)
    fetch(known, 3, 5, 30, 300)
    assert known.followers[2].caught_up_ms == 200
    assert known.without_lagging(30, LAG_MAX_MS) is None
    assert known.without_lagging(30, LAG_MAX_MS + 1) == (1, 2)
    assert known.without_lagging(30, LAG_MAX_MS + 201) == (1,)
    known.propose((1, 2))
    assert known.without_lagging(30, LAG_MAX_MS + 201) is None


def test_a_member_that_has_everything_stays_however_long_it_says_nothing() -> None:
    known = replicas((1, 2))
    fetch(known, 2, 10, 10)
    assert known.without_lagging(10, 1 << 40) is None


def test_what_an_earlier_incarnation_fetched_does_not_count() -> None:
    live = dict(EPOCHS)
    known = replicas((1, 2), live=live)
    live[2] = 99
    assert fetch(known, 2, 10, 10) is ErrorCode.STALE_BROKER_EPOCH
    assert known.fetched(2, 99, 4, 0, leader_end_offset=10, now_ms=0) is ErrorCode.NONE
    live.clear()
    assert fetch(known, 2, 10, 10) is ErrorCode.STALE_BROKER_EPOCH
    assert known.high_watermark(0, 10, 1, 0) == 4
    assert known.fetched(7, 1, 4, 0, leader_end_offset=10, now_ms=0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_refusal_ends_a_proposal_only_when_no_earlier_attempt_may_still_be_carried_out() -> None:
    assert fate_of(ErrorCode.INELIGIBLE_REPLICA, attempts_unanswered=0) is WITHDRAWN
    assert fate_of(ErrorCode.INELIGIBLE_REPLICA, attempts_unanswered=1) is REPEATED
    assert fate_of(ErrorCode.FENCED_LEADER_EPOCH, attempts_unanswered=1) is AWAITED
    assert fate_of(ErrorCode.INVALID_UPDATE_VERSION, attempts_unanswered=0) is AWAITED
    assert fate_of(ErrorCode.NOT_CONTROLLER, attempts_unanswered=0) is REPEATED
    assert fate_of(ErrorCode.STALE_BROKER_EPOCH, attempts_unanswered=0) is REPEATED


def test_a_followers_high_watermark_is_within_its_log_and_rises_only() -> None:
    assert follower_high_watermark(3, 10, 7) == 7
    assert follower_high_watermark(3, 5, 7) == 5
    assert follower_high_watermark(3, 2, 7) == 3


ISRS = st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3)])


@given(
    committed=ISRS,
    proposed=ISRS,
    ends=st.tuples(*[st.integers(0, 20)] * 3),
    before=st.integers(0, 10),
    minimum=st.integers(1, 4),
)
def test_nothing_is_committed_that_a_member_of_either_isr_has_not(
    committed: tuple[int, ...], proposed: tuple[int, ...], ends: tuple[int, int, int], before: int, minimum: int
) -> None:
    known = replicas(committed)
    known.propose(proposed)
    for broker_id in (2, 3):
        fetch(known, broker_id, ends[broker_id - 1], ends[0])
    reached = known.high_watermark(before, ends[0], minimum, 0)
    needed = min(ends[broker_id - 1] for broker_id in {*committed, *proposed})
    assert before <= reached <= max(before, needed)
    if len(committed) < min(minimum, 3):
        assert reached == before
    if {*committed, *proposed} == {1, 2, 3} and len(committed) >= min(minimum, 3):
        assert reached == max(before, needed)
