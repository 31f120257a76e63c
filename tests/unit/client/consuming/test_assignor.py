"""The range assignor decides as the other clients' do."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor

from ottla.client.consuming.assignor import MemberSubscription, RangeAssignor
from ottla.client.consuming.group_protocol import Subscription
from ottla.model.topic_partition import TopicPartition

topics = st.sampled_from(["a", "b", "c"])
counts = st.dictionaries(topics, st.integers(0, 12), max_size=3)
members = st.dictionaries(
    st.text("mnop-019", min_size=1, max_size=6), st.sets(topics, min_size=1), min_size=1, max_size=6
)


def assign(counts, members):
    subscriptions = [
        MemberSubscription(member, None, Subscription(tuple(wanted))) for member, wanted in members.items()
    ]
    return RangeAssignor().assign(counts, subscriptions)


@given(counts, members)
def test_every_partition_that_somebody_wants_has_exactly_one_reader_who_wants_it(counts, members):
    assignment = assign(counts, members)
    given_out = [each for partitions in assignment.values() for each in partitions]
    wanted = {topic for topics in members.values() for topic in topics}
    assert sorted(given_out) == sorted(
        TopicPartition(topic, number) for topic in counts if topic in wanted for number in range(counts[topic])
    )
    assert all(each.topic in members[member] for member, partitions in assignment.items() for each in partitions)
    assert assignment.keys() == members.keys()


@given(counts, members)
def test_the_decision_is_that_of_another_client(counts, members):
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(counts[topic])) if topic in counts else None)
    others = [
        SimpleNamespace(member_id=member, group_instance_id=None, metadata=SimpleNamespace(topics=sorted(wanted)))
        for member, wanted in members.items()
    ]
    theirs = RangePartitionAssignor.assign(cluster, others)
    ours = assign(counts, members)
    assert {member: sorted(partitions) for member, partitions in ours.items()} == {
        member: sorted((topic, number) for topic, numbers in given.assigned_partitions for number in numbers)
        for member, given in theirs.items()
    }


def test_neighbouring_partitions_of_each_topic_come_to_one_member():
    assignment = assign({"a": 3, "b": 3}, {"m1": {"a", "b"}, "m2": {"a", "b"}})
    assert assignment == {
        "m1": [("a", 0), ("a", 1), ("b", 0), ("b", 1)],
        "m2": [("a", 2), ("b", 2)],
    }


def test_static_members_keep_their_order_when_their_member_ids_change():
    subscription = Subscription(("t",))
    first = [MemberSubscription("x-9", "one", subscription), MemberSubscription("x-1", "two", subscription)]
    again = [MemberSubscription("y-1", "one", subscription), MemberSubscription("y-9", "two", subscription)]
    before = RangeAssignor().assign({"t": 4}, first)
    after = RangeAssignor().assign({"t": 4}, again)
    assert before["x-9"] == after["y-1"]
    assert before["x-1"] == after["y-9"]
