"""Starts the queries of pipelines, watches them, restarts failed ones, and stops them together.

```
           start                     failed, worth trying            wait is over
 WAITING ─────────► RUNNING ──────────────────────────► WAITING ─────────────────► RUNNING
                       │ failed, hopeless ─► FAILED
                       └ caught up, stopped ─► DONE
```

`stop` once: no query begins another micro-batch, and each ends when the one under way is done. Twice: each ends now.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol

from ottla.pipelines.runner.backoff import Backoff
from ottla.pipelines.runner.failure import Failure, Verdict, failure_of
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng

POLL_SECONDS: Final = 0.25
"""How often queries are checked."""
SEEN_MAX: Final = 1_000
"""The number of reported micro-batches that are remembered; Spark itself keeps fewer."""


class Query(Protocol):
    """A running query, such as `pyspark.sql.streaming.query.StreamingQuery`."""

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether it runs."""
        ...

    @property
    def works(self) -> bool:
        """Whether a micro-batch is under way."""
        ...

    def exception(self) -> Exception | None:
        """Why it ended; None when it was stopped, or is through."""
        ...

    def finish(self) -> None:
        """Ends the query after the current micro-batch. Called repeatedly until it has ended."""
        ...

    def stop(self) -> None:
        """Ends the query now, even within a micro-batch."""
        ...


class State(Enum):
    """The state of a query."""

    WAITING = auto()
    RUNNING = auto()
    FAILED = auto()
    DONE = auto()


class Watcher(Protocol):
    """Receives the events of queries, in the thread of the supervisor."""

    def starting(self, name: str) -> None:
        """A query is planned and started, now or once more."""
        ...

    def working(self, name: str) -> None:
        """A micro-batch of a query is in progress; called repeatedly."""
        ...

    def progressed(self, name: str, progress: dict[str, Any]) -> None:
        """A query completed a micro-batch."""
        ...

    def restarts(self, name: str, failure: Failure, wait_ms: int) -> None:
        """A query failed and is started again."""
        ...

    def waits(self, name: str, failure: Failure) -> None:
        """A query cannot reach the brokers, and is restarted until it does; called once."""
        ...

    def returned(self, name: str, away_ms: int) -> None:
        """A query that waited for the brokers goes on."""
        ...

    def gave_up(self, name: str, failure: Failure) -> None:
        """A query failed for good."""
        ...

    def finished(self, name: str) -> None:
        """A query has caught up."""
        ...

    def stopping(self, name: str) -> None:
        """A query ends after its micro-batch, as was asked for."""
        ...

    def stopped(self, name: str, failure: Failure | None) -> None:
        """A query has stopped on request; `failure` is that of its last micro-batch, if any."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...


@dataclass(slots=True)
class Supervised:
    """A query and its state. `progress` returns the progress of its last micro-batches, oldest first."""

    name: str
    start: Callable[[], Query]
    progress: Callable[[Any], Sequence[dict[str, Any]]]
    backoff: Backoff
    mend: Callable[[Failure], Failure | None] | None = None
    """Handles a failure that a row caused; returns None if the query can continue."""
    state: State = State.WAITING
    query: Query | None = None
    due_ms: int = 0
    seen: set[tuple[str, int, str]] = field(default_factory=set)
    """The reported micro-batches: run of the query, and number."""
    away_since_ms: int | None = None
    """Since when the brokers are unreachable; None while they answer."""
    failure: Failure | None = None


class Supervisor:
    """Runs queries until all have caught up or failed, or `stop` is called, from any thread or signal handler."""

    def __init__(self, watcher: Watcher, clock: Clock, rng: Rng) -> None:
        self._watcher = watcher
        self._clock = clock
        self._rng = rng
        self._queries: list[Supervised] = []
        self._given_up: deque[tuple[str, Failure]] = deque()
        self._stops = 0
        # Nobody sets it: a signal handler that did might wait for the lock that the thread it interrupts is holding.
        self._pause = threading.Event()

    def add(
        self,
        name: str,
        start: Callable[[], Query],
        progress: Callable[[Any], Sequence[dict[str, Any]]],
        mend: Callable[[Failure], Failure | None] | None = None,
    ) -> None:
        """One more query; it starts when `run` is called. `mend` is asked about a failure that a row caused: it returns
        None when the query may start again at once, else the failure to go by.
        """
        due_ms = self._clock.monotonic_ms()
        self._queries.append(Supervised(name, start, progress, Backoff(self._rng), mend, due_ms=due_ms))

    def stop(self) -> None:
        """End all queries after their micro-batches; called again, at once. `run` returns when they have ended."""
        self._stops += 1

    def give_up(self, name: str, failure: Failure) -> None:
        """End one query permanently, at the next step. Thread-safe."""
        self._given_up.append((name, failure))

    def run(self) -> list[tuple[str, Failure]]:
        """Runs the queries. Returns those that failed permanently, with the reasons."""
        try:
            while not self._stops and self.step():
                self._pause.wait(POLL_SECONDS)
            self._begin_to_stop()
            while self._stops == 1 and self._finish():
                self._pause.wait(POLL_SECONDS)
        finally:
            self._stop_all()
        return [(each.name, each.failure) for each in self._queries if each.failure is not None]

    def step(self) -> bool:
        """Checks each query once. Returns whether any is still waiting or running."""
        while self._given_up:
            self._end_for_good(*self._given_up.popleft())
        for each in self._queries:
            if each.state is State.WAITING and self._clock.monotonic_ms() >= each.due_ms:
                self._start(each)
            elif each.state is State.RUNNING:
                self._look(each)
        self._watcher.tick()
        return any(each.state in (State.WAITING, State.RUNNING) for each in self._queries)

    def _end_for_good(self, name: str, failure: Failure) -> None:
        for each in self._queries:
            if each.name == name and each.state in (State.WAITING, State.RUNNING):
                if each.query is not None:
                    # One that cannot be stopped never keeps the others from going on.
                    with suppress(Exception):
                        each.query.stop()
                    with suppress(Exception):
                        self._tell(each)
                each.state, each.failure = State.FAILED, failure
                self._watcher.gave_up(name, failure)

    def _start(self, each: Supervised) -> None:
        self._watcher.starting(each.name)
        try:
            each.query = each.start()
        except Exception as error:
            self._failed(each, error)
        else:
            each.state = State.RUNNING

    def _look(self, each: Supervised) -> None:
        assert each.query is not None
        active = each.query.isActive
        self._tell(each)
        if active:
            if each.query.works:
                self._watcher.working(each.name)
            return
        error = each.query.exception()
        if error is not None:
            self._failed(each, error)
        else:
            each.state = State.DONE
            self._watcher.finished(each.name)

    def _tell(self, each: Supervised) -> None:
        new = []
        found = each.progress(each.query)
        for progress in found:
            batch = str(progress.get("runId")), int(progress.get("batchId", -1)), str(progress.get("timestamp"))
            if batch not in each.seen:
                new.append(progress)
                each.seen.add(batch)
        if len(each.seen) > SEEN_MAX:
            each.seen = {*sorted(each.seen, key=lambda batch: batch[2])[-len(found) :]}
        for progress in new:
            if each.away_since_ms is not None:
                self._watcher.returned(each.name, self._clock.monotonic_ms() - each.away_since_ms)
                each.away_since_ms = None
                each.backoff.progressed()
            if progress.get("numInputRows") or "addBatch" in (progress.get("durationMs") or {}):
                each.backoff.progressed()
            self._watcher.progressed(each.name, progress)

    def _failed(self, each: Supervised, error: Exception) -> None:
        failure = failure_of(f"{type(error).__name__}: {error}")
        if failure.verdict is Verdict.ROW and each.mend is not None:
            self._watcher.restarts(each.name, failure, 0)
            try:
                rest = each.mend(failure)
            except Exception as other:
                rest = failure_of(f"{type(other).__name__}: {other}")
            if rest is None:
                each.state, each.due_ms = State.WAITING, self._clock.monotonic_ms()
                return
            failure = rest
        wait_ms = each.backoff.failed(failure)
        if wait_ms is None:
            each.state, each.failure = State.FAILED, failure
            self._watcher.gave_up(each.name, failure)
            return
        each.state, each.due_ms = State.WAITING, self._clock.monotonic_ms() + wait_ms
        if failure.verdict is not Verdict.UNREACHABLE:
            self._watcher.restarts(each.name, failure, wait_ms)
        elif each.away_since_ms is None:
            each.away_since_ms = self._clock.monotonic_ms()
            self._watcher.waits(each.name, failure)

    def _begin_to_stop(self) -> None:
        for each in self._queries:
            if each.state is State.WAITING:
                each.state = State.DONE
                self._watcher.stopped(each.name, None)
            elif each.state is State.RUNNING:
                self._watcher.stopping(each.name)

    def _finish(self) -> bool:
        """Let each query come to its end. Whether any has not."""
        running = [each for each in self._queries if each.state is State.RUNNING]
        for each in running:
            assert each.query is not None
            each.query.finish()
            if not each.query.isActive:
                self._stopped(each)
        self._watcher.tick()
        return any(each.state is State.RUNNING for each in running)

    def _stop_all(self) -> None:
        for each in self._queries:
            if each.state is State.RUNNING and each.query is not None:
                # One that cannot be stopped never keeps the others from it; the JVM ends with the driver.
                with suppress(Exception):
                    each.query.stop()
                self._stopped(each)

    def _stopped(self, each: Supervised) -> None:
        failure = None
        with suppress(Exception):
            self._tell(each)
            error = each.query.exception() if each.query is not None else None
            failure = None if error is None else failure_of(f"{type(error).__name__}: {error}")
        each.state = State.DONE
        self._watcher.stopped(each.name, failure)


__all__ = ["Failure", "Query", "State", "Supervisor", "Verdict", "Watcher"]
