"""The load is looked at now and then, and no more once it is stopped."""

from ottla.runtime.free_memory import FreeMemory
from ottla.runtime.timer import ManualTimer
from ottla.server.memory_return import INTERVAL_MS, MemoryReturn


def test_memory_is_given_back_after_a_peak_and_never_after_the_stop():
    timer, trims, load = ManualTimer(), [], [1_000]
    memory_return = MemoryReturn(timer, lambda: load[0], FreeMemory(lambda: trims.append(load[0])))
    memory_return.start()
    timer.advance(INTERVAL_MS)
    load[0] = 10
    timer.advance(INTERVAL_MS)
    assert trims == [10]
    load[0] = 5_000
    timer.advance(INTERVAL_MS)
    memory_return.stop()
    load[0] = 0
    timer.advance(10 * INTERVAL_MS)
    assert (trims, len(timer)) == ([10], 0)
