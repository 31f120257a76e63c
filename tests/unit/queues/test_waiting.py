"""What waits in a delay topic, found out by reading it."""

from __future__ import annotations

from ottla.queues.delay import CANCEL, DELAY, DELIVER_AT, SCHEDULED, Headers, Progress
from ottla.queues.waiting import Waiting, WaitingReader

RECORDS: list[tuple[bytes | None, Headers]] = [
    (b"a", [(DELAY, b"500")]),
    (b"b", [(DELIVER_AT, b"90")]),
    (None, []),
    (b"a", [(CANCEL, None)]),
    (b"a", [(DELAY, b"700")]),
    (b"b", [(DELAY, b"soon")]),
    (b"a", [(DELAY, b"800"), (SCHEDULED, b"2")]),
    (None, [(CANCEL, b"")]),
]
"""Of time 100. 3 cancels 0, and 6, which was written by who had not read that."""


def waiting(progress: Progress, key: bytes | None = None) -> list[Waiting]:
    reader = WaitingReader(7, progress, 50, key=key)
    for offset, (each, headers) in enumerate(RECORDS):
        reader.take(offset, 100, each, b"value", headers)
    return reader.waiting()


def test_what_is_cancelled_or_moved_does_not_wait() -> None:
    assert waiting(Progress()) == [
        Waiting(90, 7, 1, b"b", 5),
        Waiting(150, 7, 2, None, 5),
        Waiting(800, 7, 4, b"a", 5),
        Waiting(None, 7, 5, b"b", 5),
        Waiting(None, 7, 7, None, 5),
    ]
    moved = Progress(0, 150, 2, 6)
    assert [each.offset for each in waiting(moved)] == [4, 7]


def test_who_asks_for_a_key_is_told_of_that_one_alone() -> None:
    assert [each.offset for each in waiting(Progress(), b"a")] == [4]
    assert [each.offset for each in waiting(Progress(), b"b")] == [1, 5]
    assert waiting(Progress(), b"") == []
