"""How results are shown: aligned tables for people, JSON for machines."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ottla.model.printable import printable

_GAP = "  "


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Rows under their column names, each column as wide as its widest cell; columns in `right` to the right.

    None is shown as a dash. Nothing is cut off, however narrow the terminal, so that pipes get whole values.

    >>> print_table(["TOPIC", "LAG"], [["a", 5], ["events", None]], right=["LAG"])
    TOPIC   LAG
    a         5
    events    -
    """
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo(_GAP.join(parts).rstrip())


def print_json(value: Any) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Names of groups, of steps and of whatever else strangers make up do not steer the terminal.
    return printable(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
