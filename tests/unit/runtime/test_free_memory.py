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


class Library:
    """A C library that can trim."""

    def __init__(self) -> None:
        self.trimmed: list[int] = []
        library = self

        class Call:
            argtypes: tuple[object, ...] = ()

            def __call__(self, keep: int) -> None:
                library.trimmed.append(keep)

        self.malloc_trim = Call()


def test_the_whole_heap_is_trimmed(monkeypatch: pytest.MonkeyPatch):
    library = Library()
    monkeypatch.setattr("ctypes.CDLL", lambda _: library)
    system_trim()
    assert library.trimmed == [0]


def test_where_the_system_has_no_such_call_nothing_is_done(monkeypatch: pytest.MonkeyPatch):
    asked = []

    def library(name: object) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr("ctypes.CDLL", library)
    system_trim()
    assert asked == [None]


def test_the_call_of_this_system_can_be_made():
    system_trim()
