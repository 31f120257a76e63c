"""The cyclic garbage collector, tuned for a process that holds much and makes no cycles per request.

Python looks for cycles each time 700 more containers were made than freed. A broker with a thousand requests in flight
passes that mark all the time with nothing to find, and every so often the look goes over the whole heap, modules and
metadata included: measured, it took four fifths of the time of small pipelined requests.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NEW_OBJECTS: Final = 50_000
"""How many more containers are made than freed before the youngest are looked at."""
_keeping: list[None] = []


def look_less_often() -> None:
    """Have the collector look at far fewer moments. For the begin of a program: imports make no garbage to speak of.

    The second look at what stays follows the next first one, so that it goes over no more than two of those; the look
    at all there is, which takes long, comes after five thousand second ones.
    """
    gc.set_threshold(NEW_OBJECTS, 1, 5_000)


@contextmanager
def keeping_much() -> Iterator[None]:
    """While hundreds of thousands of objects are made that stay, in slices: the collector looks when it is told to, by
    `look_at_new` behind each slice, and so at few objects each time. For several at a time.
    """
    _keeping.append(None)
    gc.disable()
    try:
        yield
    finally:
        _keeping.pop()
        if not _keeping:
            gc.enable()


def look_at_new() -> None:
    """Look at what is new, which counts as old from then on."""
    gc.collect(1)


def settle() -> None:
    """Put everything there is out of the collector's sight, and have it look less often. For the end of a start.

    What became garbage during the start, a few hundred kilobytes, stays: to look for it costs as much as to open the
    data directory.
    """
    gc.freeze()
    look_less_often()
