"""What a run showed, as tables for people and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from chaos.cluster_run import ClusterReport
from chaos.crash_run import CrashReport
from chaos.queue_chapter import QueueReport
from chaos.stage import TroubleOutcome


@dataclass(slots=True)
class Report:
    """Everything that was run, and what could not be, with the reason."""

    crashes: list[CrashReport] = field(default_factory=list)
    clusters: list[ClusterReport] = field(default_factory=list)
    queues: list[QueueReport] = field(default_factory=list)
    troubles: list[TroubleOutcome] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """Whatever must not be."""
        found = [f"{report.kind}: {violation}" for report in self.crashes for violation in report.violations]
        found += [f"cluster: {violation}" for report in self.clusters for violation in report.violations]
        found += [f"{report.what}: {violation}" for report in self.queues for violation in report.violations]
        return found + [f"{trouble.name}: {problem}" for trouble in self.troubles for problem in trouble.problems]

    def as_json(self) -> dict[str, object]:
        """As plain values."""
        return {
            "crashes": [report.as_json() for report in self.crashes],
            "clusters": [report.as_json() for report in self.clusters],
            "queues": [report.as_json() for report in self.queues],
            "troubles": [{"name": each.name, "facts": each.facts, "problems": each.problems} for each in self.troubles],
            "left_out": self.left_out,
            "problems": len(self.problems),
        }

    def show(self, console: Console) -> None:
        """Print the tables."""
        if self.crashes:
            console.print(_crash_table(self.crashes))
            console.print(_moment_table(self.crashes))
        for report in self.clusters:
            console.print(_cluster_table(report))
        for queue in self.queues:
            console.print(_queue_table(queue))
            if queue.late_ms:
                console.print(_lateness_table(queue))
        if self.troubles:
            console.print(_trouble_table(self.troubles))
        for name, reason in self.left_out.items():
            console.print(f"[yellow]{name} was left out: {reason}")
        for problem in self.problems[:PROBLEMS_SHOWN_MAX]:
            console.print(f"[red]{problem}", highlight=False)
        if len(self.problems) > PROBLEMS_SHOWN_MAX:
            console.print(f"[red]and {len(self.problems) - PROBLEMS_SHOWN_MAX} more")
        console.print("nothing was found wrong" if not self.problems else f"{len(self.problems)} problems")


PROBLEMS_SHOWN_MAX = 50


def _crash_table(reports: Sequence[CrashReport]) -> Table:
    table = Table("", *(report.kind for report in reports), title="crashes under load")
    table.add_row("rounds", *(str(len(report.rounds)) for report in reports))
    for name in reports[0].counts():
        table.add_row(name, *(f"{report.counts().get(name, 0):,}" for report in reports))
    for name in reports[0].recovery():
        cells = []
        for report in reports:
            found = report.recovery().get(name)
            cells.append("-" if found is None else f"{found['p50']:.2f} / {found['p90']:.2f} / {found['max']:.2f}")
        what = name if name == "broker ready" else f"next acknowledged write, {name}"
        table.add_row(f"s from crash to {what}: p50 / p90 / max", *cells)
    table.add_row("violations", *(str(len(report.violations)) for report in reports))
    return table


def _moment_table(reports: Sequence[CrashReport]) -> Table:
    table = Table("crashed during", *(report.kind for report in reports))
    for name in dict.fromkeys(name for report in reports for name in report.moments()):
        table.add_row(name, *(str(report.moments().get(name, 0)) for report in reports))
    return table


def _cluster_table(report: ClusterReport) -> Table:
    table = Table("what was done", "rounds", "s without an acknowledgement", "s until all were in sync")
    table.title = f"a cluster under load: {len(report.rounds)} rounds"
    for name, seconds in report.by_fault().items():
        cells = [f"{each['p50']:.2f} / {each['p90']:.2f} / {each['max']:.2f}" for each in seconds.values()]
        table.add_row(name, str(sum(each.fault == name for each in report.rounds)), *cells)
    table.caption = "p50 / p90 / max; " + ", ".join(f"{name}: {count:,}" for name, count in report.counts().items())
    return table


def _queue_table(report: QueueReport) -> Table:
    table = Table("what was done", "rounds", "s until all was done, at most", "leaders that moved")
    table.title = f"{report.what}: {len(report.rounds)} rounds"
    for name in dict.fromkeys(each.fault for each in report.rounds):
        rounds = [each for each in report.rounds if each.fault == name]
        moved = [each.moved for each in rounds if each.moved is not None]
        slowest = max(each.done_s for each in rounds)
        table.add_row(name, str(len(rounds)), f"{slowest:.1f}", str(sum(moved)) if moved else "")
    table.caption = ", ".join(f"{name}: {count:,}" for name, count in report.counts.items())
    by_moves = report.rounds_by_moves()
    if by_moves:
        told = ", ".join(f"{moved} in {count}" for moved, count in by_moves.items())
        table.caption += f"; leaders that moved: {told} rounds"
    return table


def _lateness_table(report: QueueReport) -> Table:
    table = Table("due", "records", "late by p50, ms", "p99", "max")
    table.title = f"{report.what}: how late records came"
    for name, each in report.lateness().items():
        table.add_row(name, *(f"{number:,}" for number in each.values()))
    return table


def _trouble_table(troubles: Sequence[TroubleOutcome]) -> Table:
    table = Table("trouble", "what came of it", "problems", title="disks")
    for trouble in troubles:
        facts = "\n".join(f"{name}: {value}" for name, value in trouble.facts.items())
        table.add_row(trouble.name, facts, str(len(trouble.problems)), end_section=True)
    return table
