from ottla.metadata.controller.heartbeat_tracker import HeartbeatTracker


def tracker(**heard: int) -> HeartbeatTracker:
    found = HeartbeatTracker(session_timeout_ms=100)
    for broker, at_ms in heard.items():
        found.heard(int(broker[1:]), at_ms, metadata_offset=at_ms)
    return found


def test_who_is_silent_for_longer_than_the_session_time_is_overdue_longest_first():
    brokers = tracker(b3=0, b1=5, b2=9)
    assert brokers.overdue(100) == []
    assert brokers.overdue(101) == [3]
    assert brokers.overdue(106) == [3, 1]
    assert brokers.overdue(1_000) == [3, 1, 2]
    assert brokers.silent_ms(3, 101) == 101


def test_the_next_look_is_when_the_first_will_be_overdue():
    brokers = tracker(b1=0, b2=50)
    assert brokers.next_check_ms() == 101
    assert brokers.overdue(101) == [1]
    brokers.heard(1, 60, 3)
    assert brokers.next_check_ms() == 151
    brokers.forget(2)
    assert brokers.next_check_ms() == 161
    brokers.forget(1)
    assert brokers.next_check_ms() is None
    assert brokers.overdue(10_000) == []


def test_a_restart_gives_a_whole_session_time_to_those_it_names():
    brokers = tracker(b1=0, b2=0)
    brokers.restart([2, 3], 500)
    assert brokers.overdue(600) == []
    assert brokers.overdue(601) == [2, 3]


def test_how_far_all_have_read_counts_those_that_are_known():
    brokers = tracker(b1=7, b2=9)
    brokers.restart([1, 2, 3], 20)
    assert brokers.lowest_offset([1, 2]) == 7
    assert brokers.lowest_offset([2, 8]) == 9
    assert brokers.lowest_offset([1, 3]) == -1
    assert brokers.lowest_offset([8]) is None
