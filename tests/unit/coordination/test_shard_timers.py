from ottla.coordination.shard_timers import ShardTimers
from ottla.runtime.timer import ManualTimer


def test_a_timer_that_is_set_again_moves():
    timer, due = ManualTimer(), []
    timers = ShardTimers(timer, due.append)
    timers.apply({"a": 100, "b": 100})
    timer.advance(60)
    timers.apply({"a": 100})
    timer.advance(60)
    assert due == ["b"]
    timer.advance(60)
    assert due == ["b", "a"]
    assert len(timers) == 0


def test_a_cancelled_timer_is_not_due():
    timer, due = ManualTimer(), []
    timers = ShardTimers(timer, due.append)
    timers.apply({"a": 100})
    timers.apply({"a": None, "never set": None})
    timer.advance(200)
    assert due == []


def test_the_first_of_two_that_are_due_together_can_cancel_or_move_the_second():
    timer, due = ManualTimer(), []

    def on_due(key: object) -> None:
        due.append(key)
        if key == "a":
            timers.apply({"b": None, "c": 50})

    timers = ShardTimers(timer, on_due)
    timers.apply({"a": 100, "b": 100, "c": 100})
    timer.advance(100)
    assert due == ["a"]
    timer.advance(50)
    assert due == ["a", "c"]


def test_after_closing_nothing_is_due():
    timer, due = ManualTimer(), []
    timers = ShardTimers(timer, due.append)
    timers.apply({"a": 100})
    timers.close()
    timer.advance(200)
    assert due == []
