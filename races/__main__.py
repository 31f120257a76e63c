"""`python -m races`: everything people do to a broker at the same time, checked."""

import asyncio
import json
import logging
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

import click
from rich.console import Console

from races.round import RoundResult
from races.run import run

SHOWN_AT_ONCE = 5
"""Violations of a round that are said before the run ends."""


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="For how long.")
@click.option("--seed", default=1, show_default=True, help="What chance depends on.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the result there as JSON.")
@click.option("--broker-path", help="Where the broker's Python finds Ottla, to race another one than ours.")
def main(seconds: float, seed: int, json_path: Path | None, broker_path: str | None) -> None:
    """Create, delete, fill, read, restart, all at once. Ends with 1 when something was found wrong.

    \b
    Examples:
      python -m races
      python -m races --seconds 3600 --seed 7 --json build/races.json
    """
    # The clients say each second that nobody is there, or no such topic: that is what is being done to them.
    logging.disable(logging.CRITICAL)
    console = Console()
    root = Path(mkdtemp(prefix="ottla-races-"))
    console.print(f"data and the broker's log: {root}")

    def on_round(result: RoundResult) -> None:
        kinds = sorted({violation.anomaly.name.lower() for violation in result.violations})
        found = f"{len(result.violations)} violations: {', '.join(kinds)}" if kinds else "nothing wrong"
        answers = sum(result.operations.values())
        took_s = result.history.ended_at - result.begun_at
        for violation in result.violations[:SHOWN_AT_ONCE]:
            console.print(f"[red]    {violation}", highlight=False)
        console.print(f"round {result.number}, {result.kind.value}: {answers:,} answers in {took_s:.0f} s, {found}")

    report = asyncio.run(run(root, seconds, seed, on_round, broker_path))
    report.show(console)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(report.as_json(), indent=1) + "\n")
        console.print(f"written to {json_path}")
    if report.findings or report.problems:
        sys.exit(1)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
