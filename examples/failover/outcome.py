"""What came of it, in seconds since the broker was killed."""

import itertools
from dataclasses import dataclass

from examples.failover.load import Load


@dataclass(frozen=True, slots=True)
class Outcome:
    """What clients saw."""

    title: str
    sent_s: list[float]
    """When each acknowledged record was sent, and in `took_ms` how long its acknowledgement took."""
    took_ms: list[float]
    acknowledged_s: list[float]
    read_s: list[float]
    events: list[tuple[float, str]]
    lost: int
    """Acknowledged and not read."""
    doubled_in_log: int
    gap_s: float
    """The longest time after the kill without an acknowledged write."""

    @property
    def span_s(self) -> tuple[float, float]:
        """From the first record to the last."""
        return min(self.sent_s), max(self.acknowledged_s)


def outcome_of(load: Load, killed: float, events: list[tuple[float, str]], end_offsets: int, title: str) -> Outcome:
    """`killed` and the times of `events` are on the monotonic clock, as those of the load; `end_offsets` is how many
    records the partitions hold."""
    acknowledged = sorted(load.acknowledged.values())
    after = [killed, *(each for each in acknowledged if each > killed)]
    return Outcome(
        title=title,
        sent_s=[load.sent[number] - killed for number in load.acknowledged],
        took_ms=[(at - load.sent[number]) * 1000 for number, at in load.acknowledged.items()],
        acknowledged_s=[each - killed for each in acknowledged],
        read_s=[each - killed for each in load.read_at],
        events=[(at - killed, what) for at, what in events],
        lost=len(load.acknowledged.keys() - load.read.keys()),
        doubled_in_log=end_offsets - len(load.acknowledged),
        gap_s=max(later - earlier for earlier, later in itertools.pairwise(after)),
    )
