"""When a controller hears too few of those that live to decide about them."""

import pytest

from ottla.metadata.controller.check_quorum import CheckQuorum, is_cut_off

SESSION_MS = 9_000


@pytest.mark.parametrize(
    ("heard", "present", "expected"),
    [
        (1, 1, False),
        (1, 2, False),
        (1, 3, True),
        (2, 3, False),
        (1, 4, True),
        (2, 4, False),
        (2, 5, True),
        (3, 5, False),
        (5, 5, False),
    ],
)
def test_who_hears_fewer_than_half_is_cut_off(heard, present, expected):
    assert is_cut_off(heard, present) is expected


def test_of_two_parts_of_a_cluster_that_hear_only_themselves_at_most_one_is_cut_off():
    for present in range(1, 30):
        for heard in range(1, present):
            assert not (is_cut_off(heard, present) and is_cut_off(present - heard, present))


@pytest.fixture
def quorum():
    """Of broker 1, with 2 and 3."""
    made = CheckQuorum(SESSION_MS)
    made.restart({2: 20, 3: 30}, now_ms=0)
    return made


def test_a_new_controller_counts_all_who_serve_as_heard(quorum):
    sessions = {1: 10, 2: 20, 3: 30}
    assert not quorum.is_lost(sessions, own_id=1, now_ms=SESSION_MS // 2)
    assert quorum.is_lost(sessions, own_id=1, now_ms=SESSION_MS // 2 + 1)


def test_who_has_no_session_is_not_missed(quorum):
    assert quorum.is_lost({1: 10, 2: 20, 3: 30}, own_id=1, now_ms=SESSION_MS)
    assert not quorum.is_lost({1: 10, 2: 20}, own_id=1, now_ms=SESSION_MS)
    assert not quorum.is_lost({1: 10}, own_id=1, now_ms=SESSION_MS)


def test_who_was_started_anew_and_not_heard_since_is_not_missed(quorum):
    sessions = {1: 10, 2: 20, 3: 31}
    assert not quorum.is_lost(sessions, own_id=1, now_ms=SESSION_MS)
    quorum.heard(3, 31, now_ms=SESSION_MS)
    assert not quorum.is_lost(sessions, own_id=1, now_ms=SESSION_MS)
    assert quorum.is_lost(sessions, own_id=1, now_ms=2 * SESSION_MS)


def test_one_of_two_that_is_heard_is_enough(quorum):
    quorum.heard(3, 30, now_ms=SESSION_MS)
    assert not quorum.is_lost({1: 10, 2: 20, 3: 30}, own_id=1, now_ms=SESSION_MS)


def test_who_stood_still_blames_nobody(quorum):
    quorum.stood_still(10 * SESSION_MS)
    assert len(quorum) == 2
    assert not quorum.is_lost({1: 10, 2: 20, 3: 30}, own_id=1, now_ms=10 * SESSION_MS)


def test_a_quorum_is_there_while_half_are_heard_besides_this_one(quorum):
    sessions = {1: 10, 2: 20, 3: 30}
    assert quorum.is_there(sessions, own_id=1, now_ms=SESSION_MS // 2)
    assert not quorum.is_there(sessions, own_id=1, now_ms=SESSION_MS)
    quorum.heard(3, 30, now_ms=SESSION_MS)
    assert quorum.is_there(sessions, own_id=1, now_ms=SESSION_MS)
    assert not quorum.is_there({1: 10, 2: 20}, own_id=1, now_ms=SESSION_MS), "who has no session is not heard"
    assert not quorum.is_there({1: 10}, own_id=1, now_ms=SESSION_MS), "nobody is"
