"""What a command changed: a line each for people, one JSON document for machines."""

import sys
from types import TracebackType
from typing import Any, Self

import click

from ottla.cli.output import print_json


class Changes:
    """Tells what was changed. People read each line at once, machines one JSON array at the end of the block.

    >>> with Changes(as_json=True) as changes:
    ...     changes.done("deleted topic events", topic="events", deleted=True)
    [
      {
        "topic": "events",
        "deleted": true
      }
    ]

    When the block fails after something was done, the array has what was done: it is not done twice. When nothing was,
    nothing is printed.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._rows: list[dict[str, Any]] = []

    def done(self, text: str, **fields: object) -> None:
        """One change, or one that was not necessary."""
        self.say(text)
        self.row(**fields)

    def say(self, text: str) -> None:
        """A line for people."""
        if not self.as_json:
            click.echo(text)

    def row(self, **fields: object) -> None:
        """An object for machines, also about something that was refused."""
        if self.as_json:
            self._rows.append(fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, trace
        if self.as_json and (self._rows or error is None):
            print_json(self._rows)


def show_progress(text: str, *, as_json: bool) -> None:
    """How far a command is: a line for people. With JSON, stdout has the result only, and a terminal the progress."""
    if not as_json:
        click.echo(text)
    elif sys.stderr.isatty():
        click.echo(text, err=True)
