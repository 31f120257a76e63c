"""What the metadata needs of a consensus engine, and no more, so that engines can be exchanged.

    sessions     who is there; a session ends with its process, or when its process is silent for too long
    election     one controller after another, each with a higher epoch; only who saw the newest epoch can follow it
    log          an ordered list of records; appended only by the present controller that knows its end
    snapshot     stands for the records before it, so that the log does not grow for ever
    watches      tell a process that has a session what others did: that something changed; what, has to be read

All methods but those that watch are coroutines; an engine does its blocking work elsewhere. Records are opaque bytes.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

NO_BROKER: Final = -1
"""The controller before the first election."""

SESSION_TIMEOUT_MS: Final = 9_000
"""How long a broker may be silent to the store before its session ends: Kafka's `broker.session.timeout.ms`."""


class StoreError(Exception):
    """The store could not do what it was asked; nothing changed, unless the error is an `UnknownOutcomeError`."""


class FencedError(StoreError):
    """Another broker has become the controller. Step down; the epoch will never be valid again."""


class StaleOffsetError(StoreError):
    """The log has grown since it was read. Read on, decide again."""


class SessionExpiredError(StoreError):
    """The session is over: silent for too long, taken over by its broker's next process, or closed."""


class BrokerIdTakenError(StoreError):
    """A living broker with another data directory has this id."""


class UnknownOutcomeError(StoreError):
    """The store could not be asked whether the change was made. Resign, and read what became of it later."""


class Session(Struct, frozen=True):
    """A registered broker. The broker epoch is higher than that of every earlier session of any broker."""

    broker_id: int
    broker_epoch: int


class LiveBroker(Struct, frozen=True):
    """A session that has not ended, with what its broker said of itself."""

    broker_id: int
    broker_epoch: int
    registration: bytes


class Controllership(Struct, frozen=True):
    """The newest election: who won it, its epoch (0 before the first), and whether that session still lives and has
    not resigned.
    """

    broker_id: int
    epoch: int
    alive: bool


class StoredRecords(Struct, frozen=True):
    """A part of the log: a snapshot, when there is one and it was asked from before it, then records to the end.

    `start_offset` is the offset of the first record, `end_offset` the one the next append will get.
    """

    snapshot: tuple[bytes, ...] | None
    records: tuple[bytes, ...]
    start_offset: int
    end_offset: int


class MetadataStore(Protocol):
    """A consensus engine, for one broker. The methods may be called concurrently from one event loop."""

    async def open(self, new_cluster_id: str) -> str:
        """Connect, and return the cluster's id: the stored one, or `new_cluster_id` when this is the first start."""
        ...

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        """What the brokers of this cluster know and nobody else: the stored one, or `new_secret` when there is none."""
        ...

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        """Begin a session. `takes_over` names the data directory, and is kept with the session.

        A living session of the same id and the same directory ends: its process has died, or hears that it is over. One
        of another directory, or any when `takes_over` is None, stays. Raises BrokerIdTakenError.
        """
        ...

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions that have not ended, by broker id."""
        ...

    async def controller(self) -> Controllership:
        """The newest election."""
        ...

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        """Make the session's broker the controller; returns its epoch, higher than every earlier one.

        Only who saw the newest election can win the next: of several candidates one. The controller before is fenced,
        whether or not its session lives. Raises FencedError when `seen_epoch` is not the newest epoch, and
        SessionExpiredError.
        """
        ...

    async def resign(self, *, controller_epoch: int) -> None:
        """Have nobody be the controller until the next election, while the session goes on: it shows as not alive.

        Raises FencedError when `controller_epoch` is not the newest.
        """
        ...

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none; returns the new end offset. After the return they survive a power cut.

        Raises FencedError when `controller_epoch` is not the newest, StaleOffsetError when the log's end is not
        `expected_end_offset`, and UnknownOutcomeError.
        """
        ...

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset to its end; from before the snapshot, the snapshot and what follows it."""
        ...

    async def probe(self) -> int:
        """The end offset of the log, once the store has shown that it can be read and, as far as it says so within
        about a second, written. Raises StoreError.
        """
        ...

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Let a snapshot stand for all records below `end_offset`, and drop them. Raises FencedError."""
        ...

    def watch(self, callback: Callable[[int], None]) -> None:
        """Have `callback` called on the event loop with the new end offset after each growth of the log, by this
        process or another. Several growths may be told as one.
        """
        ...

    def watch_brokers(self, callback: Callable[[], None]) -> None:
        """Have `callback` called on the event loop when sessions of other brokers came or went."""
        ...

    def watch_controller(self, callback: Callable[[], None]) -> None:
        """Have `callback` called on the event loop when there was an election, the controller resigned, its session
        ended, or there may have been an election of which this process could not hear.
        """
        ...

    def watch_session(self, callback: Callable[[], None]) -> None:
        """Have `callback` called on the event loop when this process's session has ended other than by `close`.

        The broker is to resign at once and may register anew.
        """
        ...

    async def close(self) -> None:
        """End the session and disconnect."""
        ...
