"""How far a command is, on stderr, for a person who watches: nothing is shown when stderr is not a terminal."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class Progress:
    """Counts records and bytes; a bar when the total is known, a running count when it is not."""

    def __init__(self, what: str, total_bytes: int | None, *, quiet: bool = False) -> None:
        self._what = what
        self._total_bytes = total_bytes
        self._shown = not quiet and sys.stderr.isatty()
        self._clock = SystemClock()
        self._begun_ms = self._clock.monotonic_ms()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self.records = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TextColumn("{task.fields[records]:,} records"),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=self._total_bytes, records=0)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, size_bytes: int, records: int) -> None:
        """That much more is done."""
        self.bytes += size_bytes
        self.records += records
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=size_bytes, records=self.records)

    def summary(self) -> None:
        """Say what was done in all."""
        if self._shown:
            seconds = (self._clock.monotonic_ms() - self._begun_ms) / 1000
            rate = self.records / seconds if seconds else 0
            done = f"{self.records:,} records, {self.bytes:,} bytes"
            print(f"{self._what}: {done} in {seconds:.1f} s ({rate:,.0f} records a second)", file=sys.stderr)
