"""What a test can do with any client library.

Each client stays as it is; where libraries differ in what they can do, the face says so (`codecs`, `assignors`,
`has_static_membership`), and tests ask for what is there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

PATIENCE_S = 180
"""How long anything may take to come."""
BEGINNING = -2
END = -1


class Record(NamedTuple):
    """A record to be written, or one that was read; the offset of the first kind is not known."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 1_700_000_000_000
    offset: int = -1


class Reader(Protocol):
    """Reads all partitions of a topic without sharing them with anyone."""

    def poll(self) -> list[Record]:
        """What has come; waits a moment when that is nothing."""

    def seek(self, partition: int, offset: int) -> None:
        """Go on from another offset."""

    def pause(self, partition: int) -> None:
        """Read no more of a partition."""

    def resume(self, partition: int) -> None:
        """Go on where `pause` left off."""

    def close(self) -> None:
        """End it."""


class Member(Protocol):
    """A member of a group; does not commit by itself."""

    @property
    def rebalances(self) -> int:
        """How often it was given an assignment."""

    def poll(self) -> list[bytes]:
        """The values that have come; waits a moment when there are none."""

    def assignment(self) -> set[int]:
        """The partitions it has now."""

    def commit(self, metadata: str = "") -> None:
        """Commit what was polled, with a note."""

    def close(self) -> None:
        """End it; it leaves the group unless it is a static member."""


class Client(Protocol):
    """A client library against one broker."""

    codecs: tuple[str, ...]
    assignors: tuple[str, ...]
    has_static_membership: bool
    note_ends_with: str
    """What it puts behind the metadata of a commit: librdkafka's Python face counts the zero byte of C."""
    late_time_is_end: bool
    """Whether it answers with the end of the log for a time after the last record; the protocol's answer is -1."""

    def produce(
        self, topic: str, records: Sequence[Record], *, acks: str = "all", idempotent: bool = False, codec: str = "none"
    ) -> list[int]:
        """Write records in order and return when they are acknowledged; their offsets, -1 where the client has none."""

    def reader(self, topic: str, partitions: int = 1, start: int = BEGINNING) -> Reader:
        """Read from an offset, BEGINNING or END of every partition."""

    def ends(self, topic: str) -> tuple[int, int]:
        """The first offset of partition 0, and the one after the last."""

    def offsets_for_times(self, topic: str, times: Sequence[int]) -> list[int]:
        """The first offset in partition 0 at or after each time."""

    def member(self, group: str, topic: str, assignor: str, instance_id: str = "") -> Member:
        """Join a group that begins at the beginning."""

    def close(self) -> None:
        """End it."""


def take(reader: Reader, count: int) -> list[Record]:
    """Read until there are `count` records, by partition and offset. More is an error of the test or of the broker."""
    deadline = time.monotonic() + PATIENCE_S
    records: list[Record] = []
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records came"
        records += reader.poll()
    assert len(records) == count
    return sorted(records, key=lambda record: (record.partition, record.offset))
