"""Memory goes back to the system after a peak, and is not looked for otherwise."""

import pytest

from ottla.runtime.free_memory import FreeMemory, system_trim


@pytest.mark.parametrize(
    ("loads", "trims"),
    [
        ([0, 0, 0], 0),
        ([1_000, 1_000], 0),
        ([1_000, 600, 501], 0),
        ([1_000, 500], 1),
        ([1_000, 500, 400, 251, 250], 2),
        ([1_000, 500, 600, 300, 300], 2),
        ([200, 0], 0),
        ([10_000, 0, 0, 0], 1),
    ],
)
def test_it_is_given_back_once_when_the_load_has_halved(loads: list[int], trims: int):
    done: list[None] = []
    memory = FreeMemory(lambda: done.append(None))
    for load in loads:
        memory.look(load)
    assert len(done) == trims


def test_where_the_system_cannot_nothing_is_done():
    memory = FreeMemory(None)
    assert [memory.look(load) for load in (1_000, 0)] == [False, False]


def test_the_call_of_this_system_can_be_made():
    trim = system_trim()
    if trim is not None:
        trim()
