from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from ottla.metadata.image.image import ConfigResourceType
from ottla.metadata.records import ConfigRecord, MetadataRecord, TopicRecord, decode_record, encode_record
from ottla.metadata.store.embedded import FILE_NAME
from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.metadata_file import MetadataFile
from ottla.metadata.topic_ids import replace_topic_ids
from ottla.runtime.disk import OsDisk
from ottla.storage.partition_metadata import format_partition_metadata, parse_partition_metadata

OLD, NEW, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)
CONFIG = ConfigRecord(ConfigResourceType.TOPIC, "orders", "retention.ms", "1")


def data_dir(directory: Path) -> Path:
    """What a broker left that created two topics: records in the snapshot and after it."""
    with closing(MetadataFile(directory / FILE_NAME, "cluster")) as file:
        records: list[MetadataRecord] = [TopicRecord("orders", OLD, ()), CONFIG, TopicRecord("users", OTHER, ())]
        file.append([*map(encode_record, records)], 0, 0)
        file.write_snapshot([encode_record(records[0])], 0, 1)
    for name, topic_id in (("orders-0", OLD), ("orders-1", OLD), ("users-0", OTHER)):
        (directory / name).mkdir()
        (directory / name / "partition.metadata").write_bytes(format_partition_metadata(topic_id))
    return directory


def records_of(directory: Path) -> list[MetadataRecord]:
    with closing(MetadataFile(directory / FILE_NAME, "")) as file:
        return [*map(decode_record, file.export().records)]


def test_a_topic_gets_another_id_wherever_its_own_is_named(tmp_path):
    replace_topic_ids(data_dir(tmp_path), {OLD: NEW}, OsDisk())
    assert records_of(tmp_path) == [TopicRecord("orders", NEW, ()), CONFIG, TopicRecord("users", OTHER, ())]
    found = {each.parent.name: parse_partition_metadata(each.read_bytes()) for each in tmp_path.glob("*/*.metadata")}
    assert found == {"orders-0": NEW, "orders-1": NEW, "users-0": OTHER}


def test_two_topics_never_get_one_id(tmp_path):
    before = records_of(data_dir(tmp_path))
    with pytest.raises(StoreError, match="two topics cannot have one id"):
        replace_topic_ids(tmp_path, {OLD: NEW, OTHER: NEW}, OsDisk())
    with pytest.raises(StoreError, match="two topics cannot have one id"):
        replace_topic_ids(tmp_path, {OLD: OTHER}, OsDisk())
    assert records_of(tmp_path) == before


def test_ids_are_not_changed_under_a_broker_that_runs(tmp_path):
    before, disk = records_of(data_dir(tmp_path)), OsDisk()
    lock = disk.lock(tmp_path / ".lock")
    try:
        with pytest.raises(StoreError, match="a broker runs on"):
            replace_topic_ids(tmp_path, {OLD: NEW}, disk)
    finally:
        disk.close(lock)
    assert records_of(tmp_path) == before
