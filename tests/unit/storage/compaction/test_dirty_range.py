"""Which part of a log is compacted, and when."""

import pytest

from ottla.storage.compaction.dirty_range import CompactionFacts, DirtyRange, dirty_range
from ottla.storage.log_config import LogConfig

NOW_MS = 10_000
SEGMENTS = [
    CompactionFacts(0, 100, 1_000, 500),
    CompactionFacts(10, 50, 2_000, 1_500),
    CompactionFacts(20, 50, 9_000, 2_500),
    CompactionFacts(30, 70, 9_500, 9_100),
]


def found(
    cleaned_up_to: int | None = None, log_start: int = 0, stable_end: int = 40, config: LogConfig | None = None
) -> DirtyRange:
    return dirty_range(
        SEGMENTS,
        cleaned_up_to=cleaned_up_to,
        log_start_offset=log_start,
        stable_end_offset=stable_end,
        now_ms=NOW_MS,
        config=config or LogConfig(),
    )


def test_everything_but_the_newest_segment_is_dirty_at_first():
    assert found() == DirtyRange(0, 30, 0, 200, is_overdue=False)
    assert found().ratio == 1


def test_what_an_earlier_pass_saw_is_clean():
    assert found(cleaned_up_to=20) == DirtyRange(20, 30, 150, 50, is_overdue=False)
    assert found(cleaned_up_to=30) == DirtyRange(30, 30, 200, 0, is_overdue=False)
    assert not found(cleaned_up_to=30).is_worth_a_pass(0)


def test_a_segment_of_which_a_part_was_seen_is_dirty():
    assert found(cleaned_up_to=15) == DirtyRange(15, 30, 100, 100, is_overdue=False)


@pytest.mark.parametrize("cleaned_up_to", [31, 5])
def test_a_checkpoint_that_cannot_be_this_logs_is_not_believed(cleaned_up_to: int):
    assert found(cleaned_up_to=cleaned_up_to, log_start=7).first_dirty == 7


def test_nothing_that_is_not_stable_is_touched():
    assert found(stable_end=29).uncleanable == 20
    assert found(stable_end=5) == DirtyRange(0, 0, 0, 0, is_overdue=False)


def test_young_records_stay_out_of_reach():
    assert found(config=LogConfig(min_compaction_lag_ms=1_500)).uncleanable == 20
    assert found(config=LogConfig(min_compaction_lag_ms=9_500)) == DirtyRange(0, 0, 0, 0, is_overdue=False)


def test_there_is_nothing_to_do_where_the_log_begins_within_a_segment_that_may_not_be_touched():
    assert found(log_start=5, stable_end=5) == DirtyRange(5, 5, 0, 0, is_overdue=False)
    lags = LogConfig(min_compaction_lag_ms=9_500, max_compaction_lag_ms=9_500)
    assert found(log_start=15, config=lags) == DirtyRange(15, 15, 100, 0, is_overdue=False)
    assert found(cleaned_up_to=15, stable_end=12) == DirtyRange(15, 15, 100, 0, is_overdue=False)


def test_a_young_segment_that_was_compacted_already_holds_nothing_up():
    config = LogConfig(min_compaction_lag_ms=9_500)
    assert found(cleaned_up_to=10, config=config) == DirtyRange(10, 10, 100, 0, is_overdue=False)


def test_an_old_dirty_record_makes_a_pass_due_whatever_the_ratio():
    config = LogConfig(max_compaction_lag_ms=8_000)
    assert found(cleaned_up_to=10, config=config).is_overdue
    assert found(cleaned_up_to=10, config=config).is_worth_a_pass(0.99)
    assert not found(cleaned_up_to=20, config=config).is_overdue


def test_the_ratio_must_be_passed():
    assert DirtyRange(0, 9, 50, 50, is_overdue=False).is_worth_a_pass(0.49)
    assert not DirtyRange(0, 9, 50, 50, is_overdue=False).is_worth_a_pass(0.5)
    assert DirtyRange(0, 0, 0, 0, is_overdue=False).ratio == 0
