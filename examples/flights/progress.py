"""Progress bars, one for each step of the demo."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from ottla.runtime.clock import SystemClock

POLL_S = 1


class Steps:
    """The bars on the console, and how many seconds each finished step took."""

    def __init__(self, console: Console) -> None:
        self._clock = SystemClock()
        self.seconds: dict[str, float] = {}
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )

    def __enter__(self) -> "Steps":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, description: str, total: int = 1) -> Iterator["Step"]:
        """One bar; it is full when the block ends without an exception."""
        began_ms = self._clock.monotonic_ms()
        task = self._progress.add_task(description, total=total)
        yield Step(self._progress, task)
        self._progress.update(task, completed=total)
        self.seconds[description] = (self._clock.monotonic_ms() - began_ms) / 1000


class Step:
    """One bar that can be moved."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int) -> None:
        """So much more is done."""
        self._progress.advance(self._task, count)

    def follow(self, queries: list[StreamingQuery]) -> None:
        """Show how many rows the first query has read until all have ended. Raises what a query failed with."""
        while any(query.isActive for query in queries):
            queries[-1].awaitTermination(POLL_S)
            self._progress.update(self._task, completed=sum(batch["numInputRows"] for batch in batches(queries[0])))
        for query in queries:
            query.awaitTermination()


def batches(query: StreamingQuery) -> list[Mapping[str, Any]]:
    """What Spark tells about the micro-batches of a query so far."""
    return [*query.recentProgress]
