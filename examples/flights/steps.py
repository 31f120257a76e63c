"""What the demo says of itself while it runs: a line for each step that is done, a bar for each that is not."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_NAME_WIDTH = 24


class Steps:
    """The steps on the console, and how many seconds each of them took."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.seconds: dict[str, float] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn(f"{{task.description:<{_NAME_WIDTH}}}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> "Steps":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, name: str, total: int = 1) -> Iterator["Step"]:
        """One step; its line is printed when the block ends without an exception."""
        began = time.monotonic()
        task = self._progress.add_task(name, total=total)
        step = Step(self._progress, task)
        try:
            yield step
        finally:
            self._progress.remove_task(task)
        self.seconds[name] = time.monotonic() - began
        mark = "[red]✗[/red]" if step.failed else "[green]✓[/green]"
        self._line(mark, name, step.detail, f"{self.seconds[name]:.1f} s")

    @contextmanager
    def bars(self, totals: dict[str, int]) -> Iterator[dict[str, "Step"]]:
        """Bars without lines, for what goes on beside a step."""
        tasks = {name: self._progress.add_task(name, total=total) for name, total in totals.items()}
        try:
            yield {name: Step(self._progress, task) for name, task in tasks.items()}
        finally:
            for task in tasks.values():
                self._progress.remove_task(task)

    def say(self, name: str, detail: str) -> None:
        """A line of something that happened."""
        self._line("[red]![/red]", name, detail, "")

    def note(self, line: str) -> None:
        """A line of what goes on beside the steps."""
        self._console.print(f"[dim]· {escape(line)}[/dim]", highlight=False, soft_wrap=True)

    def _line(self, mark: str, name: str, detail: str, took: str) -> None:
        first, *others = detail.split("\n")
        line = f"{mark} [bold]{name:<{_NAME_WIDTH}}[/bold] {escape(first)}"
        self._console.print(f"{line}  [dim]{took}[/dim]", highlight=False, soft_wrap=True)
        for each in others:
            self._console.print(f"  {'':<{_NAME_WIDTH}} {escape(each)}", highlight=False, soft_wrap=True)


class Step:
    """One bar that can be moved, and what is said of the step when it is done."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self.detail = ""
        self.failed = False

    def advance(self, count: int) -> None:
        """So much more is done."""
        self._progress.advance(self._task, count)

    def reached(self, count: int) -> None:
        """So much is done."""
        self._progress.update(self._task, completed=count)
