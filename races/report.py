"""What a run showed, as tables for people and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from ottla.simulation.anomaly import Violation
from races.check_process import is_complaint
from races.history import History
from races.kafka_errors import name_of
from races.round import RoundResult

FINDINGS_SHOWN_MAX = 30
EXCERPT_LINES_MAX = 24
EXCERPT_S = 2.0
"""How much of the history around a violation is shown."""


@dataclass(slots=True)
class Finding:
    """A violation, with what went on around it."""

    round_number: int
    violation: Violation
    after_s: float
    """Since the run began."""
    excerpt: list[str]


@dataclass(slots=True)
class Report:
    """All rounds."""

    seed: int
    seconds: float = 0.0
    rounds: Counter[str] = field(default_factory=Counter)
    phases_s: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    memory_mib: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is wrong beyond the rounds."""

    def add(self, result: RoundResult, at_s: float) -> None:
        """A round has ended."""
        self.seconds = at_s
        self.rounds[result.kind.value] += 1
        self.phases_s.update(result.phases_s)
        self.operations.update(result.operations)
        self.errors.update(result.errors)
        history = result.history
        self.records["sent"] += sum(each.count for each in history.appends)
        self.records["acknowledged"] += sum(each.count for each in history.appends if each.is_acknowledged)
        self.records["read"] += sum(len(each.records) for each in history.reads)
        self.records["lives of topics"] += len(history.lives)
        self.records["connections"] += len(history.connections)
        self.records["commits acknowledged"] += sum(each.error == 0 for each in history.commits)
        self.records["violations"] += len(result.violations)
        if history.remains.memory_mib:
            self.memory_mib.append(round(history.remains.memory_mib[-1], 1))

    def by_kind(self) -> dict[str, tuple[int, float]]:
        """How often each kind of violation was found, and after how many seconds first."""
        found: dict[str, tuple[int, float]] = {}
        for finding in self.findings:
            count, first = found.get(finding.violation.anomaly.name, (0, finding.after_s))
            found[finding.violation.anomaly.name] = count + 1, min(first, finding.after_s)
        return found

    def as_json(self) -> dict[str, object]:
        """As plain values."""
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "rounds": dict(self.rounds),
            "phases_s": {name: round(seconds, 1) for name, seconds in self.phases_s.items()},
            "records": dict(self.records),
            "operations": dict(self.operations.most_common()),
            "errors": dict(self.errors.most_common()),
            "memory_mib": self.memory_mib,
            "violations": {
                name: {"count": count, "first_s": round(at, 1)} for name, (count, at) in self.by_kind().items()
            },
            "findings": [
                {
                    "seed": self.seed,
                    "round": each.round_number,
                    "after_s": round(each.after_s, 2),
                    "what": str(each.violation),
                    "excerpt": each.excerpt,
                }
                for each in self.findings
            ],
            "problems": self.problems,
        }

    def show(self, console: Console) -> None:
        """Print the tables."""
        rounds = ", ".join(f"{count} {name}" for name, count in self.rounds.items())
        console.print(f"{self.seconds:.0f} s, seed {self.seed}, rounds: {rounds}")
        table = Table("what", "how many")
        for name, count in self.records.items():
            table.add_row(name, f"{count:,}")
        console.print(table)
        table = Table("answers of", "how many", "errors")
        for name, count in self.operations.most_common():
            errors = [(key.split()[1], value) for key, value in self.errors.most_common() if key.split()[0] == name]
            table.add_row(name, f"{count:,}", ", ".join(f"{key} {value:,}" for key, value in errors))
        console.print(table)
        if self.findings:
            table = Table("violation", "how often", "first after s")
            for name, (count, first) in self.by_kind().items():
                table.add_row(name, str(count), f"{first:.1f}")
            console.print(table)
        shown: Counter[str] = Counter()
        for finding in self.findings:
            shown[finding.violation.anomaly.name] += 1
            if shown[finding.violation.anomaly.name] > 3 or sum(shown.values()) > FINDINGS_SHOWN_MAX:
                continue
            console.print(f"[red]round {finding.round_number}, {finding.after_s:.1f} s: {finding.violation}")
            for line in finding.excerpt:
                console.print(f"    {line}", highlight=False, markup=False)
        for problem in self.problems:
            console.print(f"[red]{problem}")
        total = len(self.findings) + len(self.problems)
        console.print("nothing was found wrong" if not total else f"{total} violations")


def excerpt(history: History, violation: Violation) -> list[str]:
    """The lives of the topic it is about, what was asked about that topic around then, and what the broker wrote."""
    topic = next((life.topic for life in history.lives if life.topic in violation.where), None)
    lines = [
        f"life {life.number} of {life.topic}: create asked {_at(life.create_asked_at, violation)}, created"
        f" {_at(life.created_at, violation)}, delete asked {_at(life.delete_asked_at, violation)}, deleted"
        f" {_at(life.deleted_at, violation)}, id {life.topic_id}"
        for life in history.lives
        if life.topic == topic and abs(life.create_asked_at - violation.at) < 5 * EXCERPT_S
    ]
    lines += [
        f"{'killed' if outage.is_kill else 'stopped'} {_at(outage.begun_at, violation)}, ready"
        f" {_at(outage.ended_at, violation)}"
        for outage in history.outages
    ]
    around = [
        (exchange.sent_at, connection.name, exchange)
        for connection in history.connections
        for exchange in connection.exchanges
        if abs(exchange.sent_at - violation.at) < EXCERPT_S and topic is not None and topic in exchange.about
    ]
    around.sort(key=lambda each: abs(each[0] - violation.at))
    for sent_at, name, exchange in sorted(around[:EXCERPT_LINES_MAX], key=lambda each: each[0]):
        errors = ",".join(name_of(code) for code in exchange.errors)
        lines.append(
            f"{_at(sent_at, violation)} {name} #{exchange.number} {exchange.api} v{exchange.version} {exchange.about}"
            f" -> {_at(exchange.answered_at, violation)} {errors}"
        )
    lines += [f"log: {line}" for line in history.log_lines if is_complaint(line)][:EXCERPT_LINES_MAX]
    return lines


def _at(at: float, violation: Violation) -> str:
    return "never" if at == float("inf") else f"{at - violation.at:+.3f}"
