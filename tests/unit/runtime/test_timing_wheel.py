"""The wheel against a naive model: a list of (expiry, callback) searched from end to end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.runtime.timing_wheel import TimerTask, TimingWheel


def nothing() -> None:
    pass


def test_a_task_is_due_at_its_expiry_and_not_a_millisecond_before():
    wheel = TimingWheel(1_000)
    task = wheel.add(nothing, 1_007, 1_000)
    assert wheel.advance(1_006) == []
    assert wheel.advance(1_007) == [task]


def test_tasks_come_out_by_expiry_whatever_the_order_and_the_level_they_went_in():
    wheel = TimingWheel(0, size=4)
    expiries = [900, 3, 17, 16, 70, 2, 65, 4]
    for expiry in expiries:
        wheel.add(nothing, expiry, 0)
    assert [task.expiry_ms for task in wheel.advance(1_000)] == sorted(expiries)


def test_a_task_in_the_past_is_due_at_once():
    wheel = TimingWheel(5_000)
    task = wheel.add(nothing, 10, 5_000)
    assert wheel.next_expiry_ms() == 5_000
    assert wheel.advance(5_000) == [task]


def test_a_coarse_tick_makes_tasks_late_never_early():
    wheel = TimingWheel(0, tick_ms=10)
    task = wheel.add(nothing, 11, 0)
    assert wheel.advance(19) == []
    assert wheel.advance(20) == [task]


def test_a_cancelled_task_is_gone_and_nothing_is_left_to_wait_for():
    wheel = TimingWheel(0)
    task = wheel.add(nothing, 50, 0)
    assert task.cancel()
    assert not task.cancel()
    assert len(wheel) == 0
    assert wheel.next_expiry_ms() is None
    assert wheel.advance(100) == []


def test_a_task_that_is_due_can_no_longer_be_cancelled():
    wheel = TimingWheel(0)
    task = wheel.add(nothing, 5, 0)
    assert wheel.advance(5) == [task]
    assert not task.cancel()
    assert len(wheel) == 0


def test_an_idle_wheel_has_nothing_to_wake_up_for():
    wheel = TimingWheel(0)
    assert wheel.next_expiry_ms() is None
    wheel.add(nothing, 10_000_000, 0)
    wakeups = 0
    while (next_ms := wheel.next_expiry_ms()) is not None:
        wheel.advance(next_ms)
        wakeups += 1
    assert wakeups <= 5, "one wake-up for each level the task moves down"


def test_a_task_added_after_a_long_idle_time_goes_to_the_lowest_level():
    wheel = TimingWheel(0)
    wheel.add(nothing, 3_600_005, 3_600_000)
    assert wheel.next_expiry_ms() == 3_600_005


def test_the_wheel_holds_as_many_buckets_as_are_in_use_not_as_many_as_tasks():
    wheel = TimingWheel(0)
    for expiry in range(10_000):
        wheel.add(nothing, 5 + expiry % 3, 0)
    assert len(wheel) == 10_000
    assert len(wheel._heap) == 3


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(min_value=-5, max_value=50_000)),
        st.tuples(st.just("advance"), st.integers(min_value=0, max_value=20_000)),
        st.tuples(st.just("to the next expiry"), st.just(0)),
        st.tuples(st.just("late"), st.integers(min_value=0, max_value=300)),
        st.tuples(st.just("cancel"), st.integers(min_value=0, max_value=1_000)),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(steps, st.sampled_from([2, 3, 20, 64]), st.integers(min_value=0, max_value=10_000_000))
def test_the_wheel_agrees_with_a_naive_list(steps: list[tuple[str, int]], size: int, start_ms: int):
    wheel = TimingWheel(start_ms, size=size)
    waiting: dict[TimerTask, int] = {}
    now_ms = start_ms
    for action, number in steps:
        if action == "add":
            task = wheel.add(nothing, now_ms + number, now_ms)
            waiting[task] = now_ms + number
        elif action == "late":
            now_ms += number  # time passes before anybody calls advance
        elif action == "cancel" and waiting:
            task = list(waiting)[number % len(waiting)]
            assert task.cancel()
            del waiting[task]
        elif action in ("advance", "to the next expiry"):
            next_ms = wheel.next_expiry_ms()
            now_ms = now_ms + number if action == "advance" else max(now_ms, next_ms or 0)
            due = wheel.advance(now_ms)
            expected = {task for task, expiry in waiting.items() if expiry <= now_ms}
            assert set(due) == expected
            for task in due:
                del waiting[task]
        assert len(wheel) == len(waiting)
        if waiting:
            next_ms = wheel.next_expiry_ms()
            assert next_ms is not None
            assert next_ms <= max(min(waiting.values()), now_ms)
