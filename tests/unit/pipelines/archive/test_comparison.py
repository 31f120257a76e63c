"""A restored log against its archive: which offsets differ, and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.consuming.offsets import IsolationLevel
from ottla.pipelines.archive import comparison, running
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.comparison import ComparedPartition, compare
from ottla.runtime.clock import ManualClock
from tests.unit.pipelines.archive.model_cluster import ModelCluster

OFFSETS = [*range(10, 20), 24, *range(30, 40)]


def record(offset: int) -> tuple:
    key = None if offset % 3 == 0 else b"k%d" % offset
    value = None if offset % 5 == 0 else b"v%d" % offset
    return (offset * 10, key, value, [("h", b"%d" % offset), ("h", None)] if offset % 2 else [])


def log(records: dict[int, tuple], *, parts: int = 4, start: int = 10) -> ModelCluster:
    """A log of these records by offset, so many in a batch."""
    cluster, offsets = ModelCluster(start=start, end=start), sorted(records)
    for first in range(0, len(offsets), parts):
        some = offsets[first : first + parts]
        cluster.append(*(records[offset] for offset in some), offsets=some)
    return cluster


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Of two files, read three rows at a time, so that batches of both sides never have the same borders."""
    monkeypatch.setattr(comparison, "_ROWS", 3)
    records = {offset: record(offset) for offset in OFFSETS}
    found = Archive.open_or_create(str(tmp_path / "archive"), "model")
    with found.locked():
        for end in (20, 40):
            cluster = log({offset: each for offset, each in records.items() if offset < end})
            running.run(found, cluster, (), ManualClock(5), file_bytes=1 << 20)
    return found


def compared(
    archive: Archive, changes: dict[int, tuple | None], *, end: int = 40, start: int = 10
) -> ComparedPartition:
    """With a log that has other records at some offsets, or none."""
    records = {offset: record(offset) for offset in OFFSETS} | changes
    kept = {offset: each for offset, each in records.items() if each is not None}
    return held_against(archive, log(kept, parts=5, start=start), end)


def held_against(archive: Archive, cluster: ModelCluster, end: int = 0) -> ComparedPartition:
    cluster.isolation = IsolationLevel.READ_UNCOMMITTED
    [topic] = archive.topics()
    return compare(archive, "t", topic.partitions[0], cluster, cluster.start, max(end, cluster.end))


def test_a_log_of_the_same_records_is_equal(archive):
    assert compared(archive, {}) == ComparedPartition("t", 0, 10, 40, len(OFFSETS))


stamp, key, value, headers = record(13)


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({13: (stamp, key, value + b"!", headers)}, "offset 13: not as archived: value"),
        ({13: (stamp, b"", value, headers)}, "offset 13: not as archived: key"),
        ({13: (stamp + 1, key, value, headers)}, "offset 13: not as archived: timestamp"),
        ({13: (stamp, key, value, headers[::-1])}, "offset 13: not as archived: headers"),
        ({12: (stamp, b"", value, headers)}, "offset 12: not as archived: key, value, timestamp, headers"),
        ({15: (150, None, b"", record(15)[3])}, "offset 15: not as archived: value"),
        (
            {13: record(14), 14: record(13)},
            "offsets 13 to 14: not as archived: key, value, timestamp, headers",
        ),
        ({39: (1, b"", b"", [])}, "offset 39: not as archived: key, value, timestamp, headers"),
        ({24: None}, "offset 24: the log lacks records of the archive"),
        ({10: None}, "offset 10: the log lacks records of the archive"),
        ({39: None}, "offset 39: the log lacks records of the archive"),
        ({22: record(22)}, "offset 22: the log has records that the archive does not have"),
        ({40: record(40)}, "offset 40: the log has records that the archive does not have"),
        ({40: record(40), 41: record(41)}, "offsets 40 to 41: the log has records that the archive does not have"),
    ],
    ids=repr,
)
def test_the_first_offsets_that_differ_are_named(archive, changes, difference):
    found = compared(archive, changes, end=40 if 39 not in changes or changes[39] else 39)
    assert found.difference == difference


def test_a_log_that_begins_or_ends_elsewhere_differs_though_its_records_are_equal(archive):
    found = compared(archive, {}, start=7)
    assert found.difference == "the log has offsets 7 to 40, and should have offsets 10 to 40"


def test_a_log_that_cannot_be_decoded_differs_from_there_on(archive):
    cluster = log({offset: record(offset) for offset in OFFSETS}, parts=5)
    first, last, data = cluster.batches[1]
    cluster.batches[1] = (first, last, data[:61] + b"\xff" * 20 + data[81:])
    difference = held_against(archive, cluster).difference
    assert difference is not None
    assert difference.startswith("offset 15: the log cannot be decoded: ")
