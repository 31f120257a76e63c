"""What every engine promises, to parties that are processes of their own."""

from contextlib import suppress

import pytest

from ottla.metadata.store.interface import (
    BrokerIdTakenError,
    FencedError,
    SessionExpiredError,
    StaleOffsetError,
    StoreError,
)

pytestmark = pytest.mark.slow

SHORT_MS = 4_000
"""A session that a paused party outlives. It has nothing else to do: a busy machine makes any party outlive it."""


def test_the_id_and_the_secret_of_the_cluster_are_those_of_the_first(new_party):
    first, second = new_party(), new_party()
    assert second.call("open", "another") == "cluster"
    assert first.call("cluster_secret", "first") == "first"
    assert second.call("cluster_secret", "second") == "first"


def test_a_log_that_nobody_has_written_to_is_empty(new_party):
    party = new_party()
    for offset in (-1, 0):
        snapshot, *rest = party.call("read", offset)
        assert (snapshot or [], rest) == ([], [[], 0, 0])


def test_every_party_sees_who_is_there(new_party):
    first, second = new_party(), new_party()
    epochs = first.register(1, registration="one"), second.register(2, registration="two")
    assert epochs[0] < epochs[1]
    first.wait_for("brokers")
    for party in (first, second):
        assert party.call("live_brokers") == [[1, epochs[0], "one"], [2, epochs[1], "two"]]


def test_growth_of_the_log_is_told_to_all(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    epoch = first.elect()
    second.wait_for("controller")
    assert first.call("append", epoch, 0, ["a", "b"]) == 2
    first.wait_for("log", 2)
    second.wait_for("log", 2)
    assert second.call("read", 0) == [None, ["a", "b"], 0, 2]
    assert second.call("read", 1) == [None, ["b"], 1, 2]


def test_the_end_of_a_process_is_told_to_the_others(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    epoch = second.register(2)
    first.elect()
    second.wait_for("controller")
    first.kill()
    first.expire()
    second.wait_for("controller")
    assert second.call("controller") == [1, 1, False]
    assert second.call("live_brokers") == [[2, epoch, ""]]


def test_a_party_that_closes_is_gone_at_once(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    epoch = second.register(2)
    first.call("close")
    assert second.call("live_brokers") == [[2, epoch, ""]]


def test_of_two_candidates_that_saw_the_same_election_one_wins(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    for party in (first, second):
        party.begin("elect", 0)
    won = []
    for party in (first, second):
        with suppress(FencedError):
            won.append((party, party.finish()))
    [(winner, epoch)] = won
    assert epoch == 1
    assert winner.call("controller") == [1 if winner is first else 2, 1, True]


def test_a_controller_is_fenced_by_the_next_election_although_its_session_lives(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    old = first.elect()
    first.call("append", old, 0, ["a"])
    new = second.elect()
    assert new > old
    for call in (("append", old, 1, ["x"]), ("write_snapshot", old, 1, ["x"])):
        with pytest.raises(FencedError):
            first.call(*call)
    assert second.call("append", new, 1, ["b"]) == 2
    assert first.call("read", 0) == [None, ["a", "b"], 0, 2]


def test_a_controller_that_resigns_is_none_although_its_session_lives(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    epoch = first.elect()
    second.wait_for("controller")
    first.call("resign", epoch)
    second.wait_for("controller")
    assert second.call("controller") == [1, epoch, False]
    first.call("resign", epoch)  # as when the answer was lost
    new = second.elect()
    assert second.call("controller") == [2, new, True]
    with pytest.raises(FencedError):
        first.call("resign", epoch)
    assert second.call("controller") == [2, new, True]
    assert [broker_id for broker_id, *_ in second.call("live_brokers")] == [1, 2]


def test_a_controller_that_resigned_may_be_elected_again(new_party):
    party = new_party()
    party.register(1)
    epoch = party.elect()
    party.call("append", epoch, 0, ["a"])
    party.call("resign", epoch)
    again = party.elect()
    assert party.call("controller") == [1, again, True]
    assert party.call("append", again, 1, ["b"]) == 2


def test_a_decision_on_a_stale_end_of_the_log_is_refused_and_changes_nothing(new_party):
    first = new_party()
    first.register(1)
    epoch = first.elect()
    first.call("append", epoch, 0, ["a"])
    for stale in (0, 2):
        with pytest.raises(StaleOffsetError):
            first.call("append", epoch, stale, ["x"])
    assert first.call("append", epoch, 1, ["b"]) == 2
    assert first.call("read", 0) == [None, ["a", "b"], 0, 2]


def test_a_session_ends_with_time_when_its_party_stands_still(new_party):
    first, second = new_party(session_timeout_ms=SHORT_MS), new_party()
    first.register(1)
    first.pause()
    epoch = second.register(2)
    while second.call("live_brokers") != [[2, epoch, ""]]:
        pass


def test_a_controller_that_lost_its_session_while_it_stood_still_hears_of_it(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    epoch = second.register(2)
    old = first.elect()
    second.wait_for("controller")
    first.pause()
    first.expire()
    second.wait_for("controller")
    assert second.call("controller") == [1, old, False]
    assert second.call("live_brokers") == [[2, epoch, ""]]
    new = second.elect()
    second.call("append", new, 0, ["new"])
    first.resume()
    first.wait_for("session")
    with pytest.raises(FencedError):
        first.call("append", old, 0, ["old"])
    with pytest.raises(SessionExpiredError):
        first.call("elect", new)
    assert first.register(1) > epoch
    assert first.call("read", 0) == [None, ["new"], 0, 1]


def test_the_next_process_of_a_directory_takes_its_session_over(new_party):
    first, second, third = new_party(), new_party(), new_party()
    third.register(3)
    old = first.register(1, "directory")
    first.elect()
    new = second.register(1, "directory")
    assert new > old
    first.wait_for("session")
    with pytest.raises(SessionExpiredError):
        first.call("elect", 1)
    assert third.call("controller") == [1, 1, False]
    assert second.elect() == 2
    assert third.call("controller") == [1, 2, True]


@pytest.mark.parametrize("directory", ["another directory", None])
def test_an_id_that_is_taken_is_refused_to_another_directory(new_party, directory):
    first, second = new_party(), new_party()
    epoch = first.register(1, "directory")
    with pytest.raises(BrokerIdTakenError, match=r"broker 1 .* another node\.id"):
        second.register(1, directory)
    assert second.call("live_brokers") == [[1, epoch, ""]]
    assert second.register(2, directory) > epoch
    first.kill()
    first.expire()
    second.wait_for("brokers")
    assert new_party().register(1, "another directory") > epoch


def test_a_snapshot_stands_for_what_it_replaced_for_all(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    epoch = first.elect()
    first.call("append", epoch, 0, ["a", "b", "c"])
    first.call("write_snapshot", epoch, 2, ["A", "B"])
    assert second.call("read", 0) == [["A", "B"], ["c"], 2, 3]
    assert second.call("read", 2) == [None, ["c"], 2, 3]
    first.call("append", epoch, 3, ["d"])
    first.call("write_snapshot", epoch, 4, [])
    assert second.call("read", -1) == [[], [], 4, 4]
    assert first.call("append", epoch, 4, ["e"]) == 5


def test_a_controller_that_dies_in_an_append_leaves_all_of_it_or_nothing(new_party):
    """Killed at another moment each time, wherever that is in the append, and be it that it is on its way to a server:
    only who is elected next sees to it that it comes no more."""
    second = new_party()
    second.register(2)
    end = 0
    for _ in range(8):
        first = new_party()
        first.register(1, "directory")
        epoch = first.elect()
        first.begin("append", epoch, end, ["x" * 1_000] * 500)
        first.kill()
        successor = second.elect()
        _, records, _, after = second.call("read", end)
        assert after in (end, end + 500)
        assert len(records) == after - end
        end = after
        second.call("append", successor, end, ["mine"])
        end += 1


def test_a_controller_elected_again_goes_on_where_others_have_ended(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    first.call("append", first.elect(), 0, ["a"])
    second.call("append", second.elect(), 1, ["b", "c"])
    assert first.call("append", first.elect(), 3, ["d"]) == 4


def test_an_append_whose_session_ended_on_the_way_counts_until_the_next_election(new_party):
    first, second = new_party(), new_party()
    first.register(1)
    second.register(2)
    old = first.elect()
    second.wait_for("controller")
    first.pause()
    first.begin("append", old, 0, ["late"])
    first.expire()
    second.wait_for("controller")
    new = second.elect()
    first.resume()
    with pytest.raises(FencedError):
        first.finish()
    assert second.call("append", new, 0, ["new"]) == 1
    assert second.call("read", 0) == [None, ["new"], 0, 1]


def test_what_a_store_is_asked_before_it_is_open_it_refuses(new_party):
    party = new_party()
    party.call("close")
    with pytest.raises(StoreError):
        party.call("read", 0)
