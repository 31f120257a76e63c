"""The file of the embedded store: one SQLite database that the broker processes of a host share.

    cluster     one row: cluster id and secret, newest controller epoch and whose it is, end offset, newest broker epoch
    session     one row for each registered broker, with the data directory that registered it
    snapshot    the records that stand for the log before `log.offset`
    log         the records since
    written_by  for each layout that the file has had the first release that wrote it: a release that is too old for the
                newest one says which it needs. It stays as it is in every layout

Write-ahead logging with `synchronous=FULL`: a transaction that returned survives a power cut, one that did not leaves
nothing. Conditions and writes are one `BEGIN IMMEDIATE` transaction: where it cannot begin because another process
writes, sqlite3.OperationalError says so and nothing was done. All methods block.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from ottla import __version__
from ottla.metadata.store.conditions import require_end_offset, require_live_session, require_newest_epoch
from ottla.metadata.store.interface import (
    NO_BROKER,
    BrokerIdTakenError,
    Controllership,
    LiveBroker,
    Session,
    StoredRecords,
    StoreError,
)
from ottla.metadata.store.private_file import create_private, require_private
from ottla.model.newer_release import needs_newer_release

LAYOUT_VERSION: Final = 2
LOCK_WAIT_S: Final = 0.05
"""How long a write waits for another process's before it gives up: for so long the thread may be away from reads."""

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


_WRITTEN_BY_TABLE: Final = """
CREATE TABLE IF NOT EXISTS written_by (layout INTEGER PRIMARY KEY, release TEXT NOT NULL) STRICT"""


class StoreState(Struct, frozen=True):
    """What watches tell of, read in one transaction."""

    end_offset: int
    controllership: Controllership
    sessions: tuple[Session, ...]


class MovedMetadata(Struct, frozen=True):
    """All that a store holds, but for sessions."""

    cluster_id: str
    secret: bytes | None
    controller_id: int
    controller_epoch: int
    controller_broker_epoch: int
    broker_epoch: int
    end_offset: int
    records: tuple[bytes, ...]
    """Those of the snapshot, then those of the log."""


class MetadataFile:
    """The open database. Used by one thread; other processes, and other instances, have it open as well."""

    def __init__(self, path: Path, new_cluster_id: str) -> None:
        """Open the file, make it when there is none, bring an older layout up.

        Raises sqlite3.Error, OSError, and StoreError when the layout is of a newer release or others can open the file.
        """
        self._path = path
        create_private(path)
        require_private(path)
        self.cluster_id: str
        self._connection = sqlite3.connect(
            path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            with self._transaction() as cursor:
                self._require_layout(cursor)
                cursor.execute(_WRITTEN_BY_TABLE)
                cursor.execute("INSERT OR IGNORE INTO written_by VALUES (?, ?)", (LAYOUT_VERSION, __version__))
                cursor.execute("INSERT OR IGNORE INTO cluster (id, cluster_id) VALUES (1, ?)", (new_cluster_id,))
                (self.cluster_id,) = cursor.execute("SELECT cluster_id FROM cluster").fetchone()
        except BaseException:
            self._connection.close()
            raise

    def _require_layout(self, cursor: sqlite3.Cursor) -> None:
        (version,) = cursor.execute("PRAGMA user_version").fetchone()
        if version in (0, 1):
            for statement in (_FROM_LAYOUT_1 if version else _SCHEMA).split(";"):
                cursor.execute(statement)
        elif version != LAYOUT_VERSION:
            raise StoreError(needs_newer_release(str(self._path), version, LAYOUT_VERSION, _writer_of(cursor, version)))

    def cluster_secret(self, new_secret: bytes) -> bytes:
        """The stored secret, or the new one when there is none."""
        with self._transaction() as cursor:
            cursor.execute("UPDATE cluster SET secret = ? WHERE secret IS NULL", (new_secret,))
            (secret,) = cursor.execute("SELECT secret FROM cluster").fetchone()
        assert isinstance(secret, bytes)
        return secret

    def register(
        self,
        broker_id: int,
        registration: bytes,
        directory: bytes | None,
        *,
        is_alive: Callable[[int], bool],
        begin: Callable[[int], None],
    ) -> tuple[Session, set[int]]:
        """Begin a session, and end those that are not alive; returns it and the broker epochs of those that live.

        `begin` is called with the new broker epoch before anybody can see it. Raises BrokerIdTakenError.
        """
        with self._transaction() as cursor:
            living = self._end_dead(cursor, is_alive)
            taken = cursor.execute(
                "SELECT broker_epoch, directory FROM session WHERE broker_id = ?", (broker_id,)
            ).fetchone()
            if taken is not None and (directory is None or taken[1] != directory):
                raise BrokerIdTakenError(
                    f"broker {broker_id} is running with another data directory: give this one another node.id"
                )
            (broker_epoch,) = cursor.execute(
                "UPDATE cluster SET broker_epoch = broker_epoch + 1 RETURNING broker_epoch"
            ).fetchone()
            begin(broker_epoch)
            cursor.execute(
                "REPLACE INTO session VALUES (?, ?, ?, ?)", (broker_id, broker_epoch, registration, directory)
            )
        return Session(broker_id, broker_epoch), {*living, broker_epoch}

    def end_dead_sessions(self, is_alive: Callable[[int], bool]) -> None:
        """End the sessions that are not alive."""
        with self._transaction() as cursor:
            self._end_dead(cursor, is_alive)

    def _end_dead(self, cursor: sqlite3.Cursor, is_alive: Callable[[int], bool]) -> set[int]:
        epochs = [row[0] for row in cursor.execute("SELECT broker_epoch FROM session")]
        dead = [epoch for epoch in epochs if not is_alive(epoch)]
        cursor.executemany("DELETE FROM session WHERE broker_epoch = ?", ((epoch,) for epoch in dead))
        return set(epochs).difference(dead)

    def end_session(self, session: Session) -> None:
        """End a session, unless a newer one of its broker has begun."""
        self._connection.execute(
            "DELETE FROM session WHERE broker_id = ? AND broker_epoch = ?", (session.broker_id, session.broker_epoch)
        )

    def live_brokers(self) -> list[LiveBroker]:
        """All sessions, by broker id."""
        rows = self._connection.execute("SELECT broker_id, broker_epoch, registration FROM session ORDER BY 1")
        return [LiveBroker(*row) for row in rows]

    def controller(self) -> Controllership:
        """The newest election."""
        row = self._connection.execute(
            "SELECT controller_id, controller_epoch, EXISTS (SELECT 1 FROM session WHERE broker_id = controller_id "
            "AND broker_epoch = controller_broker_epoch) FROM cluster"
        ).fetchone()
        return Controllership(row[0], row[1], bool(row[2]))

    def state(self) -> StoreState:
        """What there is to be told of."""
        with self._transaction("DEFERRED") as cursor:
            (end_offset,) = cursor.execute("SELECT end_offset FROM cluster").fetchone()
            rows = cursor.execute("SELECT broker_id, broker_epoch FROM session ORDER BY 1").fetchall()
            return StoreState(end_offset, self.controller(), tuple(Session(*row) for row in rows))

    def elect(self, session: Session, seen_epoch: int) -> int:
        """Make the session's broker the controller. Raises SessionExpiredError and FencedError."""
        with self._transaction() as cursor:
            alive = cursor.execute(
                "SELECT 1 FROM session WHERE broker_id = ? AND broker_epoch = ?",
                (session.broker_id, session.broker_epoch),
            ).fetchone()
            require_live_session(session, is_alive=alive is not None)
            self._require_epoch(cursor, seen_epoch)
            cursor.execute(
                "UPDATE cluster SET controller_epoch = ?, controller_id = ?, controller_broker_epoch = ?",
                (seen_epoch + 1, session.broker_id, session.broker_epoch),
            )
        return seen_epoch + 1

    def resign(self, controller_epoch: int) -> None:
        """Have nobody be the controller. Raises FencedError."""
        with self._transaction() as cursor:
            self._require_epoch(cursor, controller_epoch)
            cursor.execute("UPDATE cluster SET controller_broker_epoch = -1")

    def append(self, records: Sequence[bytes], controller_epoch: int, expected_end_offset: int) -> int:
        """Append all records or none; the new end offset. Raises FencedError and StaleOffsetError."""
        with self._transaction() as cursor:
            self._require_epoch(cursor, controller_epoch)
            (end_offset,) = cursor.execute("SELECT end_offset FROM cluster").fetchone()
            require_end_offset(expected_end_offset, end_offset)
            new_end_offset = expected_end_offset + len(records)
            cursor.executemany("INSERT INTO log VALUES (?, ?)", enumerate(records, expected_end_offset))
            cursor.execute("UPDATE cluster SET end_offset = ?", (new_end_offset,))
        return new_end_offset

    def _require_epoch(self, cursor: sqlite3.Cursor, controller_epoch: int) -> None:
        (newest,) = cursor.execute("SELECT controller_epoch FROM cluster").fetchone()
        require_newest_epoch(controller_epoch, newest)

    def read(self, from_offset: int) -> StoredRecords:
        """The log from an offset on, with the snapshot when it starts before it."""
        with self._transaction("DEFERRED") as cursor:
            start_offset, end_offset = cursor.execute("SELECT start_offset, end_offset FROM cluster").fetchone()
            snapshot: tuple[bytes, ...] | None = None
            if from_offset < start_offset:
                snapshot = tuple(row[0] for row in cursor.execute("SELECT record FROM snapshot ORDER BY position"))
                from_offset = start_offset
            rows = cursor.execute("SELECT record FROM log WHERE offset >= ? ORDER BY offset", (from_offset,))
            records = tuple(row[0] for row in rows)
        return StoredRecords(snapshot, records, from_offset, end_offset)

    def write_snapshot(self, snapshot: Sequence[bytes], controller_epoch: int, end_offset: int) -> None:
        """Replace the records below `end_offset`. Raises FencedError."""
        with self._transaction() as cursor:
            self._require_epoch(cursor, controller_epoch)
            cursor.execute("DELETE FROM snapshot")
            cursor.executemany("INSERT INTO snapshot VALUES (?, ?)", enumerate(snapshot))
            cursor.execute("DELETE FROM log WHERE offset < ?", (end_offset,))
            cursor.execute("UPDATE cluster SET start_offset = ?", (end_offset,))

    def probe(self) -> int:
        """The end offset, once it is this process's turn to write; nothing is written."""
        with self._transaction() as cursor:
            (end_offset,) = cursor.execute("SELECT end_offset FROM cluster").fetchone()
        return int(end_offset)

    def export(self) -> MovedMetadata:
        """What is moved to another store."""
        with self._transaction("DEFERRED") as cursor:
            row = cursor.execute(
                "SELECT cluster_id, secret, controller_id, controller_epoch, controller_broker_epoch, broker_epoch, "
                "end_offset FROM cluster"
            ).fetchone()
            records = [*cursor.execute("SELECT record FROM snapshot ORDER BY position")]
            records += cursor.execute("SELECT record FROM log ORDER BY offset")
        values = (*row, tuple(record for (record,) in records))
        return MovedMetadata(*values)

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Replace every record by what `change` makes of it, all or none. For a store that nobody else has open."""
        with self._transaction() as cursor:
            for table, key in (("snapshot", "position"), ("log", "offset")):
                rows = cursor.execute(f"SELECT {key}, record FROM {table}").fetchall()  # noqa: S608 - our own names
                changed = [(change(record), number) for number, record in rows]
                cursor.executemany(f"UPDATE {table} SET record = ? WHERE {key} = ?", changed)  # noqa: S608

    def copy_to(self, path: Path) -> None:
        """Copy the database to a new file, which only its owner can open."""
        create_private(path)
        with closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Cursor]:
        """One transaction: committed at the end of the block, rolled back by an exception."""
        cursor = self._connection.cursor()
        cursor.execute(f"BEGIN {kind}")
        try:
            yield cursor
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise


def _writer_of(cursor: sqlite3.Cursor, layout: int) -> str | None:
    """The first release that wrote a layout, None when nobody has noted it."""
    if cursor.execute("SELECT 1 FROM sqlite_schema WHERE name = 'written_by'").fetchone() is None:
        return None
    row = cursor.execute("SELECT release FROM written_by WHERE layout = ?", (layout,)).fetchone()
    return None if row is None else str(row[0])
