"""Checks a history of a replicated log for violations. Pure.

Source: the anomalies that Jepsen looks for in queues and Kafka, without those of transactions. Transaction markers
would appear as gaps.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ottla.simulation.anomaly import Anomaly, Violation
from ottla.simulation.history import Commit, History, Outcome, Partition, Send


def check(history: History) -> list[Violation]:
    """All violations in a history, each once."""
    found: dict[Violation, None] = {}
    for checks in (_offsets, _contents, _acknowledged, _order, _reads, _watermarks, _leaders, _replicas, _commits):
        found.update(dict.fromkeys(checks(history)))
    return list(found)


def _log(history: History, partition: Partition) -> dict[int, str]:
    """The values of a partition in the end, by offset, as its first replica has them."""
    replicas = history.final.get(partition, {})
    return dict(replicas[min(replicas)]) if replicas else {}


def _at(partition: Partition, offset: int) -> str:
    return f"{partition[0]}-{partition[1]} offset {offset}"


def _offsets(history: History) -> Iterator[Violation]:
    """One value an offset, whoever saw it, and no offset left out in the end."""
    seen: dict[tuple[Partition, int], str] = {}
    told = [(send.partition, send.offset, send.value) for send in history.sends if send.outcome is Outcome.OK]
    told += [(poll.partition, offset, value) for poll in history.polls for offset, value in poll.records]
    for partition in history.final:
        log = _log(history, partition)
        told += [(partition, offset, value) for offset, value in log.items()]
        for before, after in pairwise(sorted(log)):
            if after != before + 1:
                yield Violation(Anomaly.GAP, f"{_at(partition, after)} comes after {before}")
    for partition, offset, value in told:
        known = seen.setdefault((partition, offset), value)
        if known != value and offset >= 0:
            yield Violation(Anomaly.INCONSISTENT_OFFSET, f"{_at(partition, offset)}: {known} and {value}")


def _contents(history: History) -> Iterator[Violation]:
    """Every value that is there was sent there, and is there once."""
    sends = {send.value: send for send in history.sends}
    there = [(poll.partition, record, poll) for poll in history.polls for record in poll.records]
    for partition, (offset, value), poll in there:
        send = sends.get(value)
        if send is not None and poll.completed and poll.completed < send.invoked:
            yield Violation(Anomaly.READ_FROM_FUTURE, f"{_at(partition, offset)}: {value}")
    everything = [(partition, record) for partition, record, _ in there]
    everything += [(partition, record) for partition in history.final for record in _log(history, partition).items()]
    for partition, (offset, value) in everything:
        send = sends.get(value)
        where = f"{_at(partition, offset)}: {value}"
        if send is None:
            yield Violation(Anomaly.PHANTOM, where)
        elif send.partition != partition:
            yield Violation(Anomaly.WRONG_PARTITION, where)
        elif send.outcome is Outcome.FAIL:
            yield Violation(Anomaly.REFUSED, where)
    if history.is_idempotent:
        for partition in history.final:
            first: dict[str, int] = {}
            for offset, value in sorted(_log(history, partition).items()):
                if first.setdefault(value, offset) != offset:
                    yield Violation(Anomaly.DUPLICATE, f"{_at(partition, offset)}: {value}, also at {first[value]}")


def _acknowledged(history: History) -> Iterator[Violation]:
    """What was acknowledged, and what was read, is there in the end, in its place."""
    for partition in history.final:
        log = _log(history, partition)
        for send in history.sends:
            if send.partition == partition and send.outcome is Outcome.OK and log.get(send.offset) != send.value:
                yield Violation(Anomaly.LOST, f"{_at(partition, send.offset)}: {send.value}")
        for poll in history.polls:
            for offset, value in poll.records:
                if poll.partition == partition and log.get(offset) != value:
                    yield Violation(Anomaly.UNREAD, f"{_at(partition, offset)}: {value}, read by {poll.reader}")


def _order(history: History) -> Iterator[Violation]:
    """Producers' own order, and that of time: what was acknowledged before another was sent is in front of it."""
    for partition in history.final:
        places = {value: offset for offset, value in sorted(_log(history, partition).items(), reverse=True)}
        sends = [send for send in history.sends if send.partition == partition and send.value in places]
        if history.is_idempotent:
            last: dict[str, Send] = {}
            for send in sorted(sends, key=lambda each: each.number):
                before = last.get(send.producer)
                if before is not None and places[send.value] < places[before.value]:
                    where = f"{_at(partition, places[send.value])}: {send.value} in front of {before.value}"
                    yield Violation(Anomaly.REORDERED, where)
                last[send.producer] = send
        known = (each for each in sends if each.outcome is Outcome.OK and each.completed > 0)
        acknowledged = sorted(known, key=lambda each: each.completed)
        newest, position = -1, 0
        for send in sorted(sends, key=lambda each: each.invoked):
            while position < len(acknowledged) and acknowledged[position].completed < send.invoked:
                newest = max(newest, acknowledged[position].offset)
                position += 1
            if send.outcome is Outcome.OK and send.offset < newest:
                yield Violation(
                    Anomaly.REAL_TIME_INVERSION, f"{_at(partition, send.offset)}: {send.value} after {newest}"
                )


def _reads(history: History) -> Iterator[Violation]:
    """A reader goes on from where it was, over nothing that is there; never to an older leader epoch."""
    position: dict[tuple[str, Partition], int] = {}
    epochs: dict[tuple[str, Partition], int] = {}
    for poll in history.polls:
        key = poll.reader, poll.partition
        log = _log(history, poll.partition)
        if poll.leader_epoch >= 0:
            if poll.leader_epoch < epochs.get(key, -1):
                where = f"{poll.reader}, {poll.partition[0]}-{poll.partition[1]}: {epochs[key]} and {poll.leader_epoch}"
                yield Violation(Anomaly.EPOCH_FELL, where)
            epochs[key] = max(poll.leader_epoch, epochs.get(key, -1))
        if poll.sought:
            position.pop(key, None)
        for offset, _ in poll.records:
            expected = position.get(key, offset)
            if offset < expected:
                yield Violation(
                    Anomaly.NONMONOTONIC_POLL, f"{poll.reader}, {_at(poll.partition, offset)}, not {expected}"
                )
            elif any(between in log for between in range(expected, offset)):
                yield Violation(Anomaly.SKIPPED, f"{poll.reader}, {_at(poll.partition, expected)}: {offset} came next")
            position[key] = offset + 1


def _watermarks(history: History) -> Iterator[Violation]:
    """Nothing above the high watermark is given, and that of a broker in its leader epoch never falls."""
    highest: dict[tuple[Partition, int, int], tuple[int, float]] = {}
    for poll in sorted(history.polls, key=lambda each: each.invoked):
        if poll.high_watermark < 0:
            continue
        for offset, value in poll.records:
            if offset >= poll.high_watermark:
                where = f"{_at(poll.partition, offset)}: {value}, high watermark {poll.high_watermark}"
                yield Violation(Anomaly.READ_ABOVE_HIGH_WATERMARK, where)
        if poll.leader_epoch < 0:
            continue
        key = poll.partition, poll.node, poll.leader_epoch
        before, completed = highest.get(key, (-1, 0.0))
        if poll.high_watermark < before and (completed <= poll.invoked):
            where = f"{poll.partition[0]}-{poll.partition[1]}, broker {poll.node}, epoch {poll.leader_epoch}"
            yield Violation(Anomaly.HIGH_WATERMARK_FELL, f"{where}: {before} to {poll.high_watermark}")
        if poll.high_watermark > before:
            highest[key] = poll.high_watermark, poll.completed


def _leaders(history: History) -> Iterator[Violation]:
    """One broker acknowledges in a leader epoch."""
    leaders: dict[tuple[Partition, int], int] = {}
    for send in history.sends:
        if send.outcome is Outcome.OK and send.leader_epoch >= 0:
            known = leaders.setdefault((send.partition, send.leader_epoch), send.node)
            if known != send.node:
                where = f"{send.partition[0]}-{send.partition[1]}, epoch {send.leader_epoch}: {known} and {send.node}"
                yield Violation(Anomaly.TWO_LEADERS, where)


def _replicas(history: History) -> Iterator[Violation]:
    """All replicas hold the same."""
    for partition, replicas in history.final.items():
        first, *others = sorted(replicas)
        expected = dict(replicas[first])
        for node in others:
            log = dict(replicas[node])
            differing = sorted(
                offset for offset in expected.keys() | log.keys() if expected.get(offset) != log.get(offset)
            )
            if differing:
                yield Violation(Anomaly.REPLICAS_DIFFER, f"{_at(partition, differing[0])}: brokers {first} and {node}")


def _commits(history: History) -> Iterator[Violation]:
    """A group is told an offset that somebody committed, none older than was acknowledged before it asked."""
    by_key: defaultdict[tuple[str, Partition], list[Commit]] = defaultdict(list)
    for commit in history.commits:
        by_key[commit.group, commit.partition].append(commit)
    for (group, partition), commits in by_key.items():
        yield from _commits_of(f"{group}, {partition[0]}-{partition[1]}", commits)


def _commits_of(where: str, commits: Iterable[Commit]) -> Iterator[Violation]:
    said = sorted(commits, key=lambda each: each.invoked)
    written = [each for each in said if not each.is_fetch and each.outcome is not Outcome.FAIL]
    for fetch in said:
        if not fetch.is_fetch or fetch.outcome is not Outcome.OK:
            continue
        before = [each for each in written if each.outcome is Outcome.OK and each.completed < fetch.invoked]
        newest = max(before, key=lambda each: each.invoked, default=None)
        if fetch.offset >= 0 and not any(each.offset == fetch.offset for each in written):
            yield Violation(Anomaly.COMMIT_INVENTED, f"{where}: {fetch.offset}")
        elif newest is not None and not any(
            each.offset == fetch.offset and (each.completed >= newest.invoked or each.outcome is Outcome.UNKNOWN)
            for each in written
        ):
            yield Violation(Anomaly.COMMIT_LOST, f"{where}: {fetch.offset} after {newest.offset}")
