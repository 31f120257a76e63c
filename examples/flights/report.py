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
    told_twice: int
    event_bytes: int
    broker_away_seconds: float
    unacknowledged_at_kill: int
    next_acknowledgement_seconds: float | None
    """After the kill."""
    next_batch_seconds: dict[str, float | None]
    """After the broker was ready again, by query."""
    started_again: dict[str, list[str]]
    """Queries that failed while the broker was away, and why; none when they only waited."""
    records_read: dict[str, int]
    micro_batches: dict[str, int]
    pipeline_seconds: float
    """From the first event sent to the last window written."""
    warnings: int
    windows: int
    table_rows: int
    dead_letters: dict[str, int]
    audited_batches: int
    archived_records: int
    archive_bytes: int
    seconds: dict[str, float]
    differences: list[str]
    files: dict[str, str]

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")

    def show(self, console: Console) -> None:
        """As a table, and where the files are."""
        table = Table(title="Flights through Ottla and Spark", title_justify="left", show_header=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        read = min(self.records_read.values(), default=0)
        table.add_row("sent", f"{self.events:,} events of {self.flights:,} flights, {self.event_bytes / 1e6:,.0f} MB")
        table.add_row("planted", f"{self.malformed:,} malformed, {self.told_twice:,} told a second time")
        rate = read / self.pipeline_seconds
        table.add_row(
            "through the pipeline",
            f"{read:,} records by each of {len(self.records_read)} sinks in {self.pipeline_seconds:.0f} s, outage and "
            f"start of Spark included: {rate:,.0f} records/s each",
        )
        table.add_row("broker killed", f"away for {self.broker_away_seconds:.1f} s; nobody touched the pipeline")
        table.add_row("windows", f"{self.windows:,} of one carrier and hour, each in its topic once")
        table.add_row("table", f"{self.table_rows:,} events, each once")
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.dead_letters.items())
        table.add_row("dead letters", f"{sum(self.dead_letters.values()):,}: {reasons}")
        table.add_row("archive", f"{self.archived_records:,} records in {self.archive_bytes / 1e6:,.0f} MB of Parquet")
        table.add_row("all together", f"{sum(self.seconds.values()):.0f} s")
        right = "[green]everything as computed independently, and the audit balances"
        table.add_row("result", "[red]differs, see below" if self.differences else right)
        for what, path in self.files.items():
            table.add_row(what, path)
        console.print(table)
