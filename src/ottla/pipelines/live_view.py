"""The live view of running pipelines: a table in a terminal (`live_screen`), lines elsewhere, or JSON.

The supervisor sends the same events to all three, in one thread.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec import to_builtins

from ottla.pipelines.progress import ran
from ottla.pipelines.runner.failure import Failure
from ottla.pipelines.runner.numbers import BatchNumbers, numbers_of
from ottla.pipelines.spec.model import PipelineSpec
from ottla.runtime.clock import Clock

LINE_EVERY_MS: Final = 10_000
"""The minimum time between two lines for a query, so that the log of a day stays readable."""


class View(Protocol):
    """A view of running queries."""

    def batch(self, numbers: BatchNumbers) -> None:
        """A micro-batch was done."""
        ...

    def event(self, kind: str, query: str, **what: Any) -> None:
        """A query changed its state: see `event_line`."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...

    def close(self) -> None:
        """The run has ended."""
        ...


class WhileShown:
    """Passes events to another view until its output is closed (`| head`).

    Then it calls the function of `tell` once, and shows nothing more. The caller raises `error` at the end.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._ends: Callable[[], None] | None = None
        self.error: OSError | None = None

    def tell(self, ends: Callable[[], None]) -> None:
        """Sets the function to call when the output is gone."""
        self._ends = ends

    def batch(self, numbers: BatchNumbers) -> None:
        """A micro-batch was done."""
        self._show(lambda: self._view.batch(numbers))

    def event(self, kind: str, query: str, **what: Any) -> None:
        """A query changed its state."""
        self._show(lambda: self._view.event(kind, query, **what))

    def tick(self) -> None:
        """Time has passed."""
        self._show(self._view.tick)

    def close(self) -> None:
        """The run has ended."""
        self._show(self._view.close)

    def _show(self, shows: Callable[[], None]) -> None:
        if self.error is not None:
            return
        try:
            shows()
        except OSError as error:
            self.error = error
            if self._ends is not None:
                self._ends()


class Watching:
    """The watcher of a supervisor that shows progress in a view."""

    def __init__(self, specs: Mapping[str, PipelineSpec], view: View, clock: Clock) -> None:
        self._specs = specs
        self._view = view
        self._clock = clock
        self._started: set[str] = set()
        self._ran: set[str] = set()
        self._away: set[str] = set()
        self._begun_ms: dict[str, int] = {}
        self._told_ms: dict[str, int] = {}

    def starting(self, name: str) -> None:
        """A query is planned and started. Only the first start is shown; restarts have their own event."""
        if name not in self._started:
            self._started.add(name)
            self._view.event("planning", name)

    def working(self, name: str) -> None:
        """A micro-batch is in progress. The first is shown at once, long ones every ten seconds."""
        if name in self._away:
            return
        now_ms = self._clock.monotonic_ms()
        begun_ms = self._begun_ms.setdefault(name, now_ms)
        told_ms = self._told_ms.get(name, begun_ms if name in self._ran else now_ms - LINE_EVERY_MS)
        if now_ms - told_ms >= LINE_EVERY_MS:
            self._told_ms[name] = now_ms
            self._view.event("working", name, seconds=(now_ms - begun_ms) / 1000)

    def progressed(self, name: str, progress: dict[str, Any]) -> None:
        """A query completed a micro-batch, or is idle; idle queries are not shown."""
        self._ran.add(name)
        self._begun_ms.pop(name, None)
        self._told_ms.pop(name, None)
        if ran(progress):
            self._view.batch(numbers_of(self._specs[name], name, progress, self._clock.now_ms()))

    def restarts(self, name: str, failure: Failure, wait_ms: int) -> None:
        """A query failed and is started again."""
        self._begun_ms.pop(name, None)
        self._view.event("restart", name, reason=failure.reason, wait_ms=wait_ms)

    def waits(self, name: str, failure: Failure) -> None:
        """A query cannot reach the brokers."""
        self._begun_ms.pop(name, None)
        self._away.add(name)
        self._view.event("waiting", name, reason=failure.reason)

    def returned(self, name: str, away_ms: int) -> None:
        """A query that waited for the brokers goes on."""
        self._away.discard(name)
        self._view.event("returned", name, away_ms=away_ms)

    def gave_up(self, name: str, failure: Failure) -> None:
        """A query failed for good."""
        self._view.event("failed", name, reason=failure.reason)

    def finished(self, name: str) -> None:
        """A query has caught up."""
        self._view.event("finished", name)

    def stopping(self, name: str) -> None:
        """A query ends after its micro-batch."""
        self._view.event("stopping", name)

    def stopped(self, name: str, failure: Failure | None) -> None:
        """A query has ended, as was asked for."""
        self._view.event("stopped", name, reason=None if failure is None else failure.reason)

    def tick(self) -> None:
        """Some time has passed."""
        self._view.tick()


class JsonLines:
    """A JSON object a line: `{"event": "batch", ...}`, and those of `event_line`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def batch(self, numbers: BatchNumbers) -> None:
        """Prints one line."""
        self._write(json.dumps({"event": "batch", **to_builtins(numbers)}))

    def event(self, kind: str, query: str, **what: Any) -> None:
        """Prints one line."""
        self._write(json.dumps({"event": kind, "query": query, **what}, ensure_ascii=False))

    def tick(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainLines:
    """Prints a line for each event of a query, and from time to time one with the sums of its micro-batches."""

    def __init__(self, write: Callable[[str], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._sums: dict[str, Sums] = {}
        self._said_ms: dict[str, int] = {}
        self._pending: set[str] = set()

    def batch(self, numbers: BatchNumbers) -> None:
        """Prints a line, if the last one is old enough."""
        sums = self._sums.setdefault(numbers.query, Sums())
        sums.add(numbers)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._said_ms.get(numbers.query, now_ms - LINE_EVERY_MS) >= LINE_EVERY_MS:
            self._said_ms[numbers.query] = now_ms
            self._pending.discard(numbers.query)
            self._write(sums.line())
        else:
            self._pending.add(numbers.query)

    def event(self, kind: str, query: str, **what: Any) -> None:
        """Prints one line, after the pending line of earlier micro-batches."""
        if kind in ("finished", "stopped") and query in self._pending:
            self._pending.remove(query)
            self._write(self._sums[query].line())
        self._write(event_line(kind, query, what))

    def tick(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Sums:
    """All micro-batches of a query since the driver started, and the last of them."""

    def __init__(self) -> None:
        self.batches = 0
        self.rows: dict[str, tuple[int, int]] = {}
        self.bad = 0
        self.bad_reason: str | None = None
        self.warnings = 0
        self.warning_reason: str | None = None
        self.late = 0
        self.last: BatchNumbers | None = None

    def add(self, numbers: BatchNumbers) -> None:
        """One more micro-batch."""
        self.batches += 1
        for name, step in numbers.steps.items():
            rows_in, rows_out = self.rows.get(name, (0, 0))
            self.rows[name] = rows_in + step.rows_in, rows_out + step.rows_out
        self.bad += numbers.bad_rows
        self.bad_reason = numbers.bad_reason or self.bad_reason
        self.warnings += numbers.warnings
        self.warning_reason = numbers.warning_reason or self.warning_reason
        self.late += numbers.late_rows
        self.last = numbers

    def line(self) -> str:
        """All sums in one line."""
        last = self.last
        assert last is not None
        rows = ", ".join(f"{name} {rows_out:,}" for name, (_, rows_out) in self.rows.items())
        parts = [f"{last.query}: batch {last.batch}", f"rows {rows or 0}", lag_text(last)]
        if last.watermark is not None:
            parts.append(f"watermark {last.watermark}")
        if last.state_rows:
            parts.append(f"state {last.state_rows:,} rows")
        if self.late:
            parts.append(f"{self.late:,} late rows dropped")
        if self.bad:
            parts.append(f"{self.bad:,} bad rows (latest: {self.bad_reason})")
        if self.warnings:
            parts.append(f"{self.warnings:,} warnings (latest: {self.warning_reason})")
        return "; ".join(parts)


def event_line(kind: str, query: str, what: Mapping[str, Any]) -> str:
    """The text for an event of a query.

    >>> event_line("restart", "flights.delays", {"reason": "no broker answers", "wait_ms": 1500})
    'flights.delays: failed: no broker answers; starts again in 1.5 s'
    """
    match kind:
        case "starting":
            return f"{query}: starts Spark"
        case "planning":
            return f"{query}: plans its query"
        case "working" if what["seconds"] < 1:
            return f"{query}: its first micro-batch has begun"
        case "working":
            return f"{query}: its micro-batch has been under way for {what['seconds']:.0f} s"
        case "restart":
            return f"{query}: failed: {what['reason']}; starts again in {what['wait_ms'] / 1000:.1f} s"
        case "failed":
            return f"{query}: stopped: {what['reason']}"
        case "waiting":
            return f"{query}: waits until it can go on: {what['reason']}"
        case "returned":
            return f"{query}: goes on after {what['away_ms'] / 1000:.0f} s"
        case "finished":
            return f"{query}: caught up"
        case "stopping":
            return f"{query}: ends after its micro-batch; a second signal ends it at once"
        case "stopped":
            failed = f", its micro-batch failed: {what['reason']}" if what["reason"] else ""
            return f"{query}: stopped{failed}; the next run goes on where it was"
    raise ValueError(kind)


def lag_text(numbers: BatchNumbers) -> str:
    """The text for the lag of a query."""
    if not numbers.lag_records:
        return "lag 0"
    seconds = "" if numbers.lag_seconds is None else f", {numbers.lag_seconds:,.1f} s"
    return f"lag {numbers.lag_records:,} records{seconds}"
