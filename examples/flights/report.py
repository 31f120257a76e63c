"""What the demo did: a table for people, and the same facts as JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Report:
    """The facts of one run; rates are a second."""

    flights: int
    events: int
    malformed: int
    event_bytes: int
    produced_seconds: float
    produced_events_rate: int
    read_rows: int
    read_seconds: float
    read_rows_rate: int
    micro_batches: int
    late_rows_dropped: int
    windows: int
    dead_letters: dict[str, int]
    seconds: dict[str, float]
    differences: list[str]
    files: dict[str, str]

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")

    def show(self, console: Console) -> None:
        """As a table, and where the files are."""
        table = Table(title="Flights through Ottla and Spark", title_justify="left", show_header=False)
        table.add_column(style="cyan")
        table.add_column()
        table.add_row("flights", f"{self.flights:,}")
        table.add_row("events", f"{self.events:,} and {self.malformed:,} malformed, {self.event_bytes / 1e6:,.0f} MB")
        table.add_row("into the broker", f"{self.produced_seconds:.1f} s, {self.produced_events_rate:,} events/s")
        table.add_row(
            "through Spark",
            f"{self.read_seconds:.1f} s, {self.read_rows_rate:,} rows/s in 2 queries, {self.micro_batches} batches",
        )
        table.add_row("windows", f"{self.windows:,} of one carrier and hour, {self.late_rows_dropped:,} rows too late")
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.dead_letters.items())
        table.add_row("dead letters", f"{sum(self.dead_letters.values()):,}: {reasons}")
        table.add_row("all together", f"{sum(self.seconds.values()):.0f} s")
        right = "[green]every window and every dead letter as computed independently"
        table.add_row("result", "[red]differs, see below" if self.differences else right)
        for what, path in self.files.items():
            table.add_row(what, path)
        console.print(table)
