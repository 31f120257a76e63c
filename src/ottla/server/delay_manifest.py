"""Which bucket files a partition of a delay topic has: the file `manifest` beside them.

A checksum (CRC-32C, eight hex digits), a space, and JSON. What does not agree with it is no manifest: the files are a
copy of what is in the log, and are written again.
"""

from typing import Final, NamedTuple

from msgspec import Struct, ValidationError, field
from msgspec.json import decode, encode

from ottla.native import crc32c

NAME: Final = "manifest"
_CHECKSUM_CHARS: Final = 9


class BucketRun(Struct):
    """All records of a range of offsets that waited, in files."""

    number: int
    start: int
    end: int
    epoch: int
    """The leader epoch of the last record before `end`: a log that has another one there was cut."""
    delays: list[list[int]]
    """The default delays that it was read with (`Progress.delays_between`)."""
    files: list[str]


class Manifest(Struct):
    """All runs, in the order of their offsets; `moved` is the progress when it was written."""

    seed: tuple[int, int]
    next_number: int = 0
    moved: tuple[int, int, int] = (0, 0, 0)
    runs: list[BucketRun] = field(default_factory=list)


class Validity(NamedTuple):
    """What the log says of some runs."""

    kept: list[BucketRun]
    reason: str
    """Why others are not kept; empty when all are."""


def manifest_bytes(manifest: Manifest) -> bytes:
    """The content of the file."""
    data = encode(manifest)
    return b"%08x " % crc32c(data) + data


def manifest_of(content: bytes) -> Manifest | None:
    """What the file has, None when it is damaged."""
    data = content[_CHECKSUM_CHARS:]
    if content[:_CHECKSUM_CHARS] != b"%08x " % crc32c(data):
        return None
    try:
        return decode(data, type=Manifest)
    except ValidationError:  # of another version
        return None
