"""Everything that came out checked, drawn and reported."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console

from examples.flights.archived import Archived, archive, restored
from examples.flights.course import draw_course
from examples.flights.files import DemoFiles
from examples.flights.picture import draw
from examples.flights.read_back import DeadLetter
from examples.flights.report import Report
from examples.flights.run import Run
from examples.flights.steps import Step
from examples.flights.topics import TOPICS
from examples.flights.verify import (
    Audited,
    Sent,
    verify_audit,
    verify_dead_letters,
    verify_delays,
    verify_numbers,
    verify_table,
)


@dataclass
class Found:
    """What the checks found."""

    table: pd.DataFrame
    letters: Sequence[DeadLetter]
    audited: Audited
    archived: Archived
    differences: list[str]


def checked(running: Run, files: DemoFiles, sent: Sent, console: Console) -> list[str]:
    """Check everything that came out, draw it, and report."""
    steps = running.steps
    found = _found(running, files, sent)
    with steps.step("pictures") as step:
        _write_dead_letters(found.letters, files)
        draw(found.table, files.delays, _period(found.table))
        draw_course(running.course, files.course, f"{sent.records:,} events through a pipeline, its broker killed once")
        step.detail = ", ".join(str(path) for path in (files.delays, files.course, files.graph))
    report = _report(running, files, sent, found)
    report.write(files.report)
    report.show(console)
    return found.differences


def _found(running: Run, files: DemoFiles, sent: Sent) -> Found:
    steps, bootstrap = running.steps, running.broker.bootstrap
    differences = verify_numbers(running.pipeline.queries, sent)
    with steps.step("topic of delays") as step:
        table, wrong = verify_delays(bootstrap, sent.days)
        _judge(step, wrong, differences, f"{len(table):,} windows, each once, as pandas computes them from the source")
    with steps.step("table of events") as step:
        wrong = verify_table(files, sent)
        _judge(step, wrong, differences, f"{sent.good:,} events, each once, with every value")
    with steps.step("dead letters") as step:
        letters, wrong = verify_dead_letters(bootstrap, sent)
        reasons = len({letter.reason for letter in letters})
        planted = f"{len(sent.feed.malformed)} planted"
        _judge(step, wrong, differences, f"all {planted}, each once, with its origin and one of {reasons} reasons")
    with steps.step("audit") as step:
        audited = verify_audit(bootstrap, files, sent)
        again = f", {audited.repeated} of them reported again, and equal" if audited.repeated else ""
        _judge(step, audited.differences, differences, f"{audited.batches} micro-batches{again}: it balances")
    with steps.step("archive") as step:
        archived = archive(bootstrap, files)
        size = f"{archived.records:,} records of {archived.topics} topics in {archived.bytes / 1e6:,.0f} MB of Parquet"
        _judge(step, archived.differences, differences, f"{size}, verified")
    with steps.step("archive restored") as step:
        wrong = restored(bootstrap, files, TOPICS)
        _judge(step, wrong, differences, "into an empty broker: equal records at equal offsets")
    return Found(table, letters, audited, archived, differences)


def _judge(step: Step, wrong: Sequence[str], differences: list[str], right: str) -> None:
    differences += wrong
    step.failed = bool(wrong)
    step.detail = wrong[0] if wrong else right


def _report(running: Run, files: DemoFiles, sent: Sent, found: Found) -> Report:
    course, queries = running.course, running.pipeline.queries
    restarts = [each for each in running.pipeline.happenings if each.kind == "restart"]
    began, ended = course.acknowledged[0][0], max(points[-1][0] for points in course.queries.values())
    return Report(
        flights=sent.events.flights,
        events=len(sent.events),
        malformed=len(sent.feed.malformed),
        told_twice=sent.feed.told_twice,
        event_bytes=sum(map(len, sent.events.values)) + sum(map(len, sent.events.keys)),
        broker_away_seconds=course.ready - course.killed,
        unacknowledged_at_kill=running.unacknowledged,
        next_acknowledgement_seconds=course.next_acknowledgement,
        next_batch_seconds={name: course.next_batch(name) for name in running.queries},
        started_again={
            name: [each.reason for each in restarts if each.query == name]
            for name in running.queries
            if any(each.query == name for each in restarts)
        },
        records_read={name: seen.rows for name, seen in queries.items()},
        micro_batches={name: seen.batches for name, seen in queries.items()},
        pipeline_seconds=ended - began,
        warnings=max(seen.warnings for seen in queries.values()),
        windows=len(found.table),
        table_rows=sent.good,
        dead_letters=dict(sorted(Counter(letter.reason for letter in found.letters).items())),
        audited_batches=found.audited.batches,
        archived_records=found.archived.records,
        archive_bytes=found.archived.bytes,
        seconds=running.steps.seconds,
        differences=found.differences,
        files={
            "pipeline": str(files.pipeline),
            "its graph": str(files.graph),
            "table": str(files.table),
            "pictures": f"{files.delays}, {files.course}",
            "dead letters": str(files.dead_letters),
            "archive": str(files.archive),
            "report": str(files.report),
        },
    )


def _period(table: pd.DataFrame) -> str:
    days = table["hour"].dt.tz_convert("America/New_York").dt.date
    return f"{days.min():%-d %B} to {days.max():%-d %B %Y}"


def _write_dead_letters(letters: Sequence[DeadLetter], files: DemoFiles) -> None:
    ordered = sorted(letters, key=lambda letter: (letter.partition, letter.offset))
    files.dead_letters.write_text(
        "".join(json.dumps(letter.to_json(), ensure_ascii=False) + "\n" for letter in ordered), encoding="utf-8"
    )
