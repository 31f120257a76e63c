"""The cyclic garbage collector, tuned for a process that holds much and makes no cycles per request.

Python looks for cycles each time 700 more containers were made than freed. A broker with a thousand requests in flight
passes that mark all the time with nothing to find, and every so often the look goes over the whole heap, modules and
metadata included: measured, it took four fifths of the time of small pipelined requests.
"""

import gc
from typing import Final

NEW_OBJECTS: Final = 50_000
"""How many more containers are made than freed before the youngest are looked at."""


def settle() -> None:
    """Put everything there is out of the collector's sight, and have it look less often. For the end of a start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 50)
