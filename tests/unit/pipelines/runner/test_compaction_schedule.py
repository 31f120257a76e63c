"""When a table is compacted again."""

import pytest

from ottla.pipelines.runner.compaction_schedule import COMPACTED, CompactionSchedule
from ottla.runtime.clock import ManualClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize("kept", [True, False])
def test_it_is_due_when_so_long_has_passed_since_the_last_time(tmp_path, kept):
    clock = ManualClock(5)
    schedule = CompactionSchedule(tmp_path if kept else None, HOUR_MS, clock)
    assert not schedule.is_due()
    clock.advance(HOUR_MS - 1)
    assert not schedule.is_due()
    clock.advance(1)
    assert schedule.is_due()
    schedule.done()
    assert not schedule.is_due()


def test_runs_of_some_minutes_each_come_to_it_too(tmp_path):
    clock = ManualClock(5)
    due = []
    for _ in range(12):
        clock.advance(HOUR_MS // 6)
        schedule = CompactionSchedule(tmp_path, HOUR_MS, clock)
        due.append(schedule.is_due())
        if due[-1]:
            schedule.done()
    assert due == [*[False] * 6, True, *[False] * 5]


def test_a_clock_that_was_set_back_and_a_file_that_is_none_do_no_harm(tmp_path):
    (tmp_path / COMPACTED).write_text("whatever")
    clock = ManualClock(HOUR_MS)
    assert not CompactionSchedule(tmp_path, HOUR_MS, clock).is_due()
    assert CompactionSchedule(tmp_path, HOUR_MS, ManualClock(1)).is_due()
