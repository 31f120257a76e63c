from weakref import ref

import pytest

from ottla.runtime.deadlines import EXACT_MS_MAX, LOOKED_THROUGH_MIN, STEP_MS, Deadlines
from ottla.runtime.timer import ManualTimer


class Operation:
    """Counts how often its time was up."""

    def __init__(self) -> None:
        self.is_over = False
        self.expired = 0

    def expire(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.expired += 1


def deadlines() -> tuple[Deadlines, ManualTimer]:
    timer = ManualTimer()
    return Deadlines(timer.clock, timer), timer


def test_an_operation_expires_when_its_time_is_up_and_not_before():
    queue, timer = deadlines()
    early, late = Operation(), Operation()
    queue.add(early, 1_000)
    timer.advance(300)
    queue.add(late, 1_000)
    timer.advance(699)
    assert (early.expired, late.expired) == (0, 0)
    timer.advance(1)
    assert (early.expired, late.expired) == (1, 0)
    timer.advance(300)
    assert (early.expired, late.expired) == (1, 1)
    assert len(timer) == 0


def test_a_short_time_is_not_held_up_by_a_long_one():
    queue, timer = deadlines()
    long, short = Operation(), Operation()
    queue.add(long, 30_000)
    queue.add(short, 1_000)
    timer.advance(1_000)
    assert (long.expired, short.expired) == (0, 1)


def test_an_operation_that_ended_by_itself_does_not_expire_and_is_dropped_with_the_next():
    queue, timer = deadlines()
    operations = [Operation() for _ in range(100)]
    for operation in operations:
        queue.add(operation, 1_000)
        operation.is_over = True
    last = Operation()
    queue.add(last, 1_000)
    assert len(queue) == 1
    assert len(timer) == 1
    timer.advance(10_000)
    assert last.expired == 1
    assert sum(operation.expired for operation in operations) == 0


def test_a_time_between_the_steps_expires_at_the_next_step():
    queue, timer = deadlines()
    operation = Operation()
    queue.add(operation, STEP_MS + 1)
    timer.advance(STEP_MS + 1)
    assert operation.expired == 0
    timer.advance(STEP_MS)
    assert operation.expired == 1


def test_a_very_long_time_and_none_at_all_are_kept_too():
    queue, timer = deadlines()
    patient, impatient = Operation(), Operation()
    queue.add(patient, EXACT_MS_MAX + 1)
    queue.add(impatient, 0)
    timer.advance(1)
    assert impatient.expired == 1
    timer.advance(EXACT_MS_MAX + EXACT_MS_MAX // 32)
    assert patient.expired == 1


def test_one_that_fails_when_its_time_is_up_keeps_nobody_waiting():
    class Failing(Operation):
        def expire(self) -> None:
            raise RuntimeError("a mistake")

    queue, timer = deadlines()
    behind, later = Operation(), Operation()
    queue.add(Failing(), 1_000)
    queue.add(behind, 1_000)
    timer.advance(500)
    queue.add(later, 1_000)
    timer.advance(1_000)
    assert (behind.expired, later.expired) == (1, 1)


@pytest.mark.parametrize("timeout_ms", [1_000, EXACT_MS_MAX + 1, (1 << 31) - 1])
def test_what_is_over_is_not_held_until_its_time_is_up(timeout_ms: int):
    queue, timer = deadlines()
    stuck = Operation()
    queue.add(stuck, timeout_ms)
    held = []
    for _ in range(5 * LOOKED_THROUGH_MIN):
        operation = Operation()
        queue.add(operation, timeout_ms)
        operation.is_over = True
        held.append(ref(operation))
    del operation
    assert sum(each() is not None for each in held) <= LOOKED_THROUGH_MIN
    timer.advance(timeout_ms + timeout_ms // 32 + STEP_MS)
    assert stuck.expired == 1
    assert len(timer) == 0
