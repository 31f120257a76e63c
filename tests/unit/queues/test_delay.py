"""Records that are delivered later: each once, in the order of their times, through crashes at any moment."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import DelayIndex, build_batch
from ottla.queues.delay import (
    BEFORE_ALL,
    DELAY_MAX_MS,
    BadDelayError,
    Progress,
    delivered_headers,
    due_ms,
    is_cancel,
    progress_of,
)
from ottla.queues.due_queue import DueQueue

DEFAULT_MS = 50
Headers = list[tuple[str, bytes | None]]
Record = tuple[int, bytes | None, bytes | None, Headers]

times = st.integers(0, 300).map(lambda ms: [("ottla-deliver-at", str(ms).encode())])
delays = st.integers(0, 200).map(lambda ms: [("ottla-delay", str(ms).encode())])
bad = st.sampled_from([b"", b"x", b"-1", b"1.5", None, b"9" * 19, str(DELAY_MAX_MS * 2).encode()]).map(
    lambda value: [("ottla-deliver-at", value)]
)
cancels: st.SearchStrategy[Headers] = st.just([("ottla-cancel", b"")])
headers = st.one_of(times, times, delays, st.just([]), bad, cancels)
records = st.lists(st.tuples(st.integers(0, 100), st.sampled_from([None, b"a", b"b", b"c"]), headers), max_size=40)


def batch(base_offset: int, given_records: list[Record]) -> bytes:
    return bytes(build_batch(given_records, base_offset=base_offset))


def new_index(progress: Progress, entries_max: int = 1_000) -> DelayIndex:
    return DelayIndex(
        default_delay_ms=DEFAULT_MS,
        entries_max=entries_max,
        moved_due=progress.due_ms,
        moved_offset=progress.offset,
        moved_end=progress.end,
    )


def read_again(progress: Progress, log: list[Record], entries_max: int) -> DueQueue:
    """As a leader that takes over does."""
    index = new_index(progress, entries_max)
    for offset in range(progress.low, len(log)):
        index.add(batch(offset, [log[offset]]), offset, [], 1 << 20)
    return DueQueue(index)


class Model:
    """What has to happen, from a plain list of the records."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[int, bytes | None]] = {}

    def append(self, offset: int, record: Record) -> None:
        timestamp, key, _, given_headers = record
        try:
            if is_cancel(key, given_headers):
                self.waiting = {each: entry for each, entry in self.waiting.items() if entry[1] != key}
                return
            due = due_ms(timestamp, given_headers, DEFAULT_MS)
        except BadDelayError:
            due = BEFORE_ALL
        self.waiting[offset] = (due, key)

    def take(self, now_ms: int) -> list[int]:
        due = sorted((due, offset) for offset, (due, _) in self.waiting.items() if due <= now_ms)
        for _, offset in due:
            del self.waiting[offset]
        return [offset for _, offset in due]


@settings(max_examples=300, deadline=None)
@given(records, st.data())
def test_each_record_is_moved_once_when_it_is_due_whatever_crashes(
    given_records: list[tuple[int, bytes | None, Headers]], data: st.DataObject
) -> None:
    log: list[Record] = [(timestamp, key, b"v", each) for timestamp, key, each in given_records]
    model, progress, moved = Model(), Progress(), []
    written = now_ms = position = 0
    queue = DueQueue(new_index(progress, entries_max=data.draw(st.sampled_from([4, 1_000]))))
    while written < len(log) or model.waiting:
        step = data.draw(st.sampled_from(["write", "time", "crash"])) if written < len(log) else "time"
        if step == "write":
            model.append(written, log[written])
            written += 1
        elif step == "crash":
            queue = read_again(progress, log[:position], data.draw(st.sampled_from([4, 1_000])))
        else:
            now_ms += data.draw(st.integers(1, 60)) if written < len(log) else 1_000
        for offset in range(position, written):
            queue.index.add(batch(offset, [log[offset]]), offset, [], 1 << 20)
        position = written
        expected = model.take(now_ms)
        got: list[int] = []
        while True:
            moved_to = (progress.due_ms, progress.offset)
            taken = queue.take(now_ms, moved_to, data.draw(st.integers(1, 5)))
            late = sum(each <= moved_to for each in taken)
            kept = data.draw(st.integers(max(late, min(1, len(taken))), len(taken)))
            queue.put_back(taken[kept:])
            if kept:
                got += [offset for _, offset in taken[:kept]]
                oldest = queue.oldest()
                low = position if oldest is None else oldest
                point = max(moved_to, taken[kept - 1])
                progress = progress_of(low, Progress(low, *point, position).metadata)
                if data.draw(st.booleans()):  # a crash after a transaction
                    queue = read_again(progress, log[:written], 1_000)
            elif queue.index.far_count and not len(queue) and queue.index.horizon_ms <= now_ms:
                queue = read_again(progress, log[:written], 1_000)
            else:
                break
        assert sorted(got) == sorted(expected)
        moved += got
    assert len(moved) == len(set(moved))


def test_one_batch_of_many_partitions_of_time_is_moved_in_the_order_of_due_time_and_offset() -> None:
    index = new_index(Progress())
    log: list[Record] = [(0, None, b"", [("ottla-deliver-at", str(at).encode())]) for at in (30, 10, 20, 10)]
    index.add(batch(0, log), 0, [], 1 << 20)
    assert index.next_due() == 10
    assert index.pop(9, BEFORE_ALL, -1, 10) == []
    assert index.pop(20, BEFORE_ALL, -1, 10) == [(10, 1), (10, 3), (20, 2)]
    assert index.oldest() == 0


def test_what_does_not_fit_in_memory_is_counted_and_the_nearest_are_kept() -> None:
    index = new_index(Progress(), entries_max=10)
    log: list[Record] = [(0, None, b"", [("ottla-deliver-at", str(1_000 - at).encode())]) for at in range(100)]
    index.add(batch(0, log), 0, [], 1 << 20)
    assert len(index) <= 10
    assert len(index) + index.far_count == 100
    assert index.oldest() == 0
    popped = index.pop(10_000, BEFORE_ALL, -1, 100)
    assert popped == [(901 + at, 99 - at) for at in range(len(popped))]
    assert all(due < index.horizon_ms for due, _ in popped)


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
