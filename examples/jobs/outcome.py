"""What became of the jobs, from what the workers wrote."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from examples.jobs.jobs import KINDS, Job

MANY_JOBS = 200
"""Of so many jobs the workers of each library do some, whoever starts first."""


@dataclass(frozen=True)
class Line:
    """A line of a worker's log."""

    worker: str
    job: int
    event: str
    attempt: int
    at_ms: int


@dataclass
class Outcome:
    """All lines, and what is wrong with them."""

    jobs: Sequence[Job]
    lines: list[Line]
    letters: int
    unfinished: int
    """Records that the group has not settled at the end, as the broker says."""
    mistakes: list[str] = field(default_factory=list)

    @property
    def done(self) -> Counter[int]:
        """How often each job was accepted."""
        return Counter(line.job for line in self.lines if line.event == "done")

    def by_library(self) -> Counter[str]:
        """How many jobs the workers of each library did."""
        return Counter(line.worker.rpartition("-")[0] for line in self.lines if line.event == "done")

    def tries(self) -> Mapping[int, int]:
        """How often each job was begun."""
        return Counter(line.job for line in self.lines if line.event == "begun")


def lines_of(logs: Iterable[Path]) -> list[Line]:
    """What workers wrote; a line that a killed worker did not finish is left out."""
    found: list[Line] = []
    for path in logs:
        whole = (text for text in path.read_text().splitlines(keepends=True) if text.endswith("\n"))
        found += (Line(path.stem, **json.loads(text)) for text in whole)
    return sorted(found, key=lambda line: line.at_ms)


def check(outcome: Outcome, killed: Sequence[str], libraries: Iterable[str]) -> None:
    """Note what is wrong: a job that was not done once, one that began early, letters that do not add up; of many jobs
    none for the workers of a library.
    """
    done, tries = outcome.done, outcome.tries()
    last_begun = {line.job: line.worker for line in outcome.lines if line.event == "begun"}
    begun = defaultdict(list)
    for line in outcome.lines:
        if line.event == "begun":
            begun[line.job].append(line.at_ms)
    for job in outcome.jobs:
        count = done[job.number]
        # A worker may be killed between the broker's answer and its own line; the broker counts then.
        said_by_broker = not outcome.unfinished and last_begun.get(job.number) in killed
        if count > 1 or (count == 0 and not said_by_broker):
            outcome.mistakes.append(
                f"job {job.number} ({job.kind}) was done {count} times in {tries.get(job.number, 0)} tries"
            )
        if job.due_ms and begun[job.number] and begun[job.number][0] < job.due_ms:
            outcome.mistakes.append(f"job {job.number} began {job.due_ms - begun[job.number][0]} ms early")
    bad = sum(job.kind in KINDS[2:] for job in outcome.jobs)
    if outcome.letters != bad:
        outcome.mistakes.append(f"{outcome.letters} letters were sent back, of {bad} bad jobs")
    idle = set(libraries) - set(outcome.by_library())
    if idle and len(outcome.jobs) >= MANY_JOBS:
        outcome.mistakes.append(f"no job was done by {', '.join(sorted(idle))}")
    if outcome.unfinished:
        outcome.mistakes.append(f"{outcome.unfinished} records are not settled")


def table(outcome: Outcome) -> str:
    """For each kind of job: how many, done, in how many tries."""
    tries, done = outcome.tries(), outcome.done
    rows = [f"{'JOBS':<10}{'COUNT':>6}{'DONE':>6}   TRIES"]
    for kind in KINDS:
        of_kind = [job.number for job in outcome.jobs if job.kind == kind]
        counts = Counter(tries.get(number, 0) for number in of_kind)
        shown = ", ".join(f"{count} in {each}" for each, count in sorted(counts.items()))
        rows.append(f"{kind:<10}{len(of_kind):>6}{sum(done[number] for number in of_kind):>6}   {shown}")
    rows.append("done by " + ", ".join(f"{name} {count}" for name, count in sorted(outcome.by_library().items())))
    return "\n".join(rows)
