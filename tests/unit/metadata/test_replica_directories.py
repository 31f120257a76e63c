"""Which replica lies in which data directory: said by its broker, kept with the topic, forgotten with the replica."""

from uuid import UUID

import pytest

from ottla.metadata.controller.replica_directories import ReplicaPlace, decide_replica_directories
from ottla.metadata.image.delta import apply_records, image_from_snapshot, snapshot_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import (
    BrokerRegisteredRecord,
    MetadataRecord,
    PartitionChangedRecord,
    PartitionState,
    ReplicaDirectoriesRecord,
    TopicRecord,
    TopicRemovedRecord,
    decode_record,
    encode_record,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError

TOPIC, DISK_A, DISK_B = UUID(int=7), UUID(int=101), UUID(int=102)
STATE = PartitionState(1, 0, (1, 2), (1, 2), 0)


@pytest.fixture
def image() -> MetadataImage:
    records: list[MetadataRecord] = [
        BrokerRegisteredRecord(1, 11, None, 9092, None),
        BrokerRegisteredRecord(2, 12, None, 9093, None),
        TopicRecord("orders", TOPIC, (STATE, STATE, STATE._replace(replicas=(2,)))),
    ]
    return apply_records(MetadataImage("cluster"), records)[0]


def place(image: MetadataImage, *places: tuple[UUID, int, UUID], broker: int = 1, epoch: int = 11):
    decision = decide_replica_directories(image, broker, epoch, [ReplicaPlace(*each) for each in places])
    codes = [outcome.code if isinstance(outcome, ApiError) else ErrorCode.NONE for outcome in decision.result]
    return apply_records(image, decision.records)[0], decision.records, codes


def test_what_a_broker_says_is_remembered_and_the_same_again_is_no_news(image: MetadataImage):
    image, records, codes = place(image, (TOPIC, 0, DISK_A), (TOPIC, 1, DISK_B))
    assert (len(records), codes) == (1, [ErrorCode.NONE] * 2)
    assert [image.replica_directory(TOPIC, index, 1) for index in range(3)] == [DISK_A, DISK_B, None]
    assert image.replica_directory(TOPIC, 0, 2) is None
    again, records, codes = place(image, (TOPIC, 0, DISK_A))
    assert (records, codes) == ((), [ErrorCode.NONE])
    moved, _, _ = place(again, (TOPIC, 0, DISK_B))
    assert [moved.replica_directory(TOPIC, index, 1) for index in range(2)] == [DISK_B, DISK_B]


def test_what_cannot_be_is_refused_by_itself(image: MetadataImage):
    image, _, codes = place(
        image, (UUID(int=8), 0, DISK_A), (TOPIC, 3, DISK_A), (TOPIC, -1, DISK_A), (TOPIC, 2, DISK_A), (TOPIC, 0, DISK_A)
    )
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    assert image.replica_directories == {TOPIC: {(0, 1): DISK_A}}


@pytest.mark.parametrize(("broker", "epoch"), [(1, 10), (3, 11)])
def test_a_broker_of_another_epoch_is_refused(image: MetadataImage, broker: int, epoch: int):
    with pytest.raises(ApiError) as refused:
        place(image, (TOPIC, 0, DISK_A), broker=broker, epoch=epoch)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_places_go_with_the_replica_and_with_the_topic(image: MetadataImage):
    image, _, _ = place(image, (TOPIC, 0, DISK_A), (TOPIC, 1, DISK_B))
    image, _, _ = place(image, (TOPIC, 0, DISK_B), broker=2, epoch=12)
    moved, _ = apply_records(image, [PartitionChangedRecord(TOPIC, 0, STATE._replace(replicas=(2,), isr=(2,)))])
    assert moved.replica_directories == {TOPIC: {(1, 1): DISK_B, (0, 2): DISK_B}}
    removed, _ = apply_records(moved, [TopicRemovedRecord(TOPIC)])
    assert removed.replica_directories == {}
    at_once, _ = apply_records(image, [ReplicaDirectoriesRecord(1, TOPIC, ((1, DISK_A),)), TopicRemovedRecord(TOPIC)])
    assert at_once.replica_directories == {}


def test_a_snapshot_has_them(image: MetadataImage):
    image, _, _ = place(image, (TOPIC, 0, DISK_A), (TOPIC, 1, DISK_B))
    image, _, _ = place(image, (TOPIC, 0, DISK_B), broker=2, epoch=12)
    records = [decode_record(encode_record(record)) for record in snapshot_records(image)]
    assert image_from_snapshot("cluster", records, 9).replica_directories == image.replica_directories


@pytest.mark.parametrize(
    "record",
    [ReplicaDirectoriesRecord(1, UUID(int=8), ((0, DISK_A),)), ReplicaDirectoriesRecord(1, TOPIC, ((3, DISK_A),))],
)
def test_a_record_that_contradicts_the_image_is_refused(image: MetadataImage, record: ReplicaDirectoriesRecord):
    with pytest.raises(InvalidInputError):
        apply_records(image, [record])


def test_the_record_is_compact():
    record = ReplicaDirectoriesRecord(1, TOPIC, ((0, DISK_A),))
    assert encode_record(record) == (
        b'["replica-directories",0,1,"AAAAAAAAAAAAAAAAAAAABw",[[0,"AAAAAAAAAAAAAAAAAAAAZQ"]]]'
    )
