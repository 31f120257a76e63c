"""The timer on the loop: one outstanding call, whatever is scheduled."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.runtime.clock import ManualClock
from ottla.runtime.timer import ManualTimer, Timer


class RecordingLoop:
    """Stands in for `loop.call_later`; a call is made by hand."""

    def __init__(self) -> None:
        self.calls: list[RecordingLoop.Call] = []

    class Call:
        def __init__(self, delay_s: float, callback: Callable[[], None]) -> None:
            self.delay_s = delay_s
            self.callback = callback
            self.cancelled = False

        def cancel(self) -> None:
            self.cancelled = True

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Call:
        call = self.Call(delay_s, callback)
        self.calls.append(call)
        return call

    @property
    def outstanding(self) -> list[Call]:
        return [call for call in self.calls if not call.cancelled]


def test_a_thousand_tasks_are_one_call_of_the_loop():
    loop = RecordingLoop()
    timer = Timer(ManualClock(), loop.call_later)
    for _ in range(1_000):
        timer.schedule(30, lambda: None)
    assert len(loop.calls) == 1
    assert loop.calls[0].delay_s == pytest.approx(0.030)


def test_the_loop_is_asked_anew_only_for_an_earlier_task():
    loop = RecordingLoop()
    timer = Timer(ManualClock(), loop.call_later)
    timer.schedule(30, lambda: None)
    timer.schedule(40, lambda: None)
    timer.schedule(20, lambda: None)
    assert [call.delay_s for call in loop.calls] == pytest.approx([0.030, 0.020])
    assert len(loop.outstanding) == 1


def test_an_idle_timer_asks_nothing_of_the_loop():
    loop = RecordingLoop()
    clock = ManualClock()
    timer = Timer(clock, loop.call_later)
    assert loop.calls == []
    timer.schedule(5, lambda: None)
    clock.advance(5)
    loop.calls[0].callback()
    assert len(loop.calls) == 1


def test_a_call_that_comes_too_early_waits_again():
    loop = RecordingLoop()
    clock = ManualClock()
    timer = Timer(clock, loop.call_later)
    ran: list[int] = []
    timer.schedule(5, lambda: ran.append(clock.monotonic_ms()))
    clock.advance(4)
    loop.calls[0].callback()
    assert ran == []
    clock.advance(1)
    loop.outstanding[-1].callback()
    assert ran == [5]


def test_a_failing_callback_is_logged_and_the_others_run(caplog: pytest.LogCaptureFixture):
    timer = ManualTimer()
    ran: list[str] = []
    timer.schedule(1, lambda: 1 / 0)
    timer.schedule(1, lambda: ran.append("second"))
    timer.advance(1)
    assert ran == ["second"]
    assert "ZeroDivisionError" in caplog.text


def test_manual_time_stops_at_each_expiry_and_runs_what_callbacks_schedule():
    timer = ManualTimer()
    seen: list[int] = []

    def again() -> None:
        seen.append(timer.clock.monotonic_ms())
        timer.schedule(100, again)

    timer.schedule(100, again)
    timer.advance(350)
    assert seen == [100, 200, 300]
    assert timer.clock.monotonic_ms() == 350


def test_a_cancelled_task_never_runs():
    timer = ManualTimer()
    task = timer.schedule(10, lambda: pytest.fail("cancelled"))
    task.cancel()
    timer.advance(1_000)


async def test_sleep_ends_when_its_time_has_passed_on_this_timer():
    timer = ManualTimer()
    sleeper = asyncio.ensure_future(timer.sleep(50))
    await asyncio.sleep(0)
    timer.advance(49)
    await asyncio.sleep(0)
    assert not sleeper.done()
    timer.advance(1)
    await sleeper


async def test_a_cancelled_sleep_leaves_nothing_scheduled():
    timer = ManualTimer()
    sleeper = asyncio.ensure_future(timer.sleep(50))
    await asyncio.sleep(0)
    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    assert len(timer) == 0


async def test_on_a_real_loop_tasks_run_in_order_of_their_expiry():
    from ottla.runtime.clock import SystemClock

    timer = Timer(SystemClock(), asyncio.get_running_loop().call_later)
    order: list[str] = []
    done = asyncio.Event()
    timer.schedule(6, done.set)
    timer.schedule(4, lambda: order.append("second"))
    timer.schedule(0, lambda: order.append("first"))
    assert order == [], "never within schedule itself"
    await done.wait()
    assert order == ["first", "second"]
