"""What is planted among the events: broken copies, which are to be refused, and events that are told a second time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from examples.flights.events import Events

SEED = 2013
OF_EACH_KIND = 50
TOLD_TWICE = 500
SOON = 3_000
"""An event is told again within so many others: within a day or two."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A broken copy of a real event: which part of the pipeline is to refuse it, and why."""

    key: bytes
    value: bytes | None
    step: str
    reason: str
    """The beginning of the reason, up to its first colon."""


def _cut_off(event: bytes) -> bytes:
    return event[: len(event) * 2 // 3]


def _with_a_word_for_a_time(event: bytes) -> bytes:
    start = event.index(b'"scheduled_at":"') + len(b'"scheduled_at":"')
    return event[:start] + b"soon" + event[event.index(b'"', start) :]


def _without_the_carrier(event: bytes) -> bytes:
    start = event.index(b'"carrier"')
    return event[:start] + event[event.index(b'"origin"') :]


def _in_another_encoding(event: bytes) -> bytes:
    return event.replace(b'"flight":"', '"flight":"é'.encode("latin-1"))


def _of_an_unknown_carrier(event: bytes) -> bytes:
    start = event.index(b'"carrier":"') + len(b'"carrier":"')
    return event[:start] + b"ZZ" + event[start + 2 :]


def _of_an_unknown_kind(event: bytes) -> bytes:
    start = event.index(b'"event":"') + len(b'"event":"')
    return event[:start] + b"diverted" + event[event.index(b'"', start) :]


def _empty(_: bytes) -> None:
    return None


_KINDS: tuple[tuple[Callable[[bytes], bytes | None], str, str], ...] = (
    (_cut_off, "events", "the value is not JSON"),
    (_with_a_word_for_a_time, "events", "field scheduled_at"),
    (_in_another_encoding, "events", "the value is not UTF-8"),
    (_empty, "events", "there is no value"),
    (_of_an_unknown_kind, "checked", "a known event"),
    (_without_the_carrier, "checked", "says which flight"),
    (_of_an_unknown_carrier, "checked", "a known carrier"),
)


@dataclass(frozen=True, slots=True)
class Feed:
    """All that is sent, in the order in which it becomes known, column by column."""

    keys: Sequence[bytes]
    values: Sequence[bytes | None]
    known_at_ms: Sequence[int]
    malformed: Mapping[int, Malformed]
    """By its place among what is sent."""
    told_twice: int

    def __len__(self) -> int:
        return len(self.values)


def feed_of(events: Events) -> Feed:
    """The events with what is planted among them, drawn by lot and the same in every run.

    A broken copy comes right after the event that it is a copy of, a second telling some thousands of events later.
    """
    chance = np.random.default_rng(SEED)
    broken = len(_KINDS) * OF_EACH_KIND
    chosen = [*map(int, chance.choice(len(events), broken + TOLD_TWICE, replace=False))]
    later = chance.integers(1, SOON, TOLD_TWICE)
    planted: list[tuple[int, bytes, bytes | None, Malformed | None]] = []
    for number, index in enumerate(chosen[:broken]):
        distort, step, reason = _KINDS[number % len(_KINDS)]
        key, value = events.keys[index], distort(events.values[index])
        planted.append((index, key, value, Malformed(key, value, step, reason)))
    for index, after in zip(chosen[broken:], later, strict=True):
        place = min(index + int(after), len(events) - 1)
        planted.append((place, events.keys[index], events.values[index], None))
    planted.sort(key=lambda each: each[0])
    return _merged(events, planted)


def _merged(events: Events, planted: Sequence[tuple[int, bytes, bytes | None, Malformed | None]]) -> Feed:
    keys: list[bytes] = []
    values: list[bytes | None] = []
    known_at_ms: list[int] = []
    malformed: dict[int, Malformed] = {}
    start = 0
    for after, key, value, what in planted:
        keys += events.keys[start : after + 1]
        values += events.values[start : after + 1]
        known_at_ms += events.known_at_ms[start : after + 1]
        start = after + 1
        if what is not None:
            malformed[len(keys)] = what
        keys.append(key)
        values.append(value)
        known_at_ms.append(events.known_at_ms[after])
    keys += events.keys[start:]
    values += events.values[start:]
    known_at_ms += events.known_at_ms[start:]
    return Feed(keys, values, known_at_ms, malformed, len(planted) - len(malformed))
