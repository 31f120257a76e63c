"""What was read was sent, there, by the same life of its topic; once, in order, at one offset."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from ottla.simulation.anomaly import Anomaly, Violation
from races.history import Append, History, Life, Read, Seen
from races.keys import key_of
from races.lives import Lives, is_surely_there, where
from workload.payload import Payload

ABSENT = {3, 6, 100}
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID."""


@dataclass(slots=True)
class Sent:
    """All attempts to send one record."""

    topic: str
    partition: int
    topic_id: UUID | None
    asked_at: float
    answered_at: float
    is_retried: bool
    producer_began_at: float
    """When its producer first wrote to the partition."""


def sent_records(history: History) -> dict[Payload, Sent]:
    """Every record that was given to a broker, or to a library."""
    found: dict[Payload, Sent] = {}
    began: dict[tuple[str, str, int], float] = {}
    for append in history.appends:
        began_at = began.setdefault((append.producer, append.topic, append.partition), append.asked_at)
        for number in range(append.first_number, append.first_number + append.count):
            payload = Payload(append.producer, number)
            known = found.get(payload)
            if known is None:
                found[payload] = Sent(
                    append.topic,
                    append.partition,
                    append.topic_id,
                    append.asked_at,
                    append.answered_at,
                    append.is_retried,
                    began_at,
                )
            else:
                known.answered_at = max(known.answered_at, append.answered_at)
    return found


def check_presence(history: History, lives: Lives) -> Iterator[Violation]:
    """A topic answers while it is there, and only then."""
    seen: list[Seen] = [*history.appends, *history.reads, *history.looks]
    for each in seen:
        if not lives.knows(each.topic) or not each.is_answered:
            continue
        possible = lives.possible(each)
        if each.error == 0 and not possible:
            yield Violation(Anomaly.GHOST, f"{type(each).__name__.lower()} of {where(each)}", each.asked_at)
        elif each.error in ABSENT and len(possible) == 1 and is_surely_there(possible[0], each, history.outages):
            text = f"{type(each).__name__.lower()} of {where(each, possible[0])}: error {each.error}"
            yield Violation(Anomaly.VANISHED, text, each.asked_at)


def check_contents(history: History, lives: Lives) -> Iterator[Violation]:
    """Each record that was read is one that can be there."""
    sent = sent_records(history)
    for read in history.reads:
        is_compacted = any(life.is_compacted for life in lives.possible(read))
        yield from _check_gaps(read, is_compacted=is_compacted)
        for offset, payload in read.records:
            name = f"{where(read)} offset {offset}"
            if payload is None:
                yield Violation(Anomaly.CHANGED, name, read.asked_at)
                continue
            record = sent.get(payload)
            if record is None or (record.topic, record.partition) != (read.topic, read.partition):
                yield Violation(Anomaly.PHANTOM, f"{name}: {payload}", read.asked_at)
            elif lives.knows(read.topic) and not _share_a_life(record, read, lives):
                yield Violation(Anomaly.INHERITED, f"{name}: {payload}", read.asked_at)


def _share_a_life(record: Sent, read: Read, lives: Lives) -> bool:
    of_send = lives.overlapping(record.topic, record.asked_at, record.answered_at, record.topic_id)
    return any(life in of_send for life in lives.possible(read))


def _check_gaps(read: Read, *, is_compacted: bool) -> Iterator[Violation]:
    if read.fetch_offset < 0 or not read.records:
        return
    first = read.records[0][0]
    if first != read.fetch_offset and not (is_compacted and first > read.fetch_offset):
        text = f"{where(read)}: asked from {read.fetch_offset} on, the first is {first}"
        yield Violation(Anomaly.GAP, text, read.asked_at)
    for (before, _), (after, _) in pairwise(read.records):
        if after != before + 1 and not (is_compacted and after > before):
            yield Violation(Anomaly.GAP, f"{where(read)}: {after} comes after {before}", read.asked_at)


def check_compaction(appends: list[Append], reads: list[Read], life: Life, partition: int) -> Iterator[Violation]:
    """Of each key the newest record stays; of one partition in one life."""
    if not life.is_compacted or life.takes_records_away:
        return
    content = {offset: payload for _, offset, payload, _ in _placed(appends, reads, life)}
    newest = {key_of(payload): offset for offset, payload in sorted(content.items())}
    deleted_to = life.deletions.get(partition, 0)
    ordered = sorted(appends, key=lambda append: append.offset)
    ends = [append.end for append in ordered]
    for read in reads:
        if read.fetch_offset < 0 or read.end < 0:
            continue
        found = {offset for offset, _ in read.records}
        for append in ordered[bisect_right(ends, read.fetch_offset) :]:
            if append.offset >= read.end:
                break
            if append.answered_at >= read.asked_at:
                continue
            first, last = max(append.offset, read.fetch_offset, deleted_to), min(append.end, read.end)
            for offset in range(first, last):
                payload = content[offset]
                if offset not in found and newest[key_of(payload)] == offset:
                    yield Violation(Anomaly.LOST, f"{where(read, life)} offset {offset}: {payload}", read.asked_at)


def check_places(
    appends: list[Append], reads: list[Read], life: Life, sent: dict[Payload, Sent]
) -> Iterator[Violation]:
    """One record for each offset, one offset for each record, in order; of one partition in one life.

    A producer that sends again and wrote to the earlier topic has no order to keep: what failed with that one comes
    after what it sent to this one meanwhile, with Kafka's own client as well. A library that gave up on a record takes
    a new epoch, and may send others again under it that were written under the one before: that is its doing.
    """
    identities: dict[int, tuple[int, int]] = {}
    for read in reads:
        identities.update(read.identities)
    content: dict[int, Payload] = {}
    places: dict[Payload, int] = {}
    for at, offset, payload, name in _placed(appends, reads, life):
        known = content.setdefault(offset, payload)
        if known != payload:
            yield Violation(Anomaly.INCONSISTENT_OFFSET, f"{name} offset {offset}: {known} and {payload}", at)
            continue
        place = places.setdefault(payload, offset)
        if place != offset:
            first, second = identities.get(place), identities.get(offset)
            if first is not None and second is not None and first != second:
                continue
            text = f"{name}: {payload} at {place} and {offset}, producer id and epoch {first} and {second}"
            yield Violation(Anomaly.DUPLICATE, text, at)
    newest: dict[tuple[str, tuple[int, int] | None], int] = defaultdict(lambda: -1)
    for offset, payload in sorted(content.items()):
        if payload not in sent or _came_over(sent[payload], life):
            continue
        by = payload.producer, identities.get(offset)
        if payload.number < newest[by]:
            name = f"{life.topic} (life {life.number}) offset {offset}"
            text = f"{name}: {payload} comes after number {newest[by]}"
            yield Violation(Anomaly.REORDERED, text, life.create_asked_at)
        newest[by] = max(payload.number, newest[by])


def _came_over(record: Sent, life: Life) -> bool:
    """Whether it is of a producer that may still have had something to do with the topic before."""
    return record.asked_at < life.created_at or (record.is_retried and record.producer_began_at < life.created_at)


def _placed(appends: list[Append], reads: list[Read], life: Life) -> Iterator[tuple[float, int, Payload, str]]:
    for append in appends:
        for index in range(append.count):
            payload = Payload(append.producer, append.first_number + index)
            yield append.asked_at, append.offset + index, payload, where(append, life)
    for read in reads:
        for offset, found in read.records:
            if found is not None:
                yield read.asked_at, offset, found, where(read, life)
