r"""What was asked of a broker by many at the same time, and what came of it, as whoever asked saw it.

A topic name has several lives, one after the other; what is seen of it belongs to a life it overlaps with in time:

    life 1   create asked ---- created .......... delete asked ---- deleted
    life 2                                             create asked ---- created ....
    a read                                   asked ---- answered             of life 1, or of none

Times are seconds on one clock for the whole run. `answered_at` is infinite while nobody said.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from uuid import UUID

from workload.payload import Payload


@dataclass(slots=True, eq=False)
class Life:
    """A topic from its creation to its deletion."""

    topic: str
    number: int
    """Counts the lives of all topics, for excerpts."""
    partition_count: int
    """At creation."""
    create_asked_at: float
    topic_id: UUID | None = None
    created_at: float = inf
    delete_asked_at: float = inf
    deleted_at: float = inf
    """When it was known to be gone."""
    takes_records_away: bool = False
    """Whether retention may take records at any time; otherwise only DeleteRecords does."""
    is_compacted: bool = False
    """Whether it was to be compacted at any time: of each key the newest record stays."""
    deletions: dict[int, int] = field(default_factory=dict)
    """The highest offset DeleteRecords was asked for, by partition."""


@dataclass(slots=True, eq=False)
class Seen:
    """Something was asked about one partition, by name or by id."""

    topic: str
    partition: int
    asked_at: float
    answered_at: float = inf
    topic_id: UUID | None = None
    """Set when the topic was asked for by id."""
    error: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether the broker said anything."""
        return self.answered_at != inf


@dataclass(slots=True, eq=False)
class Append(Seen):
    """Records of one producer, with numbers one after the other, in one batch."""

    producer: str = ""
    first_number: int = 0
    count: int = 1
    acks: int = -1
    is_retried: bool = False
    """Whether its producer sends it again, for as long as it likes, until it knows what came of it."""
    offset: int = -1
    """Of the first record; -1 when not told."""
    log_start: int = -1

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker said that it is done and where."""
        return self.is_answered and self.error == 0 and self.offset >= 0

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.offset + self.count


@dataclass(slots=True)
class Read(Seen):
    """A Fetch of one partition, or what a client library delivered of it in one piece."""

    fetch_offset: int = -1
    """-1 for libraries, which fetch when they like and may leave out what was deleted."""
    records: list[tuple[int, Payload | None]] = field(default_factory=list)
    """Offset and content; None for a value that is none of ours or was changed."""
    identities: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By offset: producer id and epoch of the batch; of raw reads alone, libraries do not show them."""
    end: int = -1
    """The offset behind the last batch that came; -1 when none did."""
    high_watermark: int = -1
    log_start: int = -1


class At(Enum):
    """What ListOffsets was asked for."""

    TIME = 0
    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


@dataclass(slots=True)
class Look(Seen):
    """One partition in ListOffsets."""

    at: At = At.LATEST
    offset: int = -1


@dataclass(slots=True)
class Commit(Seen):
    """A committed offset; `token` is its note, which no other commit has."""

    group: str = ""
    token: str = ""


@dataclass(slots=True)
class CommitSeen(Seen):
    """What OffsetFetch said; an empty token for none."""

    group: str = ""
    token: str = ""


@dataclass(slots=True)
class CommitsWiped:
    """Commits that were to be forgotten: of a partition (OffsetDelete), or all of a group (DeleteGroups)."""

    group: str
    asked_at: float
    answered_at: float = inf
    topic: str | None = None


@dataclass(slots=True)
class Setting(Seen):
    """A setting of a topic was given a value that no other life of it was given. `partition` means nothing here."""

    name: str = ""
    value: str = ""


@dataclass(slots=True)
class SettingSeen(Seen):
    """What DescribeConfigs said of a setting; None: the topic has no value of its own."""

    name: str = ""
    value: str | None = None


@dataclass(slots=True)
class Exchange:
    """A request and its answer."""

    number: int
    """Its correlation id."""
    api: str
    version: int
    sent_at: float
    wait_s: float = 0.0
    """How long the broker was asked to wait."""
    answered_at: float = inf
    errors: tuple[int, ...] = ()
    about: str = ""


class End(Enum):
    """How a connection ended."""

    OPEN = "open"
    OURS = "ended by us"
    BROKERS = "closed by the broker"


@dataclass(slots=True)
class ConnectionLog:
    """Everything that passed over one connection."""

    name: str
    opened_at: float
    exchanges: list[Exchange] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    """Correlation ids of the answers, in the order in which they came."""
    unreadable: list[str] = field(default_factory=list)
    """Answers that are none of their API and version."""
    may_be_closed: bool = False
    """Whether it carries what the broker answers by closing it: a Produce with acks=0 that fails."""
    end: End = End.OPEN
    ended_at: float = inf


@dataclass(slots=True)
class SessionTurn:
    """One fetch of a session that reads a partition without news beside others that are not there."""

    session: str
    asked_at: float
    answered_at: float
    max_wait_s: float
    has_news: bool


@dataclass(slots=True)
class Outage:
    """The broker was stopped or killed, and started again."""

    begun_at: float
    ended_at: float = inf
    is_kill: bool = False


@dataclass(slots=True)
class Remains:
    """What is left of a process after everybody has gone and every topic was deleted."""

    directories: list[str] = field(default_factory=list)
    open_files: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)
    """State and who is at the other end."""
    memory_mib: list[float] = field(default_factory=list)
    """Of the same process, after each round."""


@dataclass(slots=True)
class History:
    """One round. What a list holds was added in the order of invocation, by whichever thread."""

    lives: list[Life] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    commits_seen: list[CommitSeen] = field(default_factory=list)
    commits_wiped: list[CommitsWiped] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    settings_seen: list[SettingSeen] = field(default_factory=list)
    connections: list[ConnectionLog] = field(default_factory=list)
    session_turns: list[SessionTurn] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    stalls: list[str] = field(default_factory=list)
    """Users of client libraries that did not get on."""
    remains: Remains = field(default_factory=Remains)
    log_lines: list[str] = field(default_factory=list)
    """What the broker wrote."""
    ended_at: float = inf
