"""The audit record of one micro-batch: what it read, and what came into and went out of each step.

One JSON object, the value of a record whose key is `pipeline.sink`, so that those of one query keep their order:

```
{"version": 1, "pipeline": "flights", "sink": "delays", "query_id": "1f3c...", "run_id": "9a0b...", "batch": 12,
 "at_ms": 1370044800000, "window_ms": 60000, "rows": 1000,
 "sources": [{"start": {"events": {"0": 23}}, "end": {"events": {"0": 42}}, "rows": 19}],
 "points": [{"step": "sane", "role": "in", "balanced": true, "rows": 19, "checksum": "00c9...", ...}]}
```

Checksums are the sum modulo 2^64 of a 64-bit hash (xxhash64) of each row, 16 digits in base 16: equal for equal rows in
any order, and the sum over batches is that of all their rows.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ottla.pipelines.progress import ran

VERSION: Final = 1
PREFIX: Final = "ottla.audit:"
"""The prefix of our observations; users may have others in the same query."""

DROPPED: Final = "dropped:"
"""The prefix of a metric that counts dropped rows, before the reason."""

BAD: Final = "bad:"
"""The prefix of a metric that counts bad rows, before the reason."""

Role = Literal["in", "out", "dropped", "dead_letters"]
ROLES: Final[tuple[Role, ...]] = ("in", "out", "dropped", "dead_letters")
Offsets = dict[str, dict[str, int]]
"""Offsets by topic and partition (as text), as in the progress of a query."""


class Point(Struct, frozen=True):
    """A place where rows are counted."""

    step: str
    role: Role
    balanced: bool = False
    """For the role `in`: whether each row that comes in goes out, is dropped or is a dead letter in the same batch."""

    @property
    def name(self) -> str:
        """The name of its observation, one for each point of a query."""
        return f"{PREFIX}{self.role}:{'=' if self.balanced else '~'}:{self.step}"

    @classmethod
    def of(cls, name: str) -> "Point | None":
        """The point of an observation's name; None if it is not one of the audit."""
        if not name.startswith(PREFIX):
            return None
        role, balanced, step = name.removeprefix(PREFIX).split(":", 2)
        return cls(step, role, balanced == "=")  # type: ignore[arg-type]


class Count(Struct, frozen=True, kw_only=True):
    """The rows that passed a point in one batch."""

    step: str
    role: Role
    balanced: bool = False
    reason: str = ""
    """The reason, for dropped rows."""
    rows: int
    checksum: str
    first_time_ms: int | None = None
    """The earliest event time of the rows, if the step has one."""
    last_time_ms: int | None = None


class SourceRange(Struct, frozen=True, kw_only=True):
    """The offsets that a batch read from one source: `end` is the first that it did not read."""

    start: Offsets
    end: Offsets
    rows: int


class Report(Struct, frozen=True, kw_only=True):
    """One micro-batch of one query."""

    version: int = VERSION
    pipeline: str
    sink: str
    query_id: str
    """The id of the query in its checkpoint: the same number and query id mean the same batch."""
    run_id: str
    batch: int
    at_ms: int
    """When the batch began, ms since 1970."""
    window_ms: int
    rows: int
    sources: tuple[SourceRange, ...]
    points: tuple[Count, ...]

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return f"{self.pipeline}.{self.sink}".encode()

    @property
    def window_start_ms(self) -> int:
        """The start of the window that contains the start of the batch."""
        return self.at_ms - self.at_ms % self.window_ms

    def encode(self) -> bytes:
        """The value of its record."""
        return msgspec.json.encode(self)


class ForeignReportError(ValueError):
    """The record is not an audit record, or has an unknown version."""


def decode_report(value: bytes | None) -> Report:
    """Decode the value of an audit record. Raises ForeignReportError."""
    try:
        version = msgspec.json.decode(value or b"", type=_Versioned).version
        if version != VERSION:
            raise ForeignReportError(f"an audit record of version {version}; this is for version {VERSION}")
        report = msgspec.json.decode(value or b"", type=Report)
        for count in report.points:
            int(count.checksum, 16)
    except (msgspec.DecodeError, ValueError) as error:
        raise error if isinstance(error, ForeignReportError) else ForeignReportError(str(error)) from error
    if report.window_ms < 1:
        raise ForeignReportError(f"an audit record with a window of {report.window_ms} ms")
    return report


def report_of(progress: Mapping[str, Any], pipeline: str, window_ms: int) -> Report | None:
    """The report of a batch, from the progress of its query (`progress.json` as an object).

    None for another pipeline's query, which is known by its name, `pipeline.sink`, and for one that waits for rows.
    """
    name = progress.get("name") or ""
    if not name.startswith(f"{pipeline}.") or not ran(progress):
        return None
    at = datetime.fromisoformat(progress["timestamp"])
    return Report(
        pipeline=pipeline,
        sink=name.removeprefix(f"{pipeline}."),
        query_id=progress["id"],
        run_id=progress["runId"],
        batch=progress["batchId"],
        at_ms=round(at.timestamp() * 1000),
        window_ms=window_ms,
        rows=progress.get("numInputRows", sum(each["numInputRows"] for each in progress["sources"])),
        sources=tuple(
            SourceRange(
                start=_offsets(each.get("startOffset")),
                end=_offsets(each.get("endOffset")),
                rows=each["numInputRows"],
            )
            for each in progress["sources"]
        ),
        points=tuple(_counts(progress.get("observedMetrics") or {})),
    )


def checksum_sum(checksums: Iterable[str]) -> str:
    """The checksum of the rows of all of these together."""
    return f"{sum(int(each, 16) for each in checksums) % (1 << 64):016x}"


def _counts(observed: Mapping[str, Mapping[str, Any]]) -> Iterable[Count]:
    for name, metrics in sorted(observed.items()):
        point = Point.of(name)
        if point is not None:
            yield Count(
                step=point.step,
                role=point.role,
                balanced=point.balanced,
                rows=metrics.get("rows") or 0,
                checksum=_checksum(metrics, ""),
                first_time_ms=metrics.get("first_time_ms"),
                last_time_ms=metrics.get("last_time_ms"),
            )
            for role in ROLES:
                if f"{role}:rows" in metrics:
                    yield Count(
                        step=point.step,
                        role=role,
                        rows=metrics[f"{role}:rows"] or 0,
                        checksum=_checksum(metrics, f"{role}:"),
                    )
            for metric, rows in metrics.items():
                if metric.startswith(DROPPED) and rows:
                    reason = metric.removeprefix(DROPPED)
                    yield Count(step=point.step, role="dropped", reason=reason, rows=rows, checksum=NO_SUM)


def _checksum(metrics: Mapping[str, Any], of: str) -> str:
    high, low = (metrics.get(f"{of}{half}") or 0 for half in ("high", "low"))
    return f"{(high * (1 << 32) + low) % (1 << 64):016x}"


NO_SUM: Final = f"{0:016x}"
"""The checksum of rows that are only counted."""


def _offsets(said: Any) -> Offsets:
    """Offsets by partition; a source that is not of topics has none."""
    value = json.loads(said) if isinstance(said, str) else said
    if not isinstance(value, dict):
        return {}
    return {
        topic: {number: offset for number, offset in partitions.items() if isinstance(offset, int)}
        for topic, partitions in value.items()
        if isinstance(partitions, dict) and not topic.startswith("#")
    }


class _Versioned(Struct):
    version: int
