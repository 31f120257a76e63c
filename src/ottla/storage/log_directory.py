"""A data directory as a whole: whose it is, how its last broker left it, and what its checkpoints say.

opened     locked; was there a clean-shutdown marker? it is removed before anything is written
identified belongs to this cluster and node, from the first start on
closed     checkpoints written, then the marker, last
"""

import json
import logging
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import PRIVATE, Disk
from ottla.runtime.exhaustion import advice
from ottla.runtime.rng import Rng
from ottla.storage.file_names import (
    CLEAN_SHUTDOWN_MARKER,
    FAILED_DISK_MARKER,
    LOCK_FILE,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from ottla.storage.meta_properties import MetaProperties, format_meta_properties, parse_meta_properties
from ottla.storage.offset_checkpoint import MalformedCheckpointError, OffsetCheckpointFile

logger: Final = logging.getLogger(__name__)

NO_BROKER_EPOCH: Final = -1


class DirectoryUse(Struct, frozen=True):
    """By which sessions of its broker a directory was used: what tells whether something may be missing in it.

    `broker_epoch` is that of the newest session, so that an old copy is known for one; `clean_since` that
    of the first since the last unclean end, from where on nothing was lost. Both are -1 after an unclean end.
    """

    clean_since: int
    broker_epoch: int

    def by(self, broker_epoch: int) -> "DirectoryUse":
        """After a session began."""
        return DirectoryUse(broker_epoch if self.clean_since < 0 else self.clean_since, broker_epoch)


UNCLEAN_USE: Final = DirectoryUse(NO_BROKER_EPOCH, NO_BROKER_EPOCH)


class DirectoryError(OSError):
    """A data directory cannot be used: it is in use, or somebody else's. The message says what to do."""


def unusable(path: str, error: OSError) -> DirectoryError:
    """The error for a directory that the operating system does not let us make, read or write."""
    where = f"{error.filename}: " if error.filename not in (None, path) else ""
    what_to_do = advice(error) or "give another directory, or make it one that this user can write to"
    return DirectoryError(f"data directory {path} cannot be used: {where}{error.strerror or error}; {what_to_do}")


def failure_text(error: OSError) -> str:
    """Why a directory is offline, for people: an error of the operating system without its number."""
    if error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


class LogDirectory:
    """The files of a data directory that belong to no single log. Every method is BLOCKING."""

    __slots__ = (
        "_disk",
        "_lock",
        "_new_id",
        "_properties",
        "_rng",
        "log_starts",
        "path",
        "recovery_points",
        "replication_offsets",
        "use",
        "was_clean",
        "was_failing",
    )

    def __init__(self, path: str, disk: Disk, rng: Rng) -> None:
        self.path = path
        self.recovery_points = OffsetCheckpointFile(disk, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
        self.replication_offsets = OffsetCheckpointFile(disk, f"{path}/{REPLICATION_CHECKPOINT}")
        self.log_starts = OffsetCheckpointFile(disk, f"{path}/{LOG_START_CHECKPOINT}")
        self.was_clean = False
        self.was_failing = False
        self.use = UNCLEAN_USE
        """As the marker of a clean end had it, then as `used_by` made it."""
        self._disk = disk
        self._rng = rng
        self._lock = -1
        self._properties: MetaProperties | None = None
        self._new_id: UUID | None = None

    @property
    def known_id(self) -> UUID | None:
        """By what the metadata knows the directory (KIP-858); None before `open`, and of one that has none yet."""
        return self._properties.directory_id if self._properties is not None else None

    @property
    def directory_id(self) -> UUID:
        """`known_id`, or, of a new directory, the one that it gets."""
        if self.known_id is not None:
            return self.known_id
        if self._new_id is None:
            self._new_id = self._rng.uuid()
        return self._new_id

    def open(self) -> None:
        """Lock the directory, made when missing, and see whose it is and how it was left.

        Raises DirectoryError, OSError.
        """
        self._disk.make_dir(self.path, mode=PRIVATE)
        try:
            self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise DirectoryError(
                f"data directory {self.path} is used by another broker: stop it, or give another directory"
            ) from error
        self._properties = self._read_properties()
        marker = f"{self.path}/{CLEAN_SHUTDOWN_MARKER}"
        self.was_clean = self._disk.exists(marker)
        if self.was_clean:
            self.use = _parse_clean_shutdown(self._disk.read_bytes(marker))
            self._disk.remove(marker)
            self._disk.sync_dir(self.path)
        self.was_failing = self._disk.exists(f"{self.path}/{FAILED_DISK_MARKER}")

    def mark_failing(self) -> None:
        """A write or a sync failed for good: the page cache may hold what is not on disk, and call it clean.

        It matters as long as the page cache lives, so the marker need not be on disk itself. Raises OSError.
        """
        self._disk.write(f"{self.path}/{FAILED_DISK_MARKER}", b"")

    def mark_sound(self) -> None:
        """Everything was read from the disk itself, and synced. Raises OSError."""
        self._disk.remove(f"{self.path}/{FAILED_DISK_MARKER}")
        self.was_failing = False

    def _read_properties(self) -> MetaProperties | None:
        path = f"{self.path}/{META_PROPERTIES}"
        if not self._disk.exists(path):
            return None
        try:
            return parse_meta_properties(self._disk.read_bytes(path))
        except InvalidInputError as error:
            raise DirectoryError(f"{path} cannot be read: {error}") from error

    def require_owner(self, cluster_id: str, node_id: int) -> None:
        """See that the directory is new or this node's; nothing is written. Raises DirectoryError."""
        known = self._properties
        if known is not None and (known.cluster_id, known.node_id) != (cluster_id, node_id):
            raise DirectoryError(
                f"data directory {self.path} belongs to node {known.node_id} of cluster {known.cluster_id}, "
                f"this is node {node_id} of cluster {cluster_id}: give another directory"
            )

    def identify(self, cluster_id: str, node_id: int) -> bool:
        """Claim a new directory for this node, or see that it is this node's; whether it was claimed before.

        Raises DirectoryError, OSError.
        """
        self.require_owner(cluster_id, node_id)
        known = self._properties
        properties = MetaProperties(cluster_id, node_id, self.directory_id)
        if known != properties:
            self._disk.write_atomic(f"{self.path}/{META_PROPERTIES}", format_meta_properties(properties))
            self._properties = properties
        return known is not None

    def close(self, *, clean: bool) -> None:
        """Give the directory up; `clean` if everything in it is complete and on disk."""
        if clean:
            self._disk.write_atomic(f"{self.path}/{CLEAN_SHUTDOWN_MARKER}", _format_clean_shutdown(self.use))
        if self._lock >= 0:
            self._disk.close(self._lock)
            self._lock = -1


def _format_clean_shutdown(use: DirectoryUse) -> bytes:
    """What the marker says: Kafka's fields (KIP-966), and since when the directory is whole."""
    fields = {"version": 0, "brokerEpoch": use.broker_epoch, "cleanSince": use.clean_since}
    return json.dumps(fields, separators=(",", ":")).encode()


def _parse_clean_shutdown(marker: bytes) -> DirectoryUse:
    """One that Kafka wrote is whole since its newest session; one that says nothing, or not in JSON, since none."""
    try:
        fields = json.loads(marker)
        broker_epoch = int(fields["brokerEpoch"])
        return DirectoryUse(int(fields.get("cleanSince", broker_epoch)), broker_epoch)
    except (ValueError, LookupError, TypeError, AttributeError):
        return UNCLEAN_USE


def read_or_forget(checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int] | None:
    """The offsets of a checkpoint; None when there is none, or, with a warning, when it is not what it should be."""
    try:
        return checkpoint.read()
    except MalformedCheckpointError as error:
        logger.warning("ignoring %s: %s", checkpoint.path, error)
        return None
