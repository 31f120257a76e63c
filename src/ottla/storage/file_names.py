"""Names of files and directories in a data directory, as Kafka has them.

<data directory>/
    meta.properties  .lock  .kafka_cleanshutdown
    recovery-point-offset-checkpoint  replication-offset-checkpoint  log-start-offset-checkpoint
    cleaner-offset-checkpoint
    orders-0/
        00000000000000000000.log  00000000000000000000.index  00000000000000000000.timeindex
        00000000000000000000.txnindex  00000000000000368769.snapshot  leader-epoch-checkpoint  partition.metadata
    orders-1.5f0cd2b7e0fb4c0f9a3c3d8b8a5d6f10-delete/
    users-0.6a1de3c8f1fc5d10ab4d4e9c9b6e7021-stray/
    views-3.0d6c2f7f2f1c4b0f8a0b6a4d2b9c1e55-future/
"""

import re
from typing import Final
from uuid import UUID

from ottla.model.topic_partition import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_SUFFIX: Final = ".deleted"
DELETED_DIRECTORY_SUFFIX: Final = "-delete"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
FAILED_DISK_MARKER: Final = ".disk-failed"
LOCK_FILE: Final = ".lock"

_FILE_NAME_BYTES_MAX: Final = 255
_FUTURE_DIRECTORY: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})\.[0-9a-f]{32}-future")
_LOG_DIRECTORY: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})")
_OFFSET_FILE: Final = re.compile(r"(?P<offset>\d{20})(?P<suffix>\.[a-z]+)")


def offset_file_name(offset: int, suffix: str) -> str:
    """The name of a segment's file or of a snapshot.

    >>> offset_file_name(368769, LOG_SUFFIX)
    '00000000000000368769.log'
    """
    return f"{offset:020}{suffix}"


def parse_offset_file_name(name: str) -> tuple[int, str] | None:
    """Offset and suffix of such a name, or None when the name is of another kind."""
    match = _OFFSET_FILE.fullmatch(name)
    return (int(match["offset"]), match["suffix"]) if match else None


def parse_log_directory_name(name: str) -> TopicPartition | None:
    """The partition whose directory has this name, or None.

    >>> parse_log_directory_name("page-views-12")
    TopicPartition(topic='page-views', partition=12)
    """
    match = _LOG_DIRECTORY.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None


def deleted_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """What the directory of a deleted partition is called until it is removed; the topic is cut to fit 255 bytes."""
    return _aside(topic_partition, unique, DELETED_DIRECTORY_SUFFIX)


def stray_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """What the directory of a partition is called that no topic claims any more; nobody removes it."""
    return _aside(topic_partition, unique, STRAY_DIRECTORY_SUFFIX)


def future_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """What the directory of a partition is called while it is copied into its data directory; see `may_have_future`."""
    return f"{topic_partition}.{unique.hex}{FUTURE_DIRECTORY_SUFFIX}"


def may_have_future(topic_partition: TopicPartition) -> bool:
    """Whether such a name is none too long for a file system."""
    return len(future_directory_name(topic_partition, UUID(int=0))) <= _FILE_NAME_BYTES_MAX


def parse_future_directory_name(name: str) -> TopicPartition | None:
    """The partition of which a copy is in a directory of this name, or None."""
    match = _FUTURE_DIRECTORY.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None


def _aside(topic_partition: TopicPartition, unique: UUID, suffix: str) -> str:
    end = f"-{topic_partition.partition}.{unique.hex}{suffix}"
    return topic_partition.topic[: _FILE_NAME_BYTES_MAX - len(end)] + end


def is_deleted_directory_name(name: str) -> bool:
    """Whether a directory waits to be removed."""
    return name.endswith(DELETED_DIRECTORY_SUFFIX) and "." in name
