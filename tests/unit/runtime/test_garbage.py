"""When the collector looks for cycles."""

from __future__ import annotations

import gc
from weakref import ref

from ottla.runtime.garbage import keeping_much, look_at_new


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_while_much_is_made_that_stays_the_collector_looks_when_it_is_told_to() -> None:
    with keeping_much():
        with keeping_much():
            assert not gc.isenabled()
        assert not gc.isenabled()
        gone = ref(_Cycle())
        look_at_new()
        assert gone() is None
    assert gc.isenabled()
