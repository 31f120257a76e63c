"""The history of a replicated log for `anomalies.check`: what clients saw, and the final replicas.

It is for simulated and real clusters: record every response that a client got, read everything at the end, and check
it. Times are from one clock that all clients share. A time of 0 is unknown, and anomalies that need it are not found.

    send   invoked ----------------- completed: OK at an offset | FAIL, certainly not there | UNKNOWN, nobody knows
    poll   invoked -- records of a partition from one broker, with the high watermark it named -- completed
    final  what each replica holds when everything has healed

A send without a response may have happened or not: its value may exist or not, but only once, in its place. A response
that says that the send did not happen is certain: FAIL for a send that may have happened gives false findings.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

Partition = tuple[str, int]
"""A topic and a number."""


class Outcome(Enum):
    """What a client knows of the outcome of a request."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Send(Struct, frozen=True):
    """One value, which nobody else sends, from a producer that numbers its own from 0 for each partition."""

    producer: str
    number: int
    partition: Partition
    value: str
    outcome: Outcome
    offset: int = -1
    """Of the acknowledgement."""
    node: int = -1
    """The broker that answered, and its leader epoch, as far as they are known."""
    leader_epoch: int = -1
    invoked: float = 0
    completed: float = 0


class Poll(Struct, frozen=True):
    """Records of one partition that a reader got from one broker; `sought` when it was told where to read.

    The leader epoch is left at -1 for what a follower gave: its high watermark may fall when it is started anew.
    """

    reader: str
    partition: Partition
    records: tuple[tuple[int, str], ...]
    """Offsets and values."""
    node: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    sought: bool = False
    invoked: float = 0
    completed: float = 0


class Commit(Struct, frozen=True):
    """A group's offset for a partition: committed, or, with `is_fetch`, asked for."""

    group: str
    partition: Partition
    offset: int
    outcome: Outcome
    is_fetch: bool = False
    invoked: float = 0
    completed: float = 0


class History(Struct, frozen=True):
    """What clients saw, each list in the order of invocations, and the final content of the replicas.

    `final` has for each partition its replicas, by broker, each as offsets and values. Without `is_idempotent` a value
    may be there twice, and behind one that was sent later.
    """

    sends: Sequence[Send] = ()
    polls: Sequence[Poll] = ()
    commits: Sequence[Commit] = ()
    final: Mapping[Partition, Mapping[int, Sequence[tuple[int, str]]]] = {}
    is_idempotent: bool = True
