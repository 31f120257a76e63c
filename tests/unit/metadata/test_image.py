from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from ottla.metadata.controller.replica_assignment import new_partition
from ottla.metadata.image.delta import MetadataDelta, apply_records, image_from_snapshot, snapshot_records
from ottla.metadata.image.image import (
    ALL_BROKERS,
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
    topic_resource,
)
from ottla.metadata.records import (
    BrokerChangedRecord,
    BrokerRegisteredRecord,
    BrokerRemovedRecord,
    ConfigRecord,
    ControllerRecord,
    PartitionChangedRecord,
    PartitionsAddedRecord,
    PartitionsChangedRecord,
    PartitionState,
    ProducerIdsRecord,
    TopicRecord,
    TopicRemovedRecord,
    decode_record,
    encode_record,
)
from ottla.model.errors import InvalidInputError
from tests.unit.metadata.images import image_of, topic_record

A, B = UUID(int=1), UUID(int=2)


def test_a_new_topic_is_found_by_name_and_by_id():
    image = image_of(topic_record("a", 1, 3))
    topic = image.topic("a")
    assert topic is not None
    assert topic is image.topic_by_id(A)
    assert [partition.index for partition in topic.partitions] == [0, 1, 2]
    assert topic.partitions[0].leader == 1
    assert image.partition("a", 2) is topic.partitions[2]
    assert image.partition("a", 3) is None
    assert image.partition("b", 0) is None


def test_an_image_does_not_change_when_the_next_one_is_made():
    before = image_of(topic_record("a", 1))
    after, _ = apply_records(before, [topic_record("b", 2), TopicRemovedRecord(A), ConfigRecord(4, "", "k", "v")])
    assert list(before.topics_by_name) == ["a"]
    assert not before.configs
    assert list(after.topics_by_name) == ["b"]


def test_untouched_topics_are_the_same_objects_in_the_next_image():
    before = image_of(topic_record("a", 1), topic_record("b", 2))
    after, _ = apply_records(before, [PartitionsAddedRecord(B, (new_partition((1,)),))])
    assert after.topic("a") is before.topic("a")
    assert after.topic("b") is not before.topic("b")
    unrelated, _ = apply_records(before, [ProducerIdsRecord(5)])
    assert unrelated.topics_by_name is before.topics_by_name


def test_the_delta_tells_what_came_changed_and_went():
    before = image_of(topic_record("grown", 1), topic_record("gone", 2))
    delta = MetadataDelta(before)
    delta.replay(
        [
            topic_record("new", 3),
            PartitionsAddedRecord(A, (new_partition((1,)),)),
            TopicRemovedRecord(B),
            topic_record("brief", 4),
            TopicRemovedRecord(UUID(int=4)),
        ]
    )
    assert [topic.name for topic in delta.created_topics] == ["new"]
    assert [(topic.name, len(topic.partitions)) for topic in delta.changed_topics] == [("grown", 2)]
    assert [topic.name for topic in delta.deleted_topics] == ["gone"]
    assert set(delta.to_image().topics_by_name) == {"grown", "new"}


def test_a_name_can_be_used_again_by_another_topic():
    before = image_of(topic_record("a", 1))
    after, delta = apply_records(before, [TopicRemovedRecord(A), topic_record("a", 2)])
    topic = after.topic("a")
    assert topic is not None
    assert topic.topic_id == B
    assert [each.topic_id for each in delta.deleted_topics] == [A]
    assert [each.topic_id for each in delta.created_topics] == [B]


def test_a_removed_topic_takes_its_settings_with_it():
    before = image_of(topic_record("a", 1), ConfigRecord(2, "a", "retention.ms", "5"))
    after, delta = apply_records(before, [TopicRemovedRecord(A), topic_record("a", 2)])
    assert after.config(topic_resource("a")) == {}
    assert not delta.changed_configs


def test_settings_are_set_and_taken_away_one_by_one():
    image = image_of(ConfigRecord(4, "", "a", "1"), ConfigRecord(4, "", "b", "2"), ConfigRecord(4, "1", "a", "3"))
    assert image.broker_config(1) == {"a": "3", "b": "2"}
    assert image.broker_config(9) == {"a": "1", "b": "2"}
    after, delta = apply_records(image, [ConfigRecord(4, "1", "a", None)])
    assert after.broker_config(1) == {"a": "1", "b": "2"}
    assert delta.changed_configs == {ConfigResource(ConfigResourceType.BROKER, "1")}
    assert set(after.configs) == {ALL_BROKERS}


def test_a_changed_partition_keeps_its_neighbours():
    before = image_of(topic_record("a", 1, 3), brokers=(1, 2))
    after, _ = apply_records(before, [PartitionChangedRecord(A, 1, PartitionState(2, 1, (2,), (2,), 1))])
    topic, old = after.topic("a"), before.topic("a")
    assert topic is not None
    assert old is not None
    assert topic.partitions[1].leader == 2
    assert topic.partitions[0] is old.partitions[0]
    assert after.replica_counts == {1: 2, 2: 1}


def test_changes_of_many_partitions_meet_other_changes_of_their_topic_in_order():
    before = image_of(topic_record("a", 1, 3), topic_record("b", 2), brokers=(1, 2))
    moved = PartitionState(2, 1, (2, 1), (2,), 1, elr=(1,))
    delta = MetadataDelta(before)
    delta.replay(
        [
            PartitionsChangedRecord(A, ((0, moved), (2, moved))),
            PartitionsAddedRecord(A, (new_partition((1,)),)),
            PartitionChangedRecord(A, 3, moved),
            PartitionChangedRecord(B, 0, moved),
            TopicRemovedRecord(B),
        ]
    )
    after = delta.to_image()
    topic = after.topic("a")
    assert topic is not None
    assert [partition.leader for partition in topic.partitions] == [2, 1, 2, 2]
    assert topic.partitions[0].state == moved
    assert delta.changed_topics == [topic]
    assert [each.name for each in delta.deleted_topics] == ["b"]
    assert after.replica_counts == {1: 4, 2: 3}


def test_a_fenced_broker_is_in_the_cluster_but_not_live():
    image = image_of(brokers=(1, 2, 3))
    after, delta = apply_records(
        image, [BrokerChangedRecord(2, 2, fenced=True, shutting_down=False), BrokerChangedRecord(3, 3, False, True)]
    )
    assert set(after.brokers) == {1, 2, 3}
    assert set(after.live_brokers()) == {1, 3}
    assert after.active_brokers() == {1}
    assert delta.changed_brokers == {2, 3}


def test_a_snapshot_keeps_what_a_cluster_says_of_brokers_and_partitions():
    registered = BrokerRegisteredRecord(2, 9, "h", 1, "r", {"L": ("h", 1)}, "i", ("d", "e"), False, True, True)
    state = PartitionState(-1, 3, (1, 2), (), 4, (2,), (1,), (1,), 1)
    image = image_of(registered, TopicRecord("a", A, (state,)))
    again = image_from_snapshot("c", [decode_record(encode_record(each)) for each in snapshot_records(image)], 5)
    assert again.brokers == image.brokers
    assert again.brokers[2].endpoints == {"L": ("h", 1)}
    partition = again.partition("a", 0)
    assert partition is not None
    assert partition.state == state


def test_brokers_come_and_go():
    image = image_of(brokers=(1, 2))
    after, delta = apply_records(image, [BrokerRemovedRecord(2), BrokerRegisteredRecord(3, 9, "h", 1, "r")])
    assert set(after.brokers) == {1, 3}
    assert delta.changed_brokers == {2, 3}


@pytest.mark.parametrize(
    "record",
    [
        topic_record("a", 2),
        TopicRemovedRecord(B),
        PartitionsAddedRecord(B, ()),
        PartitionChangedRecord(A, 1, new_partition((1,))),
        PartitionsChangedRecord(B, ()),
        BrokerChangedRecord(1, 7, fenced=True, shutting_down=False),
        BrokerChangedRecord(2, 2, fenced=True, shutting_down=False),
        ProducerIdsRecord(999),
    ],
)
def test_a_record_that_contradicts_the_image_is_refused(record):
    image = image_of(topic_record("a", 1), ProducerIdsRecord(1000))
    with pytest.raises(InvalidInputError):
        apply_records(image, [record])


def test_the_offset_counts_the_records():
    image = image_of(topic_record("a", 1))
    assert image.end_offset == 2
    after, _ = apply_records(image, [ControllerRecord(1, 7), topic_record("b", 2)])
    assert after.end_offset == 4
    assert (after.controller_id, after.controller_epoch) == (1, 7)


names = st.sampled_from([f"t{number}" for number in range(6)])


class ImageHistory(RuleBasedStateMachine):
    """Random histories, against plain dictionaries."""

    topics = Bundle("topics")

    @initialize()
    def start(self):
        self.image = MetadataImage("c")
        self.partition_counts: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.next_id = 1

    def apply(self, *records):
        self.image, self.delta = apply_records(self.image, records)

    @rule(name=names, count=st.integers(1, 3))
    def create(self, name, count):
        record = topic_record(name, self.next_id, count)
        if name in self.ids:
            with pytest.raises(InvalidInputError):
                self.apply(record)
            return
        self.apply(record)
        self.ids[name], self.partition_counts[name] = record.topic_id, count
        self.next_id += 1

    @rule(name=names)
    def delete(self, name):
        if name in self.ids:
            self.apply(TopicRemovedRecord(self.ids.pop(name)))
            del self.partition_counts[name]
            self.settings.pop(name, None)

    @rule(name=names, count=st.integers(1, 3))
    def grow(self, name, count):
        if name in self.ids:
            self.apply(PartitionsAddedRecord(self.ids[name], (new_partition((1,)),) * count))
            self.partition_counts[name] += count

    @rule(name=names, key=st.sampled_from("kl"), value=st.none() | st.sampled_from("12"))
    def set_config(self, name, key, value):
        if name not in self.ids:
            return
        self.apply(ConfigRecord(2, name, key, value))
        settings = self.settings.setdefault(name, {})
        if value is None:
            settings.pop(key, None)
        else:
            settings[key] = value

    @invariant()
    def the_image_says_what_happened(self):
        image = self.image
        assert {topic.name: len(topic.partitions) for topic in image.topics_by_id.values()} == self.partition_counts
        assert {name: topic.topic_id for name, topic in image.topics_by_name.items()} == self.ids
        expected = {topic_resource(name): settings for name, settings in self.settings.items() if settings}
        assert dict(image.configs) == expected
        assert image.replica_counts.get(1, 0) == sum(self.partition_counts.values())

    @invariant()
    def a_snapshot_stands_for_the_image(self):
        stored = [decode_record(encode_record(record)) for record in snapshot_records(self.image)]
        again = image_from_snapshot("c", stored, self.image.end_offset)
        assert again.end_offset == self.image.end_offset
        assert snapshot_records(again) == snapshot_records(self.image)


TestImageHistory = ImageHistory.TestCase
pytest.mark.slow(TestImageHistory)


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(0, 30))
def test_records_in_one_go_or_in_parts_lead_to_the_same_image(numbers, cut):
    records: list[TopicRecord | TopicRemovedRecord] = []
    present: set[int] = set()
    for number in numbers:
        if number in present:
            records.append(TopicRemovedRecord(UUID(int=number)))
            present.remove(number)
        else:
            records.append(topic_record(f"t{number}", number))
            present.add(number)
    at_once, _ = apply_records(MetadataImage("c"), records)
    first, _ = apply_records(MetadataImage("c"), records[:cut])
    in_parts, _ = apply_records(first, records[cut:])
    assert snapshot_records(at_once) == snapshot_records(in_parts)
    assert at_once.replica_counts.get(1, 0) == in_parts.replica_counts.get(1, 0) == len(present)
