"""Checks the audit records of a pipeline: what is missing, what is there twice, what does not add up."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from ottla.pipelines.audit.report import ROLES, Offsets, Report, Role, SourceRange, checksum_sum

Kind = Literal["gap", "repeat", "imbalance"]


class Finding(Struct, frozen=True):
    """A gap, a repeat or an imbalance."""

    kind: Kind
    sink: str
    batch: int
    window_start_ms: int
    message: str


class Total(Struct, frozen=True):
    """The rows of a step in one window; each batch is counted once."""

    window_start_ms: int
    sink: str
    step: str
    rows: dict[Role, int]
    """The number of rows by role. Roles that are not counted are missing."""
    checksums: dict[Role, str]
    dropped: dict[str, int] = {}
    """The number of dropped rows by reason."""


class Balance(Struct, frozen=True):
    """The result of the audit of a pipeline."""

    batches: int
    """The number of reported batches; each is counted once."""
    repeated: int
    """Batches that are reported more than once, and equally: they ran again after a restart."""
    totals: list[Total]
    findings: list[Finding]


def balance_of(reports: Iterable[Report]) -> Balance:
    """Check the reports of one pipeline, in any order.

    - gap: a batch is not reported, or a batch does not begin at the offsets where the one before ended.
    - repeat: two reports of one batch differ, or a batch begins before the one before ended.
    - imbalance: of a step that keeps its rows within the batch, in is not out + dropped + dead letters.

    The first batch that is reported may have any number: older records expire with their topic.
    """
    by_query: dict[tuple[str, str], dict[int, list[Report]]] = {}
    for report in reports:
        by_query.setdefault((report.sink, report.query_id), {}).setdefault(report.batch, []).append(report)
    findings: list[Finding] = []
    once: list[Report] = []
    repeated = 0
    for batches in by_query.values():
        in_order = [batches[number] for number in sorted(batches)]
        for same in in_order:
            repeated += len(same) > 1
            findings += _differences(same)
            findings += _imbalances(same[0])
        firsts = [same[0] for same in in_order]
        once += firsts
        for before, after in pairwise(firsts):
            findings += _between(before, after)
    for before, after in _changes_of_checkpoint(by_query):
        findings += _offsets_between(before, after, f"checkpoint {after.query_id} began")
    findings.sort(key=lambda each: (each.sink, each.window_start_ms, each.batch, each.kind))
    return Balance(len(once), repeated, _totals(once), findings)


def _differences(same: list[Report]) -> Iterator[Finding]:
    first = same[0]
    for other in same[1:]:
        if (first.sources, first.points, first.rows) != (other.sources, other.points, other.rows):
            said = "; ".join(_what_differs(first, other))
            message = f"batch {first.batch} is reported twice and differently: {said}"
            yield _finding("repeat", other, message)


def _what_differs(first: Report, other: Report) -> Iterator[str]:
    for one, two in zip(first.sources, other.sources, strict=False):
        if (one.start, one.end) != (two.start, two.end):
            yield f"it read {_range(one)}, then {_range(two)}"
    counts = {(each.step, each.role, each.reason): each for each in other.points}
    for each in first.points:
        again = counts.get((each.step, each.role, each.reason))
        if again is not None and each.rows != again.rows:
            yield f"{each.step} {each.role} {each.rows} rows, then {again.rows}"
        elif again is not None and each.checksum != again.checksum:
            yield f"{each.step} {each.role} other rows, as many"
        elif again is None:
            yield f"{each.step} {each.role} {each.rows} rows, then not counted"
    if first.rows != other.rows:
        yield f"{first.rows} rows read, then {other.rows}"


def _imbalances(report: Report) -> Iterator[Finding]:
    rows: dict[str, dict[Role, int]] = {}
    for each in report.points:
        counted = rows.setdefault(each.step, {})
        counted[each.role] = counted.get(each.role, 0) + each.rows
    for step in dict.fromkeys(each.step for each in report.points if each.balanced):
        found = rows[step]
        out = sum(found.get(role, 0) for role in ROLES[1:])
        if found.get("in", 0) != out:
            parts = " + ".join(f"{found[role]} {role.replace('_', ' ')}" for role in ROLES[1:] if role in found)
            message = f"batch {report.batch}, step {step}: {found.get('in', 0)} in, but {parts or 'nothing out'}"
            yield _finding("imbalance", report, message)


def _between(before: Report, after: Report) -> Iterator[Finding]:
    missing = after.batch - before.batch - 1
    if missing:
        first, last = before.batch + 1, after.batch - 1
        numbers = f"batch {first} is" if missing == 1 else f"batches {first} to {last} are"
        skipped = ", ".join(text for kind, text in _offset_steps(before, after) if kind == "gap")
        message = f"{numbers} not reported" + (f": offsets {skipped}" if skipped else "")
        yield _finding("gap", after, message)
        return
    yield from _offsets_between(before, after, f"batch {after.batch} begins")


def _offsets_between(before: Report, after: Report, what: str) -> Iterator[Finding]:
    for kind, text in _offset_steps(before, after):
        how = "and leaves out" if kind == "gap" else "and reads again"
        yield _finding(kind, after, f"{what} {how} offsets {text}")


def _offset_steps(before: Report, after: Report) -> Iterator[tuple[Kind, str]]:
    """Where the second does not begin at the end of the first; a partition that one of them does not know is new."""
    for one, two in zip(before.sources, after.sources, strict=False):
        for topic, partitions in two.start.items():
            for number, start in partitions.items():
                end = one.end.get(topic, {}).get(number, start)
                if start != end:
                    kind: Kind = "gap" if start > end else "repeat"
                    yield kind, f"{min(start, end)} to {max(start, end) - 1} of {topic}-{number}"


def _changes_of_checkpoint(
    by_query: dict[tuple[str, str], dict[int, list[Report]]],
) -> Iterator[tuple[Report, Report]]:
    """The last report of a checkpoint and the first of the one that the sink had after it, if that began at batch 0."""
    by_sink: dict[str, list[tuple[Report, Report]]] = {}
    for (sink, _), batches in by_query.items():
        by_sink.setdefault(sink, []).append((batches[min(batches)][0], batches[max(batches)][-1]))
    for spans in by_sink.values():
        spans.sort(key=lambda each: each[0].at_ms)
        for (_, last), (first, _) in pairwise(spans):
            if first.batch == 0:
                yield last, first


def _totals(once: list[Report]) -> list[Total]:
    rows: dict[tuple[int, str, str], dict[Role, int]] = {}
    checksums: dict[tuple[int, str, str], dict[Role, list[str]]] = {}
    reasons: dict[tuple[int, str, str], dict[str, int]] = {}
    for report in sorted(once, key=lambda each: each.batch):
        for each in report.points:
            place = (report.window_start_ms, report.sink, each.step)
            counted = rows.setdefault(place, {})
            counted[each.role] = counted.get(each.role, 0) + each.rows
            if each.reason and each.rows:
                dropped = reasons.setdefault(place, {})
                dropped[each.reason] = dropped.get(each.reason, 0) + each.rows
            checksums.setdefault(place, {}).setdefault(each.role, []).append(each.checksum)
    return [
        Total(
            *place,
            counted,
            {role: checksum_sum(found) for role, found in checksums[place].items()},
            reasons.get(place, {}),
        )
        for place, counted in sorted(rows.items(), key=lambda each: each[0][:2])
    ]


def _range(source: SourceRange) -> str:
    return f"{_text(source.start)} to {_text(source.end)}"


def _text(offsets: Offsets) -> str:
    return ",".join(
        f"{topic}-{number}@{at}" for topic, parts in sorted(offsets.items()) for number, at in parts.items()
    )


def _finding(kind: Kind, report: Report, message: str) -> Finding:
    return Finding(kind, report.sink, report.batch, report.window_start_ms, message)
