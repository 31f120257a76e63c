"""The embedded engine: one SQLite file beside the logs. One host, nothing to set up.

    cluster     one row: cluster id and secret, newest controller epoch and whose it is, end offset, newest broker epoch
    session     one row for each registered broker, with the data directory that registered it
    snapshot    the records that stand for the log before `log.offset`
    log         the records since

Write-ahead logging with `synchronous=FULL`: a transaction that returned survives a power cut, one that did not leaves
nothing. Conditions and writes are one `BEGIN IMMEDIATE` transaction, so several processes of one host may share the
file. All calls run in one thread of its own, in order; the event loop never waits for the disk.
"""

import logging
import sqlite3
from asyncio import get_running_loop
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from ottla.metadata.store.interface import (
    NO_BROKER,
    SESSION_TIMEOUT_MS,
    Controllership,
    FencedError,
    LiveBroker,
    Session,
    SessionExpiredError,
    StaleOffsetError,
    StoredRecords,
    StoreError,
)

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FILE_NAME: Final = "metadata.db"
LAYOUT_VERSION: Final = 2
BUSY_TIMEOUT_S: Final = 5.0
"""How long a transaction waits for another process's before it gives up."""

_SESSION_TABLE: Final = """
CREATE TABLE session (
    broker_id INTEGER PRIMARY KEY, broker_epoch INTEGER NOT NULL, registration BLOB NOT NULL, directory BLOB
) STRICT"""

_SCHEMA: Final = f"""
CREATE TABLE cluster (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    cluster_id TEXT NOT NULL,
    controller_epoch INTEGER NOT NULL DEFAULT 0,
    controller_id INTEGER NOT NULL DEFAULT {NO_BROKER},
    broker_epoch INTEGER NOT NULL DEFAULT 0,
    start_offset INTEGER NOT NULL DEFAULT 0,
    end_offset INTEGER NOT NULL DEFAULT 0,
    controller_broker_epoch INTEGER NOT NULL DEFAULT -1,
    secret BLOB
) STRICT;
{_SESSION_TABLE};
CREATE TABLE snapshot (position INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE log (offset INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
PRAGMA user_version = {LAYOUT_VERSION};
"""


_FROM_LAYOUT_1: Final = f"""
ALTER TABLE cluster ADD COLUMN controller_broker_epoch INTEGER NOT NULL DEFAULT -1;
ALTER TABLE cluster ADD COLUMN secret BLOB;
DROP TABLE session;
{_SESSION_TABLE};
PRAGMA user_version = {LAYOUT_VERSION};
"""
"""Layout 1 was for one broker: its sessions had ended before the next one began."""


class EmbeddedStore:
    """A `MetadataStore` in the file `metadata.db` of a directory, which is made when it is missing."""

    def __init__(self, directory: Path, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self._path = directory / FILE_NAME
        self._session_timeout_ms = session_timeout_ms
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ottla-metadata")
        self._connection: sqlite3.Connection | None = None
        self._session: Session | None = None
        self._watchers: list[Callable[[int], None]] = []
        self._broker_watchers: list[Callable[[], None]] = []
        self._controller_watchers: list[Callable[[], None]] = []
        self._session_watchers: list[Callable[[], None]] = []

    async def open(self, new_cluster_id: str) -> str:
        """Open the file, make it at the first start, and return the cluster's id.

        Raises StoreError when the file is not one of ours, or of a newer release.
        """
        return await self._call(self._open, new_cluster_id)

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        """The stored secret, or the new one when there is none."""
        return await self._call(self._cluster_secret, new_secret)

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        """Begin a session; an older one of the same id and directory ends. Raises BrokerIdTakenError."""
        self._session = await self._call(self._register_broker, broker_id, registration, takes_over)
        return self._session

    async def live_brokers(self) -> list[LiveBroker]:
        """All sessions, by broker id."""
        return await self._call(self._live_brokers)

    async def controller(self) -> Controllership:
        """The newest election."""
        return await self._call(self._controller)

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        """Make the session's broker the controller, if `seen_epoch` is still the newest epoch.

        Raises FencedError and SessionExpiredError.
        """
        return await self._call(self._elect, session, seen_epoch)

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none, durably. Raises FencedError or StaleOffsetError."""
        end_offset = await self._call(self._append, records, controller_epoch, expected_end_offset)
        for callback in self._watchers:
            try:
                callback(end_offset)
            except Exception:
                # The records are durable: who appended them must not hear that they are not.
                logger.exception("one who watches the metadata log failed at offset %d", end_offset)
        return end_offset

    async def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on, with the snapshot when it starts before it."""
        return await self._call(self._read, from_offset)

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """Replace the records below `end_offset` by a snapshot. Raises FencedError."""
        await self._call(self._write_snapshot, snapshot, controller_epoch, end_offset)

    def watch(self, callback: Callable[[int], None]) -> None:
        """Call back after each growth of the log."""
        self._watchers.append(callback)

    def watch_brokers(self, callback: Callable[[], None]) -> None:
        """Call back when sessions came or went."""
        self._broker_watchers.append(callback)

    def watch_controller(self, callback: Callable[[], None]) -> None:
        """Call back after an election, and when the controller's session ended."""
        self._controller_watchers.append(callback)

    def watch_session(self, callback: Callable[[], None]) -> None:
        """Call back when this process's session has ended other than by `close`."""
        self._session_watchers.append(callback)

    async def close(self) -> None:
        """End this process's session and close the file. Closing twice is allowed."""
        if self._connection is not None:
            await self._call(self._close)
        self._executor.shutdown(wait=False)

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await get_running_loop().run_in_executor(self._executor, lambda: function(*args, **kwargs))
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._path}: {error}") from error

    # What follows runs in the thread.

    def _open(self, new_cluster_id: str) -> str:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._connection = connection
            with self._transaction() as cursor:
                self._require_layout(cursor)
                cursor.execute("INSERT OR IGNORE INTO cluster (id, cluster_id) VALUES (1, ?)", (new_cluster_id,))
                (cluster_id,) = cursor.execute("SELECT cluster_id FROM cluster").fetchone()
        except BaseException:
            self._connection = None
            connection.close()
            raise
        assert isinstance(cluster_id, str)
        return cluster_id

    def _require_layout(self, cursor: sqlite3.Cursor) -> None:
        (version,) = cursor.execute("PRAGMA user_version").fetchone()
        if version in (0, 1):
            for statement in (_FROM_LAYOUT_1 if version else _SCHEMA).split(";"):
                cursor.execute(statement)
        elif version != LAYOUT_VERSION:
            raise StoreError(f"{self._path} has layout {version}, this release knows {LAYOUT_VERSION}")

    def _cluster_secret(self, new_secret: bytes) -> bytes:
        with self._transaction() as cursor:
            cursor.execute("UPDATE cluster SET secret = ? WHERE secret IS NULL", (new_secret,))
            (secret,) = cursor.execute("SELECT secret FROM cluster").fetchone()
        assert isinstance(secret, bytes)
        return secret

    def _register_broker(self, broker_id: int, registration: bytes, takes_over: bytes | None) -> Session:
        with self._transaction() as cursor:
            (broker_epoch,) = cursor.execute(
                "UPDATE cluster SET broker_epoch = broker_epoch + 1 RETURNING broker_epoch"
            ).fetchone()
            cursor.execute(
                "REPLACE INTO session VALUES (?, ?, ?, ?)", (broker_id, broker_epoch, registration, takes_over)
            )
        return Session(broker_id, broker_epoch)

    def _live_brokers(self) -> list[LiveBroker]:
        rows = self._open_connection.execute("SELECT broker_id, broker_epoch, registration FROM session ORDER BY 1")
        return [LiveBroker(*row) for row in rows]

    def _controller(self) -> Controllership:
        row = self._open_connection.execute(
            "SELECT controller_id, controller_epoch, EXISTS (SELECT 1 FROM session WHERE broker_id = controller_id "
            "AND broker_epoch = controller_broker_epoch) FROM cluster"
        ).fetchone()
        return Controllership(row[0], row[1], bool(row[2]))

    def _elect(self, session: Session, seen_epoch: int) -> int:
        with self._transaction() as cursor:
            alive = cursor.execute(
                "SELECT 1 FROM session WHERE broker_id = ? AND broker_epoch = ?",
                (session.broker_id, session.broker_epoch),
            ).fetchone()
            if alive is None:
                raise SessionExpiredError(f"the session of broker {session.broker_id} has ended")
            self._require_epoch(cursor, seen_epoch)
            cursor.execute(
                "UPDATE cluster SET controller_epoch = ?, controller_id = ?, controller_broker_epoch = ?",
                (seen_epoch + 1, session.broker_id, session.broker_epoch),
            )
        return seen_epoch + 1

    def _append(self, records: Sequence[bytes], controller_epoch: int, expected_end_offset: int) -> int:
        with self._transaction() as cursor:
            self._require_epoch(cursor, controller_epoch)
            (end_offset,) = cursor.execute("SELECT end_offset FROM cluster").fetchone()
            if end_offset != expected_end_offset:
                raise StaleOffsetError(f"the metadata log ends at {end_offset}, not at {expected_end_offset}")
            new_end_offset = expected_end_offset + len(records)
            cursor.executemany("INSERT INTO log VALUES (?, ?)", enumerate(records, expected_end_offset))
            cursor.execute("UPDATE cluster SET end_offset = ?", (new_end_offset,))
        return new_end_offset

    def _require_epoch(self, cursor: sqlite3.Cursor, controller_epoch: int) -> None:
        (newest,) = cursor.execute("SELECT controller_epoch FROM cluster").fetchone()
        if newest != controller_epoch:
            raise FencedError(f"controller epoch {controller_epoch} is over: the newest is {newest}")

    def _read(self, from_offset: int) -> StoredRecords:
        with self._transaction("DEFERRED") as cursor:
            start_offset, end_offset = cursor.execute("SELECT start_offset, end_offset FROM cluster").fetchone()
            snapshot: tuple[bytes, ...] | None = None
            if from_offset < start_offset:
                snapshot = tuple(row[0] for row in cursor.execute("SELECT record FROM snapshot ORDER BY position"))
                from_offset = start_offset
            rows = cursor.execute("SELECT record FROM log WHERE offset >= ? ORDER BY offset", (from_offset,))
            records = tuple(row[0] for row in rows)
        return StoredRecords(snapshot, records, from_offset, end_offset)

    def _write_snapshot(self, snapshot: Sequence[bytes], controller_epoch: int, end_offset: int) -> None:
        with self._transaction() as cursor:
            self._require_epoch(cursor, controller_epoch)
            cursor.execute("DELETE FROM snapshot")
            cursor.executemany("INSERT INTO snapshot VALUES (?, ?)", enumerate(snapshot))
            cursor.execute("DELETE FROM log WHERE offset < ?", (end_offset,))
            cursor.execute("UPDATE cluster SET start_offset = ?", (end_offset,))

    def _close(self) -> None:
        connection, self._connection = self._open_connection, None
        if self._session is not None:
            connection.execute(
                "DELETE FROM session WHERE broker_id = ? AND broker_epoch = ?",
                (self._session.broker_id, self._session.broker_epoch),
            )
        connection.close()

    @property
    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self._path} is not open")
        return self._connection

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Cursor]:
        """One transaction: committed at the end of the block, rolled back by an exception."""
        connection = self._open_connection
        cursor = connection.cursor()
        cursor.execute(f"BEGIN {kind}")
        try:
            yield cursor
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
