"""What a decision is: the records it makes true, and the answer to whoever asked."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.model.errors import ApiError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decision(Struct, Generic[T_co], frozen=True):
    """Records to append, all or none, and the result that holds once they are durable."""

    records: tuple[MetadataRecord, ...]
    result: T_co
    lines: tuple["LogLine", ...] = ()
    """What the log says once the records are durable."""


class LogLine(NamedTuple):
    """A line for the broker's log, with the level of `logging`."""

    level: int
    text: str


Decide: TypeAlias = Callable[[MetadataImage], Decision[T]]
"""A pure function of the newest image. It may be called again with a newer one if its records could not be appended."""

Outcome: TypeAlias = T | ApiError
"""Of one item of a request: what came of it, or why nothing did."""


def unless_validating(decision: Decision[T], *, validate_only: bool) -> Decision[T]:
    """The decision with its result only, when the request asked just to check."""
    return Decision((), decision.result) if validate_only else decision
