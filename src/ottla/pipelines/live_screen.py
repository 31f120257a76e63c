"""The live view in a terminal of any width: the progress of each query, and the rows of its steps.

```
flights.delays #12  lag 1,234 records, 5.2 s  watermark 2013-06-01T10:05:00.000Z  state 12 rows, 3 KiB
                    rows in   in/s  rows out  out/s
  events              1,000  3,226       990  3,194
  sane                  990  3,194       980  3,161
```
"""

from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any, Final

from ottla.pipelines.live_view import Sums, event_line, lag_text
from ottla.pipelines.runner.numbers import BatchNumbers
from ottla.runtime.clock import Clock

REDRAW_MS: Final = 500
_NARROW: Final = 60
"""Columns of a terminal below which numbers are shortened."""
_NAME_CHARS_MIN: Final = 8
"""Of a step's name: what is left of it beside the numbers, and never less."""
_KIB: Final = 1024
_UNITS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_COLUMNS: Final = ("rows in", "in/s", "rows out", "out/s")
_NARROW_COLUMNS: Final = ("in", "in/s", "out", "out/s")

Piece = tuple[str, str]
"""A text and its style."""


class Screen:
    """A view for a terminal."""

    def __init__(self, clock: Clock) -> None:
        from rich.console import Console
        from rich.live import Live

        self._clock = clock
        self._sums: dict[str, Sums] = {}
        self._doing: dict[str, str] = {}
        self._drawn_ms = clock.monotonic_ms()
        self._console = Console()
        self._live = Live(self._drawn(), console=self._console, auto_refresh=False)
        self._live.start(refresh=True)

    def batch(self, numbers: BatchNumbers) -> None:
        """Updates the table; the next drawing shows it."""
        self._doing.pop(numbers.query, None)
        self._sums.setdefault(numbers.query, Sums()).add(numbers)

    def event(self, kind: str, query: str, **what: Any) -> None:
        """Prints a permanent line above the table; the table shows work in progress."""
        self._doing.pop(query, None)
        if kind in ("starting", "planning", "working"):
            self._doing[query] = event_line(kind, query, what)
            if kind != "starting":
                self._doing.pop(query.partition(".")[0], None)
            self._live.update(self._drawn(), refresh=True)
            return
        self._live.console.print(event_line(kind, query, what), markup=False, highlight=False)

    def tick(self) -> None:
        """Draws the table, if the last drawing is old enough."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._drawn_ms >= REDRAW_MS:
            self._drawn_ms = now_ms
            self._live.update(self._drawn(), refresh=True)

    def close(self) -> None:
        """Draws the table for the last time."""
        self._live.update(self._drawn(), refresh=True)
        self._live.stop()

    def _drawn(self) -> Any:
        from rich.text import Text

        text = Text(no_wrap=True, overflow="ellipsis")
        for line in screen_lines(self._sums, self._console.width, self._doing):
            text.append("\n" if text else "").append_tokens(line)
        return text


def screen_lines(queries: Mapping[str, Sums], width: int, doing: Mapping[str, str] | None = None) -> list[list[Piece]]:
    """The lines for a terminal of `width` columns, at least 40; the last line shows work in progress."""
    last = [line for text in (doing or {}).values() for line in _broken([(text, "dim")], width)]
    if not queries:
        return last or [[("no micro-batch yet", "dim")]]
    count, columns = (_short, _NARROW_COLUMNS) if width < _NARROW else ("{:,}".format, _COLUMNS)
    steps = {query: _steps(sums, count) for query, sums in queries.items()}
    table = [("", *columns), *(row for rows in steps.values() for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(columns) + 1)]
    widths[0] = max(min(widths[0], width - sum(2 + each for each in widths[1:])), _NAME_CHARS_MIN)
    lines: list[list[Piece]] = []
    for query, sums in queries.items():
        lines += _broken(_pieces(query, sums), width)
        lines.append([(_row(table[0], widths), "dim")])
        lines += [[(_row(row, widths), "")] for row in steps[query]]
    return lines + last


def _pieces(query: str, sums: Sums) -> list[Piece]:
    """What is said of a query."""
    last = sums.last
    assert last is not None
    pieces = [(f"{query} #{last.batch}", "bold"), (lag_text(last), "")]
    if last.watermark is not None:
        pieces.append((f"watermark {last.watermark}", ""))
    if last.state_rows:
        pieces.append((f"state {last.state_rows:,} rows, {last.state_bytes // _KIB:,} KiB", ""))
    if sums.late:
        pieces.append((f"{sums.late:,} late rows dropped", ""))
    if sums.bad:
        pieces.append((f"{sums.bad:,} bad rows (latest: {sums.bad_reason})", "red"))
    if sums.warnings:
        pieces.append((f"{sums.warnings:,} warnings (latest: {sums.warning_reason})", "yellow"))
    return pieces


def _broken(pieces: list[Piece], width: int) -> list[list[Piece]]:
    """The pieces side by side, and below each other where they would be too long; the first stands out."""
    lines: list[list[Piece]] = []
    used = 0
    for text, style in pieces:
        indent = "  " if lines else ""
        if lines and used + 2 + len(text) <= width:
            lines[-1].append((f"  {text}", style))
            used += 2 + len(text)
            continue
        for part in wrap(text, max(width - len(indent), _NAME_CHARS_MIN)):
            lines.append([(f"{indent}{part}", style)])
            used = len(indent) + len(part)
    return lines


def _steps(sums: Sums, count: Callable[[int], str]) -> list[tuple[str, ...]]:
    """Of each step its name and numbers; no rates where the last micro-batch did not go through it."""
    last = sums.last
    assert last is not None

    def rate(rows: int) -> str:
        return count(round(rows / last.seconds)) if last.seconds else ""

    made: list[tuple[str, ...]] = []
    for name, (rows_in, rows_out) in sums.rows.items():
        step = last.steps.get(name)
        rates = ("", "") if step is None else (rate(step.rows_in), rate(step.rows_out))
        made.append((f"  {name}", count(rows_in), rates[0], count(rows_out), rates[1]))
    return made


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    name = cells[0] if len(cells[0]) <= widths[0] else f"{cells[0][: widths[0] - 1]}…"
    numbers = (f"{cell:>{width}}" for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join([f"{name:<{widths[0]}}", *numbers])


def _short(number: int) -> str:
    """With three digits at most.

    >>> [_short(number) for number in (7, 950, 12_345, 1_234_567, 999_999)]
    ['7', '950', '12k', '1.2M', '999k']
    """
    unit, letter = next(((unit, letter) for unit, letter in _UNITS if number >= unit), (1, ""))
    if unit == 1:
        return str(number)
    tenths = number * 10 // unit
    return f"{tenths / 10:.1f}{letter}" if tenths < 100 else f"{tenths // 10}{letter}"
