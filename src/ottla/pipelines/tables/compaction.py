"""Plans which small files of a table are merged, by their sizes."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from ottla.pipelines.tables.manifest import DataFile

FILES_MAX: Final = 10_000
"""The maximum number of files of one compaction; the next one merges the rest."""

_LARGE_ENOUGH: Final = 0.75
"""Of the target: a file of this size stays, as rewriting it would gain little."""


def plan(files: Iterable[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """Groups of two or more files of one partition that together are about `target_bytes`, oldest names first.

    >>> small = [DataFile(f"day=1/{n}.parquet", rows=1, bytes=40) for n in range(3)]
    >>> [[file.path for file in group] for group in plan([*small, DataFile("day=1/x", 1, 99)], target_bytes=100)]
    [['day=1/0.parquet', 'day=1/1.parquet']]
    """
    if target_bytes < 1:
        raise ValueError(f"files cannot be compacted to {target_bytes} bytes")
    small = [file for file in files if file.bytes < target_bytes * _LARGE_ENOUGH]
    small.sort(key=lambda file: (str(PurePosixPath(file.path).parent), file.path))
    groups: list[list[DataFile]] = []
    directory, size = "", 0
    for file in small[:FILES_MAX]:
        parent = str(PurePosixPath(file.path).parent)
        if not groups or parent != directory or size + file.bytes > target_bytes:
            groups.append([])
            directory, size = parent, 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]
