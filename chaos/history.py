r"""Everything that was asked of a broker and what came of it, as whoever asked saw it.

    invoke ---> ok        the broker said that it is done
           \--> fail      the broker said that it is not, and will not be
            \-> unknown   nobody said: it may have happened, or may yet

Times are seconds on one clock for the whole run.
"""

from dataclasses import dataclass, field
from math import inf

from ottla.simulation.history import Outcome, Partition
from workload.payload import Payload


@dataclass(slots=True)
class Send:
    """One record given to a producer; `offset` is where the broker said it lies."""

    payload: Payload
    partition: Partition
    invoked_at: float
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    completed_at: float = inf


@dataclass(slots=True)
class Commit:
    """One committed offset of a group. A group's partition has one committer at a time, which never goes back."""

    group: str
    partition: Partition
    offset: int
    invoked_at: float
    outcome: Outcome = Outcome.UNKNOWN
    completed_at: float = inf


@dataclass(slots=True)
class Delivery:
    """Records that a member of a group was given of one partition, from when it got the partition on."""

    group: str
    partition: Partition
    assigned_at: float
    records: list[tuple[int, Payload | None]] = field(default_factory=list)
    """Offset and content; None for a value that is none of ours or was changed."""


@dataclass(slots=True)
class CommittedOffset:
    """What a group was told when it asked for its committed offset; None: that there is none."""

    group: str
    partition: Partition
    offset: int | None
    invoked_at: float


@dataclass(slots=True)
class TopicCreation:
    """A topic that was asked for, with so many partitions."""

    topic: str
    partition_count: int
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class History:
    """One run. What a list holds was added in the order of invocation, by whichever thread."""

    sends: list[Send] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    committed_offsets: list[CommittedOffset] = field(default_factory=list)
    topic_creations: list[TopicCreation] = field(default_factory=list)


@dataclass(slots=True)
class FinalState:
    """What is there at the end, read by somebody who checks every CRC."""

    records: dict[Partition, list[tuple[int, Payload | None]]]
    """Offset and content of every record of every partition, in the order in which they were read."""
    topics: dict[str, int]
    """Partition count by topic."""
