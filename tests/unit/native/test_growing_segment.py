"""What the kernel knows of a segment that grows: when an index entry is due, and where the latest batches lie."""

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import IndexProgress, RecentBatches

KEPT_MIN, KEPT_MAX = 1024, 2048


class Listed:
    """All batches, asked in the plainest way."""

    def __init__(self, end: int) -> None:
        self.batches: list[tuple[int, int, int]] = []
        """Base offset, position, size."""
        self.end = end

    def add(self, base_offset: int, size: int) -> None:
        self.batches.append((base_offset, self.end, size))
        self.end += size

    def containing(self, offset: int) -> tuple[int, int] | None:
        found = [each[1:] for each in self.batches if each[0] <= offset]
        return found[-1] if found else None

    def position_from(self, offset: int) -> int | None:
        if not self.batches or offset < self.batches[0][0]:
            return None
        return min([each[1] for each in self.batches if each[0] >= offset], default=self.end)

    def position_at(self, position: int) -> int | None:
        return max((each[1] for each in self.batches if each[1] <= position), default=None)

    def offset_from(self, position: int) -> int | None:
        if not self.batches or position < self.batches[0][1]:
            return None
        return min((each[0] for each in self.batches if each[1] >= position), default=None)


def assert_alike(recent: RecentBatches, listed: Listed) -> None:
    assert recent.end_position == listed.end
    offsets = [each[0] for each in listed.batches] or [0]
    positions = [each[1] for each in listed.batches] or [0]
    for offset in {near for each in (*offsets[:3], *offsets[-3:]) for near in range(each - 2, each + 3)}:
        assert recent.containing(offset) == listed.containing(offset)
        assert recent.position_from(offset) == listed.position_from(offset)
    for position in {
        near for each in (*positions[:3], *positions[-3:], listed.end) for near in (each - 1, each, each + 1)
    }:
        if position >= 0:
            assert recent.position_at(position) == listed.position_at(position)
            assert recent.offset_from(position) == listed.offset_from(position)


@given(
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 100_000)), max_size=20),
)
def test_recent_batches_are_found_as_in_a_list_of_all(end: int, offset: int, batches: list[tuple[int, int]]) -> None:
    recent, listed = RecentBatches(end), Listed(end)
    assert_alike(recent, listed)
    for count, size in batches:
        recent.add(offset, size)
        listed.add(offset, size)
        offset += count
    assert_alike(recent, listed)


def test_of_many_batches_the_latest_are_remembered() -> None:
    recent, listed = RecentBatches(0), Listed(0)
    for number in range(5 * KEPT_MIN):
        recent.add(10 * number, 7)
        listed.add(10 * number, 7)
        oldest = next(each[0] for each in listed.batches if recent.containing(each[0]) is not None)
        del listed.batches[: bisect_right(listed.batches, (oldest,))]
        assert len(listed.batches) == number + 1 or KEPT_MIN <= len(listed.batches) <= KEPT_MAX
    assert_alike(recent, listed)
    assert recent.containing(0) is None
    assert recent.position_at(0) is None


@pytest.mark.parametrize("interval", [0, 100])
def test_an_entry_is_due_before_the_first_batch_after_more_than_the_interval(interval: int) -> None:
    progress = IndexProgress(interval, -1, 0)
    assert not progress.add(60, 9, 5, interval), "not more than that yet"
    assert progress.add(60, 19, 4, interval)
    assert progress.add(70, 29, 7, interval) is (interval < 60)
    assert progress.add(70, 39, 7, interval)
    assert progress.max_timestamp == (7, 29), "the first that has it"
    assert IndexProgress(1 << 63, -1, 0).add((1 << 64) - 1, 0, 0, 0)
