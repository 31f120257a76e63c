"""Finds what a broker did with a history that it must not do. Pure: a history and a final state in, violations out.

An unknown outcome is given every benefit: such a record may be there or not, but only once, in its place, unchanged.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chaos.history import Commit, Delivery, FinalState, History, Send
from ottla.simulation.anomaly import Anomaly, Violation
from ottla.simulation.history import Outcome, Partition
from workload.payload import Payload

Commits = dict[tuple[str, Partition], list[Commit]]
"""Those of each group and partition."""


def check(history: History, final: FinalState) -> list[Violation]:
    """Everything that is wrong."""
    commits: Commits = defaultdict(list)
    for commit in history.commits:
        commits[commit.group, commit.partition].append(commit)
    return [
        *_check_logs(history, final),
        *_check_deliveries(history, final, commits),
        *_check_commits(history, commits),
        *_check_topics(history, final),
    ]


def _check_logs(history: History, final: FinalState) -> Iterator[Violation]:
    sends: dict[Partition, dict[Payload, Send]] = defaultdict(dict)
    for send in history.sends:
        sends[send.partition][send.payload] = send
    for partition in sorted(sends.keys() | final.records.keys()):
        records = final.records.get(partition, [])
        yield from _check_offsets(partition, records)
        yield from _check_contents(partition, records, sends[partition])
        yield from _check_acknowledged(partition, records, sends[partition])


def _check_offsets(partition: Partition, records: list[tuple[int, Payload | None]]) -> Iterator[Violation]:
    for (before, _), (after, _) in pairwise(records):
        if after != before + 1:
            yield Violation(Anomaly.GAP, f"{_name(partition)}: offset {after} comes after {before}")
    if records and records[0][0] != 0:
        yield Violation(Anomaly.GAP, f"{_name(partition)}: begins at offset {records[0][0]}")


def _check_contents(
    partition: Partition, records: list[tuple[int, Payload | None]], sends: dict[Payload, Send]
) -> Iterator[Violation]:
    seen: dict[Payload, int] = {}
    newest: dict[str, int] = {}
    for offset, payload in records:
        where = f"{_name(partition)} offset {offset}"
        if payload is None:
            yield Violation(Anomaly.CHANGED, where)
            continue
        send = sends.get(payload)
        if send is None:
            yield Violation(Anomaly.PHANTOM, f"{where}: {payload}")
        elif send.outcome is Outcome.FAIL:
            yield Violation(Anomaly.REFUSED, f"{where}: {payload}")
        if payload in seen:
            yield Violation(Anomaly.DUPLICATE, f"{where}: {payload} is at offset {seen[payload]} as well")
            continue
        if payload.number < newest.get(payload.producer, -1):
            yield Violation(Anomaly.REORDERED, f"{where}: {payload} after number {newest[payload.producer]}")
        newest[payload.producer] = max(payload.number, newest.get(payload.producer, -1))
        seen[payload] = offset


def _check_acknowledged(
    partition: Partition, records: list[tuple[int, Payload | None]], sends: dict[Payload, Send]
) -> Iterator[Violation]:
    at = dict(records)
    present = {payload for _, payload in records}
    for payload, send in sends.items():
        if send.outcome is not Outcome.OK or at.get(send.offset) == payload:
            continue
        where = f"{_name(partition)}: {payload}, acknowledged at offset {send.offset}"
        if payload in present:
            yield Violation(Anomaly.REORDERED, f"{where}, is elsewhere")
        elif at.get(send.offset, payload) is None:
            yield Violation(Anomaly.CHANGED, where)
        else:
            yield Violation(Anomaly.LOST, where)


def _check_deliveries(history: History, final: FinalState, commits: Commits) -> Iterator[Violation]:
    at = {partition: dict(records) for partition, records in final.records.items()}
    delivered: dict[tuple[str, Partition], set[int]] = defaultdict(set)
    for delivery in history.deliveries:
        content = at.get(delivery.partition, {})
        for offset, payload in delivery.records:
            if offset not in content or content[offset] != payload:
                yield Violation(
                    Anomaly.UNREAD, f"{delivery.group}, {_name(delivery.partition)} offset {offset}: {payload}"
                )
        offsets = [offset for offset, _ in delivery.records]
        for before, after in pairwise(offsets):
            if after != before + 1:
                kind = Anomaly.SKIPPED if after > before else Anomaly.REDELIVERED
                yield Violation(kind, f"{delivery.group}, {_name(delivery.partition)}: {after} comes after {before}")
        delivered[delivery.group, delivery.partition].update(offsets)
        yield from _check_start(delivery, commits[delivery.group, delivery.partition])
    for (group, partition), seen in delivered.items():
        missing = at.get(partition, {}).keys() - seen
        if missing:
            where = f"{group}, {_name(partition)}: {len(missing)} records from offset {min(missing)} on"
            yield Violation(Anomaly.SKIPPED, where)


def _check_start(delivery: Delivery, commits: list[Commit]) -> Iterator[Violation]:
    """A member begins at the committed offset: not below what was acknowledged, not above what was asked for."""
    if not delivery.records:
        return
    first = delivery.records[0][0]
    least, most = _committed_range(commits, delivery.assigned_at)
    where = f"{delivery.group}, {_name(delivery.partition)}: begins at {first}"
    if first < least:
        yield Violation(Anomaly.REDELIVERED, f"{where}, {least} was committed")
    elif first > most:
        yield Violation(Anomaly.SKIPPED, f"{where}, nobody committed more than {most}")


def _check_commits(history: History, commits: Commits) -> Iterator[Violation]:
    for seen in history.committed_offsets:
        least, most = _committed_range(commits[seen.group, seen.partition], seen.invoked_at)
        where = f"{seen.group}, {_name(seen.partition)}: {seen.offset}"
        if (seen.offset or 0) < least:
            yield Violation(Anomaly.COMMIT_LOST, f"{where}, {least} was acknowledged before")
        elif (seen.offset or 0) > most:
            yield Violation(Anomaly.COMMIT_INVENTED, f"{where}, nobody committed more than {most}")


def _committed_range(commits: list[Commit], at: float) -> tuple[int, int]:
    """The least and the most of what was committed that can be there when somebody asks at a time."""
    least = most = 0
    for commit in commits:
        if commit.outcome is not Outcome.FAIL:
            most = max(most, commit.offset)
            if commit.outcome is Outcome.OK and commit.completed_at < at:
                least = max(least, commit.offset)
    return least, most


def _check_topics(history: History, final: FinalState) -> Iterator[Violation]:
    for creation in history.topic_creations:
        found = final.topics.get(creation.topic, 0)
        if creation.outcome is Outcome.OK and found != creation.partition_count:
            where = f"{creation.topic} has {found} of {creation.partition_count} partitions"
            yield Violation(Anomaly.TOPIC_LOST, where)


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
