"""The kinds of violations of a log.

For everything that looks for it: simulated clusters, clusters under faults (`chaos`), and a broker that does much at
the same time (`races`).
"""

from enum import Enum

from msgspec import Struct


class Anomaly(Enum):
    """A kind of violation."""

    # Records.
    LOST = "acknowledged, and not there"
    UNREAD = "read by somebody, and not there in the end"
    CHANGED = "not what was sent"
    DUPLICATE = "there more than once"
    REORDERED = "not in the order in which its producer sent"
    REAL_TIME_INVERSION = "acknowledged before another was sent, and behind it"
    PHANTOM = "there, and nobody sent it"
    REFUSED = "refused, and there all the same"
    WRONG_PARTITION = "in another partition than it was sent to"
    INHERITED = "of an earlier topic of the same name"
    INCONSISTENT_OFFSET = "two values at one offset"
    GAP = "an offset is missing"
    COPIED_WRONG = "a copy in transactions that is not what was copied"

    # Reads.
    READ_FROM_FUTURE = "read before it was sent"
    READ_ABOVE_HIGH_WATERMARK = "given at or above the high watermark that came with it"
    NONMONOTONIC_POLL = "a reader went back without being asked to"
    REDELIVERED = "delivered again although its commit was acknowledged before"
    SKIPPED = "a reader passed over what is there"
    EPOCH_FELL = "a reader was shown an older leader epoch than before"

    # The bounds of a log.
    HIGH_WATERMARK_FELL = "the high watermark of a leader epoch fell"
    END_WENT_BACK = "the end of the log is before what was seen or acknowledged"
    END_TOO_FAR = "the log ends behind everything that was sent to it"
    START_WENT_BACK = "the log starts before where it started already"
    START_TOO_FAR = "records are gone that nobody took away"
    OUT_OF_RANGE = "an offset inside the log is out of range"
    WRONG_OFFSET = "an offset was listed that cannot be"

    # Replicas.
    TWO_LEADERS = "two brokers acknowledged in one leader epoch"
    REPLICAS_DIFFER = "replicas hold different values at an offset"
    MISPLACED = "replicas that are not where they were asked to be"

    # Groups, topics, settings.
    COMMIT_LOST = "a group was told an older offset than was acknowledged before it asked"
    COMMIT_INVENTED = "a group was told an offset that nobody committed"
    TOPIC_LOST = "a topic that was acknowledged is not there, or not whole"
    GHOST = "done although there was no such topic"
    VANISHED = "unknown although the topic was there"
    SETTING_LOST = "an acknowledged setting is gone"

    # Connections and processes.
    UNANSWERED = "a request was not answered"
    OUT_OF_ORDER = "an answer came that was not the next one"
    UNREADABLE = "an answer is none of its API and version"
    CLOSED = "a connection was closed by the broker for no reason"
    ERROR = "an error code that Kafka would not answer"
    SPINS = "a fetch session answers at once although nothing is new"
    LOG_LINE = "the broker complained of itself"
    LEFT_BEHIND = "something stayed although its topic or its connection is gone"
    GREW = "the process takes more and more memory"
    STALLED = "a client library did not get on"


class Violation(Struct, frozen=True):
    """A violation, with its partition and its time on the clock of the history, if known."""

    anomaly: Anomaly
    where: str
    at: float = 0.0

    def __str__(self) -> str:
        return f"{self.anomaly.name.lower().replace('_', ' ')}: {self.where} ({self.anomaly.value})"
