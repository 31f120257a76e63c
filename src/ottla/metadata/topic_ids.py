"""Gives topics of a stopped broker other ids: those that they had in the cluster that an archive was made of.

No request can choose the id of a topic. Whoever could would pass a topic off as another one, to streams and followers
that tell topics apart by their ids alone. So ids change in the files of a broker that does not run, by those who can
write these files:

    metadata.db                               every record that names the topic
    orders-0/partition.metadata               which topic the log belongs to
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from uuid import UUID

from msgspec import structs

from ottla.metadata.records import TopicRecord, decode_record, encode_record
from ottla.metadata.store.embedded import FILE_NAME
from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.metadata_file import MetadataFile
from ottla.runtime.disk import Disk
from ottla.storage.file_names import LOCK_FILE, PARTITION_METADATA
from ottla.storage.partition_metadata import format_partition_metadata, parse_partition_metadata


def replace_topic_ids(data_dir: Path, ids: Mapping[UUID, UUID], disk: Disk) -> None:
    """Replace the ids of topics, old id to new, in a data directory that has its metadata in it.

    A crash on the way leaves a directory of which a broker says that logs belong to other topics. Raises StoreError
    when a broker runs on the directory, and when two topics would have one id.
    """
    try:
        lock = disk.lock(data_dir / LOCK_FILE)
    except BlockingIOError:
        raise StoreError(f"a broker runs on {data_dir}: stop it first") from None
    try:
        with closing(MetadataFile(data_dir / FILE_NAME, "")) as file:
            found = [decode_record(record) for record in file.export().records]
            topics = {record.topic_id for record in found if isinstance(record, TopicRecord)}
            if len({ids.get(topic_id, topic_id) for topic_id in topics}) < len(topics):
                raise StoreError(f"{data_dir}: two topics cannot have one id")
            file.rewrite(lambda record: _with_ids(record, ids))
        for name in disk.list_dir(data_dir):
            path = data_dir / name / PARTITION_METADATA
            if disk.is_dir(data_dir / name) and disk.exists(path):
                topic_id = parse_partition_metadata(disk.read_bytes(path))
                if topic_id in ids:
                    disk.write_atomic(path, format_partition_metadata(ids[topic_id]))
    except sqlite3.Error as error:
        raise StoreError(f"{data_dir / FILE_NAME}: {error}") from error
    finally:
        disk.close(lock)


def _with_ids(data: bytes, ids: Mapping[UUID, UUID]) -> bytes:
    record = decode_record(data)
    topic_id = getattr(record, "topic_id", None)
    if topic_id is None or topic_id not in ids:
        return data
    return encode_record(structs.replace(record, topic_id=ids[topic_id]))
