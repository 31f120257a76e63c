"""The headers of a dead letter: where the record came from, who refused it, and why.

A dead letter is the refused record itself: key and value are its bytes as they were, its own headers come first and in
order, and these follow, each once, as UTF-8 text (numbers in decimal):

```
  __ottla.errors.topic       where the record lay
  __ottla.errors.partition
  __ottla.errors.offset
  __ottla.errors.timestamp   of the record, ms since 1970; the letter's own timestamp is when it was refused
  __ottla.errors.pipeline    who refused it
  __ottla.errors.step
  __ottla.errors.exception   the kind of failure: an exception's class, or the name of an expectation
  __ottla.errors.message     the reason, for people
  __ottla.errors.attempt     which attempt at the record this was, from 1
  __ottla.errors.batch       number of the micro-batch
  __ottla.errors.replays     how often the record was sent back to where it came from
  __ottla.errors.cut         that key, value and own headers are left out, as the topic of letters would not take them
```

What is not known is left out. Six of the names are those of Kafka Streams (KIP-1034) with another prefix, so that one
reader understands both; `letter_of` reads the letters of Kafka Streams, of Kafka Connect (KIP-298) and of share groups
(KIP-1191) as well: there the group stands for the pipeline, and the count of deliveries for the attempt.

A record that was sent back carries `replays` alone. It is how a record that is refused again is told from a new one.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, structs

Header = tuple[str, bytes | None]

PREFIX: Final = "__ottla.errors."
REPLAYS: Final = PREFIX + "replays"
CUT: Final = PREFIX + "cut"

_NAMES: Final = {
    PREFIX + "topic": "topic",
    PREFIX + "partition": "partition",
    PREFIX + "offset": "offset",
    PREFIX + "timestamp": "timestamp_ms",
    PREFIX + "pipeline": "pipeline",
    PREFIX + "step": "step",
    PREFIX + "exception": "error_class",
    PREFIX + "message": "reason",
    PREFIX + "attempt": "attempt",
    PREFIX + "batch": "batch",
    REPLAYS: "replays",
    CUT: "cut",
}
_STREAMS: Final = "__streams.errors."
_CONNECT: Final = "__connect.errors."
_SHARE: Final = "__dlq.errors."
REFUSAL_PREFIXES: Final = (PREFIX, _STREAMS, _CONNECT, _SHARE)
"""The prefixes of all headers that describe a refusal, Kafka Streams' and Connect's included."""

_OTHERS: Final = {
    _STREAMS + "topic": "topic",
    _STREAMS + "partition": "partition",
    _STREAMS + "offset": "offset",
    _STREAMS + "exception": "error_class",
    _STREAMS + "message": "reason",
    _CONNECT + "topic": "topic",
    _CONNECT + "partition": "partition",
    _CONNECT + "offset": "offset",
    _CONNECT + "connector.name": "pipeline",
    _CONNECT + "stage": "step",
    _CONNECT + "exception.class.name": "error_class",
    _CONNECT + "exception.message": "reason",
    _SHARE + "topic": "topic",
    _SHARE + "partition": "partition",
    _SHARE + "offset": "offset",
    _SHARE + "group": "pipeline",
    _SHARE + "delivery.count": "attempt",
    _SHARE + "message": "reason",
}
_NUMBERS: Final = frozenset({"partition", "offset", "timestamp_ms", "attempt", "batch", "replays"})
_NUMBER_DIGITS_MAX: Final = 19
"""Of an int64. Python would take a header of a megabyte of digits for a number, and take its time."""

_OF_THE_RECORD: Final = ""
"""The family of what stays with a record, whoever refuses it: how often it was sent back, and that it was cut."""


def _family(name: str) -> str:
    if name in (REPLAYS, CUT):
        return _OF_THE_RECORD
    return next(prefix for prefix in REFUSAL_PREFIXES if name.startswith(prefix))


_FIELDS: Final = {name: (field, field in _NUMBERS, _family(name)) for name, field in (_NAMES | _OTHERS).items()}
"""Of each header the field of `Letter`, whether it is a number, and whose headers it is one of."""


class Letter(Struct, frozen=True, gc=False):
    """The content of a dead letter's headers. None means not known."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    pipeline: str | None = None
    step: str | None = None
    error_class: str | None = None
    reason: str | None = None
    attempt: int | None = None
    batch: int | None = None
    replays: int = 0
    cut: str | None = None
    """Why key, value and own headers are left out; None if they are not."""

    @property
    def origin(self) -> str | None:
        """The source of the record as `topic-partition@offset`, as far as known."""
        if self.topic is None:
            return None
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return place if self.offset is None else f"{place}@{self.offset}"


def headers_of(letter: Letter) -> list[Header]:
    """The headers of a letter, in the order of the table above.

    >>> headers_of(Letter(topic="events", partition=3, reason="no such carrier"))
    [('__ottla.errors.topic', b'events'), ('__ottla.errors.partition', b'3'),
     ('__ottla.errors.message', b'no such carrier'), ('__ottla.errors.replays', b'0')]
    """
    said = structs.asdict(letter)
    return [(name, str(said[field]).encode()) for name, field in _NAMES.items() if said[field] is not None]


def letter_of(headers: Iterable[Header]) -> Letter:
    """Parse the headers of a record; if a header appears twice, the last one counts.

    A letter that was read and refused again has the headers of both: those of whoever wrote the last ones count. So a
    letter of Connect that a pipeline refused says why the pipeline did, and one of a pipeline that a share group
    rejected is of that group. A number that is none is as if it were not there, so that a strange letter can still be
    looked at.
    """
    of_record: dict[str, str | int] = {}
    families = {_OF_THE_RECORD: of_record}
    last, open_family, found = _OF_THE_RECORD, _OF_THE_RECORD, of_record
    for name, value in headers:
        known = _FIELDS.get(name)
        if known is None or value is None:
            continue
        field, is_number, family = known
        said: str | int
        if is_number:
            digits = value if value.isdigit() else value.removeprefix(b"-")
            if len(digits) > _NUMBER_DIGITS_MAX or not digits.isdigit():
                continue
            # A count below nothing would get past the guard against sending back for ever.
            said = max(int(value), 0) if field == "replays" else int(value)
        else:
            said = value.decode("utf-8", "replace")
        if family != open_family:
            open_family, found = family, families.setdefault(family, {})
            last = family or last
        found[field] = said
    return Letter(**(families[last] | of_record))  # type: ignore[arg-type]


def is_letter(letter: Letter) -> bool:
    """Whether the record is a dead letter: one with only `replays` is a record that was sent back."""
    return letter.topic is not None or letter != Letter(replays=letter.replays)


def own_headers(headers: Sequence[Header]) -> list[Header]:
    """The headers that the record had before it was refused, in order: all but those that tell of a refusal."""
    return [each for each in headers if each[0] not in _FIELDS and not each[0].startswith(REFUSAL_PREFIXES)]


def sent_back(headers: Sequence[Header], replays: int) -> list[Header]:
    """The headers of the record when it is sent back, for the `replays`-th time."""
    return [*own_headers(headers), (REPLAYS, str(replays).encode())]
