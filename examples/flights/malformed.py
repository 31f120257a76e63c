"""Events that are not what they should be, planted among the good ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from examples.flights.events import Events

SEED = 2013
OF_EACH_KIND = 50


@dataclass(frozen=True, slots=True)
class Malformed:
    """A broken copy of a real event, and the reason that the pipeline is to give when it refuses it."""

    after: int
    """It becomes known right after the event of this index."""
    known_at_ms: int
    key: bytes
    value: bytes | None
    reason: str


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


_KINDS: tuple[tuple[Callable[[bytes], bytes | None], str], ...] = (
    (_cut_off, "not JSON"),
    (_with_a_word_for_a_time, "wrong type"),
    (_without_the_carrier, "missing: carrier"),
    (_in_another_encoding, "not UTF-8"),
    (_of_an_unknown_carrier, "unknown carrier: ZZ"),
    (_of_an_unknown_kind, "unknown event: diverted"),
    (_empty, "no value"),
)


def plant(events: Events) -> list[Malformed]:
    """Broken copies of events drawn by lot, the same in every run; in the order in which they become known."""
    chosen = np.random.default_rng(SEED).choice(len(events), OF_EACH_KIND * len(_KINDS), replace=False)
    return sorted(
        (_broken(events, int(index), *_KINDS[number % len(_KINDS)]) for number, index in enumerate(chosen)),
        key=lambda malformed: malformed.after,
    )


def _broken(events: Events, index: int, distort: Callable[[bytes], bytes | None], reason: str) -> Malformed:
    value = distort(events.values[index])
    return Malformed(index, events.known_at_ms[index], events.keys[index], value, reason)
