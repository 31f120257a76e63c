"""The first of the transactions that hold readers of committed records back, against a list of all of them."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.unstable_transactions import UnstableTransactions


def test_a_transaction_is_unstable_until_its_marker_is_committed():
    unstable = UnstableTransactions()
    assert (unstable.count, unstable.first_offset) == (0, None)
    unstable.begin(10)
    unstable.committed(11)
    assert unstable.first_offset == 10
    assert unstable.end(10, 20) == 21
    unstable.committed(20)
    assert unstable.first_offset == 10
    unstable.committed(21)
    assert (unstable.count, unstable.first_offset) == (0, None)


def test_what_is_open_when_a_transaction_ends_bounds_the_last_stable_offset():
    unstable = UnstableTransactions([3, 1])
    unstable.begin(7)
    assert unstable.end(1, 9) == 3
    assert unstable.end(7, 10) == 3
    assert unstable.end(3, 11) == 12
    assert (unstable.open_count, unstable.count) == (0, 3)


@given(st.lists(st.one_of(st.just("begin"), st.integers(0, 20), st.just("commit")), max_size=60))
def test_the_oldest_is_found_whatever_ends_in_which_order(steps: list[str | int]):
    unstable, committed = UnstableTransactions(), 0
    begun: dict[int, int | None] = {}
    for offset, step in enumerate(steps):
        if step == "begin":
            unstable.begin(offset)
            begun[offset] = None
        elif step == "commit":
            committed = offset
            unstable.committed(committed)
        else:
            running = [first for first, last in begun.items() if last is None]
            if running:
                first = running[int(step) % len(running)]
                stable = unstable.end(first, offset)
                begun[first] = offset
                assert stable == min((each for each, last in begun.items() if last is None), default=offset + 1)
        alive = [first for first, last in begun.items() if last is None or last >= committed]
        assert unstable.first_offset == min(alive, default=None)
        assert unstable.count == len(alive)
