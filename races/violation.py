"""What a broker can do wrong when much is asked of it at the same time."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What can be wrong."""

    UNANSWERED = "a request was not answered"
    OUT_OF_ORDER = "an answer came that was not the next one"
    UNREADABLE = "an answer is none of its API and version"
    CLOSED = "a connection was closed by the broker for no reason"
    ERROR = "an error code that Kafka would not answer"
    CHANGED = "a record is not what was sent"
    INVENTED = "something that nobody sent there"
    INHERITED = "something of an earlier topic of the same name"
    GHOST = "done although there was no such topic"
    VANISHED = "unknown although the topic was there"
    CONFLICT = "two records at one offset"
    DUPLICATED = "a record at two offsets"
    REORDERED = "records not in the order in which they were sent"
    LOST = "the newest record of its key was acknowledged, and is gone"
    GAP = "offsets are missing"
    END_WENT_BACK = "the end of the log is before what was seen or acknowledged"
    END_TOO_FAR = "the log ends behind everything that was sent to it"
    START_WENT_BACK = "the log starts before where it started already"
    START_TOO_FAR = "records are gone that nobody took away"
    OUT_OF_RANGE = "an offset inside the log is out of range"
    WRONG_OFFSET = "an offset was listed that cannot be"
    COMMIT_LOST = "an acknowledged commit is gone"
    SETTING_LOST = "an acknowledged setting is gone"
    SPINS = "a fetch session answers at once although nothing is new"
    LOG_LINE = "the broker complained of itself"
    LEFT_BEHIND = "something stayed although its topic or its connection is gone"
    GREW = "the process takes more and more memory"
    STALLED = "a client library did not get on"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong, where, and when on the clock of the history."""

    kind: Kind
    where: str
    at: float

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}: {self.where} ({self.kind.value})"
