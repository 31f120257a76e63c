"""What assignors promise, for groups of any shape."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.groups.consumer.assignor import Assigning, Assignment, Assignor, Subscriber
from ottla.groups.consumer.assignors import ASSIGNORS
from ottla.groups.consumer.range_assignor import assign_ranges
from ottla.groups.consumer.uniform_assignor import assign_uniformly

pytestmark = pytest.mark.slow

T1, T2, T3 = (UUID(int=number) for number in (1, 2, 3))
NOTHING: dict[UUID, frozenset[int]] = {}


def run(assignor: Assignor, subscribers: Mapping[str, Subscriber], counts: Mapping[UUID, int]) -> Assignment:
    """All slices of an assignment."""
    return finish(assignor(subscribers, counts))


def finish(assigning: Assigning) -> Assignment:
    while True:
        try:
            next(assigning)
        except StopIteration as end:
            return end.value


def sizes(assignment: Assignment) -> dict[str, int]:
    return {member: sum(map(len, of.values())) for member, of in assignment.items()}


def pairs(partitions: Mapping[UUID, frozenset[int]]) -> set[tuple[UUID, int]]:
    return {(topic_id, index) for topic_id, of in partitions.items() for index in of}


@st.composite
def groups(draw, *, alike: bool | None = None):
    """Members with subscriptions and what they have, which may be anything, and topics with partitions."""
    topics = draw(
        st.dictionaries(st.integers(1, 5).map(lambda number: UUID(int=number)), st.integers(1, 12), min_size=1)
    )
    members = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
    topic_sets = st.frozensets(st.sampled_from(sorted(topics)), min_size=0 if alike is not True else 1)
    shared = draw(topic_sets)
    all_alike = draw(st.booleans()) if alike is None else alike
    has = st.dictionaries(
        st.integers(1, 6).map(lambda number: UUID(int=number)), st.frozensets(st.integers(0, 14), min_size=1)
    )
    instances = st.sampled_from([None, None, *"xyz"])
    subscribers, used = {}, set()
    for member in members:
        instance = draw(instances)
        instance = None if instance in used else instance
        used.add(instance)
        subscribers[member] = Subscriber(shared if all_alike else draw(topic_sets), draw(has), instance)
    return subscribers, topics


@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_each_partition_that_is_wanted_goes_to_one_of_those_who_want_it(group, name):
    subscribers, topics = group
    assignment = run(ASSIGNORS[name], subscribers, topics)
    assert assignment.keys() == subscribers.keys()
    taken = Counter(pair for of in assignment.values() for pair in pairs(of))
    wanted = {topic_id for subscriber in subscribers.values() for topic_id in subscriber.topic_ids}
    assert taken == Counter((topic_id, index) for topic_id in wanted for index in range(topics[topic_id]))
    for member, of in assignment.items():
        assert of.keys() <= subscribers[member].topic_ids
        assert all(of.values())


@given(groups(), st.sampled_from(sorted(ASSIGNORS)), st.randoms(use_true_random=False))
def test_the_order_in_which_members_are_told_does_not_matter(group, name, random):
    subscribers, topics = group
    members = list(subscribers)
    random.shuffle(members)
    again = {member: subscribers[member] for member in members}
    assert run(ASSIGNORS[name], again, topics) == run(ASSIGNORS[name], subscribers, topics)


@given(groups(alike=True))
def test_uniform_is_even_and_moves_no_more_than_it_must(group):
    subscribers, topics = group
    assignment = run(assign_uniformly, subscribers, topics)
    numbers = sizes(assignment)
    assert max(numbers.values()) - min(numbers.values()) <= 1
    # Of what each member may keep, as much stays as fits the best distribution of quotas.
    taken: set[tuple[UUID, int]] = set()
    may_keep = {}
    for member in sorted(subscribers):
        subscriber = subscribers[member]
        mine = {
            (topic_id, index)
            for topic_id, index in pairs(subscriber.target)
            if topic_id in subscriber.topic_ids and index < topics[topic_id]
        } - taken
        taken |= mine
        may_keep[member] = mine
    total = sum(topics[topic_id] for topic_id in next(iter(subscribers.values())).topic_ids)
    least, more = divmod(total, len(subscribers))
    owned = sorted((len(mine) for mine in may_keep.values()), reverse=True)
    best = sum(min(count, least + (place < more)) for place, count in enumerate(owned))
    assert sum(len(pairs(assignment[member]) & mine) for member, mine in may_keep.items()) == best


@given(groups())
def test_uniform_leaves_no_move_that_would_make_it_more_even(group):
    subscribers, topics = group
    assignment = run(assign_uniformly, subscribers, topics)
    numbers = sizes(assignment)
    for giver, of in assignment.items():
        for topic_id in of:
            for taker, subscriber in subscribers.items():
                if topic_id in subscriber.topic_ids:
                    assert numbers[giver] - numbers[taker] <= 1


@given(groups())
def test_uniform_stays_where_it_is(group):
    subscribers, topics = group
    assignment = run(assign_uniformly, subscribers, topics)
    settled = {
        member: Subscriber(subscriber.topic_ids, assignment[member], subscriber.instance_id)
        for member, subscriber in subscribers.items()
    }
    assert run(assign_uniformly, settled, topics) == assignment


@given(groups())
@settings(max_examples=50)
def test_uniform_gives_the_work_of_one_that_left_to_the_others_and_moves_nothing_else(group):
    subscribers, topics = group
    if len(subscribers) < 2 or len({each.topic_ids for each in subscribers.values()}) > 1:
        return
    assignment = run(assign_uniformly, subscribers, topics)
    gone = min(subscribers)
    left = {
        member: Subscriber(subscriber.topic_ids, assignment[member])
        for member, subscriber in subscribers.items()
        if member != gone
    }
    after = run(assign_uniformly, left, topics)
    for member in left:
        assert pairs(after[member]) >= pairs(assignment[member])


def test_range_gives_neighbours_and_the_first_members_one_more():
    subscribers = {member: Subscriber(frozenset({T1, T2}), NOTHING) for member in "cab"}
    assert run(assign_ranges, subscribers, {T1: 7, T2: 2}) == {
        "a": {T1: frozenset({0, 1, 2}), T2: frozenset({0})},
        "b": {T1: frozenset({3, 4}), T2: frozenset({1})},
        "c": {T1: frozenset({5, 6})},
    }


def test_range_puts_static_members_first_in_the_order_of_their_instance_ids():
    subscribers = {
        "a": Subscriber(frozenset({T1}), NOTHING),
        "y": Subscriber(frozenset({T1}), NOTHING, "two"),
        "z": Subscriber(frozenset({T1}), NOTHING, "one"),
    }
    assert run(assign_ranges, subscribers, {T1: 3}) == {
        "z": {T1: frozenset({0})},
        "y": {T1: frozenset({1})},
        "a": {T1: frozenset({2})},
    }


def test_range_looks_at_each_topic_by_itself():
    subscribers = {
        "a": Subscriber(frozenset({T1}), NOTHING),
        "b": Subscriber(frozenset({T1, T2}), NOTHING),
        "c": Subscriber(frozenset({T2, T3}), NOTHING),
    }
    assert run(assign_ranges, subscribers, {T1: 4, T2: 2, T3: 1}) == {
        "a": {T1: frozenset({0, 1})},
        "b": {T1: frozenset({2, 3}), T2: frozenset({0})},
        "c": {T2: frozenset({1}), T3: frozenset({0})},
    }


def test_a_large_group_is_assigned_in_slices():
    subscribers = {f"m{number}": Subscriber(frozenset({T1}), NOTHING) for number in range(1_000)}
    for assignor in ASSIGNORS.values():
        assigning = assignor(subscribers, {T1: 20_000})
        next(assigning)
        assert sizes(finish(assigning)) == dict.fromkeys(subscribers, 20)
