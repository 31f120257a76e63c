"""Records that are delivered later: what their headers say, and how far a delay topic is."""

from __future__ import annotations

import pytest

from ottla.queues.delay import (
    BEFORE_ALL,
    DELAY_MAX_MS,
    DELAYS_MAX,
    BadDelayError,
    Progress,
    delivered_headers,
    due_ms,
    progress_of,
)

Headers = list[tuple[str, bytes | None]]


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"1e3", None, b"9" * 30, str(DELAY_MAX_MS + 1).encode()])
def test_a_time_that_cannot_be_is_told(value: bytes | None) -> None:
    with pytest.raises(BadDelayError, match=r"decimal digits|ten years"):
        due_ms(0, [("ottla-deliver-at", value)], 0)


def test_the_headers_that_said_when_are_not_delivered() -> None:
    given_headers: Headers = [("a", b"1"), ("ottla-delay", b"5"), ("ottla-deliver-at", b"5")]
    assert delivered_headers(given_headers) == [("a", b"1")]


def test_an_offset_that_somebody_else_committed_begins_anew_from_there() -> None:
    assert progress_of(7, "by hand") == Progress(7, BEFORE_ALL, -1, 7)
    assert not progress_of(7, "").has_moved(5, 8)
    assert progress_of(7, f"{1 << 63}:1:1") == Progress(7, BEFORE_ALL, -1, 7)


def test_in_a_log_that_was_cut_what_is_appended_anew_is_looked_at_and_waits() -> None:
    delivered = Progress(low=10, due_ms=500, offset=9, end=10)
    assert delivered.cut_at(10) == delivered
    cut = delivered.cut_at(4)
    assert cut.low == 4, "or the first records that come next would never be read"
    assert cut.has_moved(400, 3)
    assert not cut.has_moved(400, 4)


def test_another_default_delay_is_that_of_records_that_were_not_looked_at() -> None:
    progress = Progress(low=5, due_ms=500, offset=9, end=10).with_default_delay(100)
    changed = progress_of(5, progress.with_default_delay(30).metadata)
    assert [changed.delay_at(offset) for offset in (5, 9, 10, 11)] == [100, 100, 30, 30]
    assert changed.delays_between(0, 12) == [[0, 100], [10, 30]]
    assert changed.with_default_delay(70).delay_at(10) == 70, "nothing was looked at between"
    assert changed._replace(low=10).with_default_delay(30).delays == ((10, 30),)
    assert changed.cut_at(4).delay_at(4) == 30


def test_too_many_changes_of_the_delay_wait_for_records_that_are_older() -> None:
    progress = Progress(low=0, end=1)
    for change in range(100):
        progress = progress.with_default_delay(change)._replace(end=change + 2)
    assert len(progress.delays) == DELAYS_MAX
    assert len(progress.metadata) < 4_096
