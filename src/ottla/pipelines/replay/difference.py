"""Compares two sets of keyed rows in bounded memory: keys on one side only, and keys with different rows.

Both sides are spread over files by a hash of the key, so that all rows of a key are in one pair of files; pair by pair
they are compared in memory:

```
  here  ──hash(key)──>  0.here 1.here ... 63.here
                           |      |
  there ──hash(key)──>  0.there 1.there ... 63.there
```

Of each row only a digest of its value is kept, with the first bytes of it for examples. A key may have many rows: they
are equal when the same rows are there as often, in any order; or, with `newest`, when the last row of each is the same,
as for a topic of updates. There a key whose last row has no value is not there: compaction may have removed it already.

A side may be cut: the beginning of its log was deleted. What it lacks may have been in there, so nothing is said of it
but that it is unknown: a key of the other side alone, and a key of which the other side has more rows.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, Self

from msgspec import Struct

Row = tuple[bytes | None, bytes | None]
"""Key and value."""
Side = Literal["here", "there"]

BUCKETS: Final = 64
"""The number of files of each side. Of 100 million keys a pair has 1.5 million: about 0.5 GB of memory."""
EXAMPLES_MAX: Final = 10
"""The default number of examples of each kind of difference."""
EXAMPLE_BYTES: Final = 120
"""The maximum number of bytes of a shown value."""

_HEAD: Final = struct.Struct("<iih")
_DIGEST_BYTES: Final = 16


class Example(Struct, frozen=True):
    """A key that differs, with the first bytes of a row of each side; None if a side has no row."""

    key: bytes | None
    here: bytes | None
    there: bytes | None


class Difference(Struct):
    """The result of a comparison. It counts keys, except for `rows`."""

    rows_here: int = 0
    rows_there: int = 0
    equal: int = 0
    only_here: int = 0
    only_there: int = 0
    different: int = 0
    unknown: int = 0
    """Keys whose missing rows may have been deleted with the beginning of a log."""
    examples: dict[str, list[Example]] = {}
    """By `only_here`, `only_there`, `different` and `unknown`."""

    @property
    def is_empty(self) -> bool:
        """Whether both sides are equal."""
        return not (self.only_here or self.only_there or self.different or self.unknown)


class Comparison:
    """Collects the rows of both sides, in any order, and compares them once. `directory` must be empty."""

    def __init__(self, directory: Path, *, newest: bool = False, examples_max: int = EXAMPLES_MAX) -> None:
        self._directory = directory
        self._newest = newest
        self._examples_max = examples_max
        self._cut: set[Side] = set()
        self._files: dict[Side, list[BinaryIO]] = {
            side: [self._path(bucket, side).open("wb") for bucket in range(BUCKETS)] for side in ("here", "there")
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def add(self, side: Side, rows: Iterable[Row]) -> None:
        """Adds rows of one side. Raises OSError if the disk is full."""
        files = self._files[side]
        for key, value in rows:
            digest = hashlib.blake2b(value or b"", digest_size=_DIGEST_BYTES).digest()
            bucket = hashlib.blake2b(key or b"", digest_size=1).digest()[0] % BUCKETS
            shown = b"" if value is None else value[:EXAMPLE_BYTES]
            key_length = -1 if key is None else len(key)
            files[bucket].write(_HEAD.pack(key_length, -1 if value is None else len(value), len(shown)))
            files[bucket].write((key or b"") + digest + shown)

    def cut(self, side: Side) -> None:
        """Notes that the start of a side's log is deleted."""
        self._cut.add(side)

    def compare(self) -> Difference:
        """Compares both sides. No rows can be added afterwards."""
        self._close()
        found = Difference(examples={"only_here": [], "only_there": [], "different": [], "unknown": []})
        for bucket in range(BUCKETS):
            self._compare(bucket, found)
        return found

    def _compare(self, bucket: int, found: Difference) -> None:
        here, rows = self._read(bucket, "here")
        found.rows_here += rows
        there, rows = self._read(bucket, "there")
        found.rows_there += rows
        for key, digests in here.items():
            others = there.pop(key, None)
            if others is None:
                self._count(
                    found, "unknown" if "there" in self._cut else "only_here", Example(key, _shown(digests), None)
                )
            elif digests == others:
                found.equal += 1
            else:
                mine, theirs = next(iter(digests - others), None), next(iter(others - digests), None)
                shown = (None if mine is None else mine.shown, None if theirs is None else theirs.shown)
                is_cut = (mine is None and "here" in self._cut) or (theirs is None and "there" in self._cut)
                self._count(found, "unknown" if is_cut else "different", Example(key, *shown))
        for key, digests in there.items():
            self._count(found, "unknown" if "here" in self._cut else "only_there", Example(key, None, _shown(digests)))

    def _count(self, found: Difference, kind: str, example: Example) -> None:
        setattr(found, kind, getattr(found, kind) + 1)
        if len(found.examples[kind]) < self._examples_max:
            found.examples[kind].append(example)

    def _read(self, bucket: int, side: Side) -> "tuple[dict[bytes | None, Counter[_Digest]], int]":
        found: dict[bytes | None, Counter[_Digest]] = {}
        rows = 0
        for key, digest in _rows(self._path(bucket, side)):
            rows += 1
            if self._newest and digest.length < 0:
                found.pop(key, None)
            elif self._newest:
                found[key] = Counter((digest,))
            else:
                found.setdefault(key, Counter())[digest] += 1
        return found, rows

    def _path(self, bucket: int, side: Side) -> Path:
        return self._directory / f"{bucket}.{side}"

    def _close(self) -> None:
        for files in self._files.values():
            for file in files:
                file.close()


class _Digest(Struct, frozen=True):
    """A value: how long it is (-1: null), what it hashes to, and its first bytes."""

    length: int
    digest: bytes
    head: bytes

    @property
    def shown(self) -> bytes | None:
        """The first bytes; None for null."""
        return None if self.length < 0 else self.head


def _shown(digests: "Counter[_Digest]") -> bytes | None:
    return next(iter(digests)).shown


def _rows(path: Path) -> Iterator[tuple[bytes | None, _Digest]]:
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            key_length, value_length, shown = _HEAD.unpack(head)
            key = None if key_length < 0 else file.read(key_length)
            yield key, _Digest(value_length, file.read(_DIGEST_BYTES), file.read(shown))
