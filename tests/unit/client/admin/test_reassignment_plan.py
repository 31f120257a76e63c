"""A plan moves as little as it can, spreads what it moves, and can be kept in the file that Kafka's tool reads."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.reassignment_plan import Assignment, parse_plan, plan_reassignment, plan_text
from ottla.client.errors import InvalidOptionError
from ottla.model.topic_partition import TopicPartition


def partitions(*replicas: tuple[int, ...]) -> Assignment:
    return {TopicPartition("t", index): each for index, each in enumerate(replicas)}


def brokers(*ids: int, racks: str = "") -> dict[int, str | None]:
    return {broker: racks[index] if racks else None for index, broker in enumerate(ids)}


def test_what_is_spread_already_stays():
    assert plan_reassignment(partitions((1, 2, 3), (2, 3, 1), (3, 1, 2)), brokers(1, 2, 3)) == {}


def test_what_a_broker_that_leaves_has_goes_to_the_others_and_nothing_else_moves():
    present = partitions((1, 2), (2, 3), (3, 1), (2, 1))
    after = present | plan_reassignment(present, brokers(1, 2, 4), balance=False)
    assert list(map(set, after.values())) == [{1, 2}, {2, 4}, {1, 4}, {1, 2}]
    assert max(Counter(replicas[0] for replicas in after.values()).values()) == 2


def test_a_new_broker_gets_its_share():
    present = partitions(*[(1, 2, 3)] * 8)
    after = present | plan_reassignment(present, brokers(1, 2, 3, 4))
    assert sorted(Counter(each for replicas in after.values() for each in replicas).values()) == [6, 6, 6, 6]
    assert sum(len(set(after[place]) - set(present[place])) for place in present) == 6
    assert sorted(Counter(replicas[0] for replicas in after.values()).values()) == [2, 2, 2, 2]


def test_replicas_stand_in_different_racks_and_stay_so_when_they_are_spread():
    present = partitions(*[(1, 2)] * 6)
    plan = plan_reassignment(present, brokers(1, 2, 3, 4, racks="aabb"))
    for replicas in (present | plan).values():
        assert {each <= 2 for each in replicas} == {True, False} or replicas == (1, 2)
    moved = plan_reassignment(partitions((1, 3), (3, 1)), brokers(1, 2, 3, racks="aab"), replication_factor=2)
    assert all(set(each) in ({1, 3}, {2, 3}) for each in moved.values())


def test_copies_are_added_and_taken_away():
    assert plan_reassignment(partitions((1,)), brokers(1, 2, 3), replication_factor=3) == partitions((1, 2, 3))
    assert plan_reassignment(partitions((2, 3, 1)), brokers(1, 2, 3), replication_factor=1) == partitions((2,))


def test_only_brokers_that_are_there_are_chosen():
    present = partitions((1, 3), (2, 3))
    assert plan_reassignment(present, brokers(2, 3, 4), choices=brokers(2), balance=False) == partitions((3, 2))
    with pytest.raises(InvalidOptionError, match="t-0 is to have 2 replicas, for which 1 brokers are too few"):
        plan_reassignment(partitions((1, 2)), brokers(2, 3), choices=brokers(2), balance=False)


def test_too_few_brokers_are_said():
    with pytest.raises(InvalidOptionError, match="t-0 is to have 2 replicas, for which 1 brokers are too few"):
        plan_reassignment(partitions((1, 2)), brokers(3))


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=20),
    st.lists(st.integers(1, 8), min_size=3, max_size=6, unique=True),
)
def test_every_plan_keeps_the_number_of_copies_and_the_load_even(replicas: list[tuple[int, ...]], ids: list[int]):
    present = partitions(*replicas)
    after = present | plan_reassignment(present, brokers(*ids))
    for place, now in after.items():
        assert len(now) == len(set(now)) == len(present[place])
        assert set(now) <= set(ids)
    load = Counter(dict.fromkeys(ids, 0))
    load.update(each for now in after.values() for each in now)
    assert max(load.values()) - min(load.values()) <= 1 or any(len(now) == len(ids) for now in after.values())
    assert plan_reassignment(after, brokers(*ids)) == {}


def test_a_plan_is_read_as_it_was_written_and_as_kafka_writes_it():
    plan = partitions((1, 2), (2, 3))
    assert parse_plan(plan_text(plan)) == plan
    kafka = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[5],"log_dirs":["any"]}]}'
    assert parse_plan(kafka) == partitions((5,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a reassignment"),
        ("{", "not a reassignment"),
        ('{"partitions":[{"topic":1,"partition":0,"replicas":[1]}]}', "not a reassignment"),
        ('{"partitions":[{"topic":"t","partition":true,"replicas":[1]}]}', "not a reassignment"),
        ('{"partitions":[]}', "names no partition"),
        ('{"version":2,"partitions":[]}', "version 2 is not known"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "at least one, none twice"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "at least one, none twice"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            "t-0 is reassigned twice",
        ),
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: str, said: str):
    with pytest.raises(InvalidOptionError, match=said):
        parse_plan(text)
