from ottla.groups.offset_store import OffsetStore
from ottla.groups.records import CommittedOffset
from ottla.model.topic_partition import TopicPartition

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def test_the_last_offset_counts_and_groups_do_not_see_each_others():
    store = OffsetStore()
    store.put("g", FIRST, at(1))
    store.put("g", FIRST, at(2))
    store.put("h", FIRST, at(3))
    assert store.get("g", FIRST) == at(2)
    assert store.get("g", SECOND) is None
    assert store.get("unknown", FIRST) is None
    assert len(store) == 2


def test_a_group_without_offsets_takes_no_room():
    store = OffsetStore()
    store.put("g", FIRST, at(1))
    store.put("g", SECOND, at(1))
    store.remove("g", FIRST)
    store.remove("g", FIRST)
    store.remove("unknown", FIRST)
    assert dict(store.of_group("g")) == {SECOND: at(1)}
    store.remove("g", SECOND)
    assert "g" not in store
    assert (store.topics(), store.groups_of_topic("flights"), len(store)) == ((), (), 0)


def test_the_groups_of_a_topic_are_found_by_its_name():
    store = OffsetStore()
    store.put("g", FIRST, at(1))
    store.put("h", SECOND, at(2))
    store.put("h", TopicPartition("trips", 0), at(3))
    assert store.topics() == ("flights", "trips")
    assert store.groups_of_topic("flights") == ("g", "h")
    assert store.of_topic("h", "flights") == {1: at(2)}
    store.remove("h", SECOND)
    assert store.groups_of_topic("flights") == ("g",)
    assert store.groups_of_topic("unknown") == ()
    assert store.of_topic("h", "flights") == {}
