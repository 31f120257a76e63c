"""What the metadata needs of a consensus engine, and no more, so that engines can be exchanged.

    sessions     who is there; a session ends with its process
    election     one controller at a time, each with a higher epoch
    log          an ordered list of records; appended only by the present controller that knows its end
    snapshot     stands for the records before it, so that the log does not grow for ever

All methods are coroutines; an engine does its blocking work elsewhere. Records are opaque bytes.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct


class StoreError(Exception):
    """The store could not do what it was asked; nothing changed."""


class FencedError(StoreError):
    """Another broker has become the controller. Step down; the epoch will never be valid again."""


class StaleOffsetError(StoreError):
    """The log has grown since it was read. Read on, decide again."""


class SessionExpiredError(StoreError):
    """The session is over: the same broker id was registered again, or the session was closed."""


class Session(Struct, frozen=True):
    """A registered broker. The broker epoch is higher than that of every earlier session of any broker."""

    broker_id: int
    broker_epoch: int


class LiveBroker(Struct, frozen=True):
    """A session that has not ended, with what its broker said of itself."""

    broker_id: int
    broker_epoch: int
    registration: bytes


class StoredRecords(Struct, frozen=True):
    """A part of the log: a snapshot, when there is one and it was asked from before it, then records to the end.

    `start_offset` is the offset of the first record, `end_offset` the one the next append will get.
    """

    snapshot: tuple[bytes, ...] | None
    records: tuple[bytes, ...]
    start_offset: int
    end_offset: int


class MetadataStore(Protocol):
    """A consensus engine. The methods may be called concurrently from one event loop."""

    async def open(self, new_cluster_id: str) -> str:
        """Connect, and return the cluster's id: the stored one, or `new_cluster_id` when this is the first start."""
        ...

    async def register_broker(self, broker_id: int, registration: bytes) -> Session:
        """Begin a session. An older session of the same id ends: whoever holds it gets SessionExpiredError."""
        ...

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions that have not ended, by broker id."""
        ...

    async def elect(self, session: Session) -> int:
        """Make the session's broker the controller; returns its epoch, higher than every earlier one.

        Raises SessionExpiredError.
        """
        ...

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none; returns the new end offset. After the return they survive a power cut.

        Raises FencedError when `controller_epoch` is not the newest, StaleOffsetError when the log's end is not
        `expected_end_offset`.
        """
        ...

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset to its end; from before the snapshot, the snapshot and what follows it."""
        ...

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Let a snapshot stand for all records below `end_offset`, and drop them. Raises FencedError."""
        ...

    def watch(self, callback: Callable[[int], None]) -> None:
        """Have `callback` called on the event loop with the new end offset after each growth of the log."""
        ...

    async def close(self) -> None:
        """End the session and disconnect."""
        ...
