"""The numbers of a micro-batch: rows of each step, lag, watermark, state, bad rows.

Out of the progress of Spark (`StreamingQueryProgress` as JSON) and of what the compiler lets every step count:

```
observedMetrics  events?  rows, newest, bad:NAME  records of a source, the time of the newest, those that do not decode
                 sane?    rows, bad:NAME          rows that came into an expectation, those that do not meet a condition
                 sane     rows                    rows that went out of a step
```

Where there is an audit its observations say the same, under its names.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from ottla.pipelines.audit.late import LATE, dropped
from ottla.pipelines.audit.report import BAD, DROPPED, Point
from ottla.pipelines.spec.event_time import watermark_of
from ottla.pipelines.spec.lineage import shift_years, states_of, windows_counting_late_rows
from ottla.pipelines.spec.model import Expect, PipelineSpec


class StepNumbers(Struct, frozen=True):
    """Rows of one source or step in one micro-batch."""

    rows_in: int
    rows_out: int
    bad: dict[str, int] = {}
    """Rows that do not decode, or that do not meet a condition, where it warns those that went on; one that does not
    meet several is in each."""


class BatchNumbers(Struct, frozen=True):
    """One micro-batch of one query."""

    query: str
    batch: int
    seconds: float
    rows_in: int
    """The number of records of all streams."""
    steps: dict[str, StepNumbers]
    lag_records: int
    lag_seconds: float | None
    """The age of the newest record that was read, if others wait; 0.0 if none does, None if not known."""
    watermark: str | None
    state_rows: int
    state_bytes: int
    late_rows: int
    """The number of dropped late rows."""
    bad_rows: int
    """The number of rows that were refused or dropped; each is counted once."""
    bad_reason: str | None
    """A source or condition that refused some of them."""
    warnings: int
    """The number of rows that failed a condition that only warns, counted once per condition."""
    warning_reason: str | None
    """A condition that warned of some of them."""


def numbers_of(spec: PipelineSpec, query: str, progress: Mapping[str, Any], now_ms: int) -> BatchNumbers:
    """The numbers of a query's progress."""
    observed = _by_place(progress.get("observedMetrics") or {})
    steps = _steps(spec, observed)
    refusals, warnings = _reasons(spec, steps)
    judging = _judging(spec)
    lag = sum(_lag(each) for each in progress.get("sources") or ())
    newest = [observed[f"{name}?"]["newest"] for name in spec.sources if observed.get(f"{name}?", {}).get("newest")]
    operators = progress.get("stateOperators") or ()
    return BatchNumbers(
        query=query,
        batch=int(progress.get("batchId", -1)),
        seconds=float(progress.get("batchDuration") or 0) / 1000,
        rows_in=sum(each.rows_in for name, each in steps.items() if name in spec.sources),
        steps=steps,
        lag_records=lag,
        lag_seconds=_behind(lag, newest, now_ms),
        watermark=watermark_of((progress.get("eventTime") or {}).get("watermark"), shift_years(spec)),
        state_rows=sum(int(each.get("numRowsTotal", 0)) for each in operators),
        state_bytes=sum(int(each.get("memoryUsedBytes", 0)) for each in operators),
        late_rows=_late(spec, query, operators) + sum(_dropped_late(each) for each in observed.values()),
        bad_rows=sum(
            max(each.rows_in - each.rows_out, 0) if name in judging else sum(each.bad.values())
            for name, each in steps.items()
        ),
        bad_reason=refusals[-1][0] if refusals else None,
        warnings=sum(count for _, count in warnings),
        warning_reason=warnings[-1][0] if warnings else None,
    )


def _late(spec: PipelineSpec, query: str, operators: Sequence[Mapping[str, Any]]) -> int:
    """What Spark's operators dropped, as in the audit."""
    sink = query.removeprefix(f"{spec.name}.")
    states = states_of(spec, sink) if any(each.name == sink for each in spec.sinks) else ()
    counts = dropped(operators, states, windows_counting_late_rows(spec))
    return sum(each.rows for each in counts if each.reason == LATE)


def _dropped_late(metrics: Mapping[str, Any]) -> int:
    return int(metrics.get(f"{DROPPED}{LATE}") or 0)


def _judging(spec: PipelineSpec) -> frozenset[str]:
    """The sources and steps in which a row goes on or is refused; the others make new rows."""
    return frozenset((*spec.sources, *(step.name for step in spec.steps if isinstance(step.action, Expect))))


def _reasons(
    spec: PipelineSpec, steps: Mapping[str, StepNumbers]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """What refused rows, and what only warned of them, each with how many; in the order of the file."""
    only_warn = {
        (step.name, each.name)
        for step in spec.steps
        if isinstance(step.action, Expect)
        for each in step.action.expect
        if each.on_fail == "warn"
    }
    found: tuple[list[tuple[str, int]], list[tuple[str, int]]] = [], []
    for step, numbers in steps.items():
        for name, count in numbers.bad.items():
            if count:
                found[(step, name) in only_warn].append((f"{step}: {name}", count))
    return found


def _by_place(observed: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """What was observed where rows come in (`NAME?`) and where they go out (`NAME`), with an audit or without one."""
    found = {}
    for name, metrics in observed.items():
        point = Point.of(name)
        if point is None:
            found[name] = metrics
        elif point.role in ("in", "out"):
            found[f"{point.step}?" if point.role == "in" else point.step] = metrics
    return found


def _steps(spec: PipelineSpec, observed: Mapping[str, Mapping[str, Any]]) -> dict[str, StepNumbers]:
    found: dict[str, StepNumbers] = {}
    for name in spec.sources:
        if f"{name}?" in observed:
            rows, bad = _rows(observed, f"{name}?"), _bad(observed[f"{name}?"])
            found[name] = StepNumbers(rows, rows - sum(bad.values()), bad)
    for step in spec.steps:
        if step.name not in observed:
            continue
        judged = observed.get(f"{step.name}?")
        if judged is not None:
            bad, rows_in = _bad(judged), _rows(observed, f"{step.name}?")
            for other in step.inputs[1:]:
                # The other side of a join is counted apart.
                side = observed.get(f"{step.name}/{other}?") or {}
                rows_in += _rows(observed, f"{step.name}/{other}?")
                bad = {name: count + _bad(side).get(name, 0) for name, count in bad.items()}
        else:
            bad, rows_in = {}, sum(found[each].rows_out for each in step.inputs if each in found)
        found[step.name] = StepNumbers(rows_in, _rows(observed, step.name), bad)
    for sink in spec.sinks:
        # What it takes is what its input gives.
        refused = _bad(observed.get(f"{sink.name}?") or {})
        if sum(refused.values()):
            rows = _rows(observed, f"{sink.name}?")
            found[sink.name] = StepNumbers(rows, rows - sum(refused.values()), refused)
    return found


def _bad(metrics: Mapping[str, Any]) -> dict[str, int]:
    return {
        name.removeprefix(BAD).removeprefix(DROPPED): int(count or 0)
        for name, count in metrics.items()
        if name.startswith((BAD, DROPPED))
    }


def _rows(observed: Mapping[str, Mapping[str, Any]], name: str) -> int:
    return int((observed.get(name) or {}).get("rows") or 0)


def _lag(source: Mapping[str, Any]) -> int:
    """Records between where a micro-batch ended and the ends of the logs; 0 for what is no source of topics."""
    end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
    return sum(max(offset - end.get(place, 0), 0) for place, offset in latest.items())


def _offsets(stored: Any) -> dict[tuple[str, str], int]:
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return {}
    if not isinstance(stored, Mapping):
        return {}
    return {
        (topic, partition): offset
        for topic, partitions in stored.items()
        if not topic.startswith("#") and isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }


def _behind(lag: int, newest: list[str], now_ms: int) -> float | None:
    if not lag:
        return 0.0
    if not newest:
        return None
    return max(now_ms - round(datetime.fromisoformat(max(newest)).timestamp() * 1000), 0) / 1000
