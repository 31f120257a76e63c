"""Checkpoints, identity files and names, each as Kafka writes them."""

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import __version__
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import OsDisk
from ottla.storage.file_names import (
    deleted_directory_name,
    is_deleted_directory_name,
    offset_file_name,
    parse_log_directory_name,
    parse_offset_file_name,
)
from ottla.storage.log_directory import read_or_forget
from ottla.storage.meta_properties import MetaProperties, format_meta_properties, parse_meta_properties
from ottla.storage.offset_checkpoint import MalformedCheckpointError, OffsetCheckpointFile
from ottla.storage.partition_metadata import format_partition_metadata, format_topic_id, parse_partition_metadata

identifiers = st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True)
topics = st.text("abcXYZ019._-", min_size=1, max_size=249)


@pytest.mark.slow
@given(st.dictionaries(st.builds(TopicPartition, topics, st.integers(0, 10**6)), st.integers(0, 1 << 62), max_size=10))
def test_checkpointed_offsets_come_back(tmp_path_factory: pytest.TempPathFactory, offsets: dict[TopicPartition, int]):
    file = OffsetCheckpointFile(OsDisk(), str(tmp_path_factory.getbasetemp() / "checkpoint"))
    file.write(offsets)
    assert file.read() == offsets


def test_a_checkpoint_is_version_count_and_lines(tmp_path: Path):
    file = OffsetCheckpointFile(OsDisk(), str(tmp_path / "checkpoint"))
    assert file.read() is None
    file.write({TopicPartition("orders", 0): 4711, TopicPartition("a-b", 12): 0})
    assert (tmp_path / "checkpoint").read_text() == "0\n2\norders 0 4711\na-b 12 0\n"


@pytest.mark.parametrize("text", ["", "0", "1\n0\n", "0\n1\n", "0\n1\norders 0\n", "0\n1\norders x 5\n", "0\nx\n"])
def test_a_broken_checkpoint_is_refused_or_forgotten_never_half_read(tmp_path: Path, text: str):
    file = OffsetCheckpointFile(OsDisk(), str(tmp_path / "checkpoint"))
    (tmp_path / "checkpoint").write_text(text)
    with pytest.raises(MalformedCheckpointError):
        file.read()
    assert read_or_forget(file) is None


@given(st.uuids())
def test_a_topic_id_is_written_as_22_characters_and_comes_back(topic_id: UUID):
    assert len(format_topic_id(topic_id)) == 22
    assert parse_partition_metadata(format_partition_metadata(topic_id)) == topic_id


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ\n", b"version: 0\ntopic_id: x\n", b"\xff"]
)
def test_a_broken_partition_metadata_is_refused(data: bytes):
    with pytest.raises(InvalidInputError):
        parse_partition_metadata(data)


def test_an_empty_partition_metadata_is_said_to_be_empty():
    with pytest.raises(InvalidInputError, match="the file is empty, as after a crash"):
        parse_partition_metadata(b"")


def test_meta_properties_of_older_brokers_name_the_broker_id():
    assert parse_meta_properties(b"version=0\nbroker.id=7\ncluster.id=c=d\n") == MetaProperties("c=d", 7, None)


@pytest.mark.slow
@given(st.from_regex(r"[\w-]{22}", fullmatch=True), st.integers(0, 1 << 31), st.uuids() | st.none())
def test_meta_properties_come_back(cluster_id: str, node_id: int, directory_id: UUID | None):
    properties = MetaProperties(cluster_id, node_id, directory_id)
    assert parse_meta_properties(format_meta_properties(properties)) == properties


@pytest.mark.parametrize(
    "data", [b"", b"version=1\n", b"version=2\ncluster.id=a\nnode.id=1\n", b"version=1\nnode.id=x\n"]
)
def test_broken_meta_properties_are_refused(data: bytes):
    with pytest.raises(InvalidInputError):
        parse_meta_properties(data)


def test_meta_properties_of_a_newer_release_say_which_it_is():
    written = format_meta_properties(MetaProperties("a", 1, None)).decode()
    assert f"\nottla.release={__version__}\n" in written
    newer = written.replace("version=1", "version=2").replace(__version__, "7.1.0")
    with pytest.raises(InvalidInputError, match=r"layout 2 of Ottla 7\.1\.0, .*: start Ottla 7\.1\.0 or newer"):
        parse_meta_properties(newer.encode())


@given(topics, st.integers(0, 10**9))
def test_the_directory_of_a_partition_says_which_one_it_is(topic: str, partition: int):
    name = TopicPartition(topic, partition)
    assert parse_log_directory_name(str(name)) == name
    deleted = deleted_directory_name(name, UUID(int=5))
    assert is_deleted_directory_name(deleted)
    assert len(deleted) <= 255
    assert not is_deleted_directory_name(str(name))


@pytest.mark.parametrize(
    "name", ["lost+found", "metadata.db", "orders", "orders-", "-0", "orders-1x", "orders-0.abc-delete"]
)
def test_other_directories_are_not_taken_for_logs(name: str):
    assert parse_log_directory_name(name) is None


def test_segment_files_are_named_by_twenty_digits():
    assert offset_file_name(368769, ".log") == "00000000000000368769.log"
    assert parse_offset_file_name("00000000000000368769.timeindex") == (368769, ".timeindex")
    for other in ("368769.log", "00000000000000368769.log.deleted", "leader-epoch-checkpoint", "00000000000000368769"):
        assert parse_offset_file_name(other) is None
