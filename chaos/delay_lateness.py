"""How late records of a delay topic came, by what was done when they were due.

fault        |----------------|
due, came   x-X    x-----X       x-X          while led, during the fault, while led
                      x---------->---X        after the fault: from its end on
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

WHILE_LED: Final = "while led"
DURING: Final = "during a fault"


class Outage(NamedTuple):
    """From the beginning of a fault until all partitions had leaders that run."""

    start_ms: int
    end_ms: int
    deed: str


def lateness(
    found: Iterable[tuple[str, int]], there: Mapping[str, int], outages: Sequence[Outage]
) -> dict[str, list[int]]:
    """How late records were that were due while all partitions were led, or came during a fault, both after their time;
    and those that came after one for which they had waited, by what was done, after its end.

    `found` are values, which end with `@` and when they are due, and when they came; `there` is from when on they could
    be delivered: one that was written after its time is due then. All in milliseconds.
    """
    late: dict[str, list[int]] = {WHILE_LED: []}
    for value, came_ms in found:
        if value not in there:
            continue
        due = min(came_ms, max(int(value.rpartition("@")[2]), there[value]))
        over = [each for each in outages if each.start_ms <= came_ms and due <= each.end_ms]
        if not over:
            late[WHILE_LED].append(came_ms - due)
        elif came_ms <= over[-1].end_ms:
            late.setdefault(DURING, []).append(came_ms - due)
        else:
            late.setdefault(f"after {over[-1].deed}", []).append(came_ms - over[-1].end_ms)
    return late
