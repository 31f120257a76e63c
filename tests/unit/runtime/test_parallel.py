"""Many blocking calls at once, told as if they had been made one after the other."""

import threading

import pytest

from ottla.runtime.parallel import THREADS_MAX, map_in_threads


@pytest.mark.parametrize("count", [0, 1, 16, 17, 1000])
def test_results_come_in_the_order_of_the_items(count: int):
    assert map_in_threads(lambda item: item * 2, range(count)) == [item * 2 for item in range(count)]


def test_many_items_wait_together():
    meeting = threading.Barrier(THREADS_MAX, timeout=60)
    firsts = set(range(0, 16 * THREADS_MAX, 16))

    def wait_for_the_others(item: int) -> int:
        if item in firsts:
            meeting.wait()  # breaks after its time-out when not all of them are there at once
        return item

    assert len(map_in_threads(wait_for_the_others, range(16 * THREADS_MAX))) == 16 * THREADS_MAX


def test_so_many_threads_as_are_asked_for_take_an_item_each():
    meeting = threading.Barrier(3, timeout=60)
    assert (
        len(
            set(
                map_in_threads(
                    lambda _: (meeting.wait(), threading.get_ident())[1], range(3), threads=3, items_per_task=1
                )
            )
        )
        == 3
    )


def test_with_one_thread_that_is_the_callers():
    idents = map_in_threads(lambda _: threading.get_ident(), range(100), threads=1)
    assert set(idents) == {threading.get_ident()}


def test_a_failure_reaches_the_caller():
    def fail(item: int) -> int:
        if item == 500:
            raise OSError(5, "bad disk")
        return item

    with pytest.raises(OSError, match="bad disk"):
        map_in_threads(fail, range(1000))
