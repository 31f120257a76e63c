from uuid import UUID

from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.difference import difference
from ottla.metadata.image.image import ConfigResource, ConfigResourceType, MetadataImage, topic_resource
from ottla.metadata.records import (
    BrokerRegisteredRecord,
    BrokerRemovedRecord,
    ClientQuotaRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangedRecord,
    PartitionState,
    TopicRecord,
    TopicRemovedRecord,
)

STATE = PartitionState(1, 0, (1,), (1,), 0)
TOPIC = int(ConfigResourceType.TOPIC)


def records():
    yield from (TopicRecord(name, UUID(int=number), (STATE, STATE)) for number, name in enumerate("abc", 1))
    yield ConfigRecord(TOPIC, "a", "retention.ms", "1")
    yield ConfigRecord(TOPIC, "b", "retention.ms", "1")
    yield BrokerRegisteredRecord(1, 1, None, 9092, None)
    yield BrokerRegisteredRecord(2, 2, None, 9093, None)


CHANGES: list[MetadataRecord] = [
    PartitionChangedRecord(UUID(int=2), 1, STATE._replace(leader_epoch=1)),
    ConfigRecord(TOPIC, "b", "retention.ms", "2"),
    TopicRemovedRecord(UUID(int=3)),
    TopicRecord("c", UUID(int=4), (STATE,)),
    TopicRecord("d", UUID(int=5), (STATE,)),
    ConfigRecord(TOPIC, "d", "retention.ms", "3"),
    BrokerRemovedRecord(2),
    ClientQuotaRecord((("user", None),), "producer_byte_rate", 1.0),
]


def test_a_snapshot_changes_what_the_records_it_stands_for_change():
    base, _ = apply_records(MetadataImage("cluster"), records())
    expected, by_records = apply_records(base, CHANGES)
    loaded, _ = apply_records(MetadataImage("cluster"), [*records(), *CHANGES])
    image, by_snapshot = difference(base, loaded)
    assert {topic.name: topic.partitions for topic in image.topics()} == {
        topic.name: topic.partitions for topic in expected.topics()
    }
    for what in ("created_topics", "changed_topics", "deleted_topics"):
        names = [{topic.topic_id for topic in getattr(delta, what)} for delta in (by_records, by_snapshot)]
        assert names[0] == names[1], what
    assert by_snapshot.changed_brokers == by_records.changed_brokers == {2}
    assert by_snapshot.changed_configs == by_records.changed_configs == {topic_resource("b"), topic_resource("d")}
    assert by_snapshot.has_changed_quotas
    assert image.end_offset == expected.end_offset


def test_what_did_not_change_stays_the_same_object():
    base, _ = apply_records(MetadataImage("cluster"), records())
    again, _ = apply_records(MetadataImage("cluster"), records())
    image, delta = difference(base, again)
    assert all(image.topic(name) is base.topic(name) for name in "abc")
    assert [delta.touched_topics, delta.changed_configs, delta.changed_brokers] == [{}, set(), set()]
    assert not delta.has_changed_quotas
    assert ConfigResource(ConfigResourceType.TOPIC, "a") in image.configs
