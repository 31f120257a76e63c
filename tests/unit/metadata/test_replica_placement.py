from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.controller.replica_placement import place_replicas
from ottla.metadata.records import BrokerChangedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.rng import SeededRng
from tests.unit.metadata.images import image_of


def place(brokers, partition_count, replication_factor, racks=None, seed=0, fenced=(), stopping=()):
    changed = [BrokerChangedRecord(each, each, each in fenced, each in stopping) for each in (*fenced, *stopping)]
    image = image_of(*changed, brokers=brokers, racks=racks)
    return place_replicas(image.brokers.values(), partition_count, replication_factor, SeededRng(seed))


@given(st.integers(1, 7), st.integers(1, 40), st.data())
def test_replicas_and_leaders_spread_evenly(broker_count, partition_count, data):
    factor = data.draw(st.integers(1, broker_count))
    placed = place(range(broker_count), partition_count, factor, seed=data.draw(st.integers()))
    assert len(placed) == partition_count
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    held = Counter(broker for replicas in placed for broker in replicas)
    for counts in (leaders, held):
        spread = [counts.get(broker, 0) for broker in range(broker_count)]
        assert max(spread) - min(spread) <= (1 if counts is leaders else factor)


def test_replicas_stand_in_different_racks_when_there_are_enough():
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in place(racks, 30, 3, racks):
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7), st.data())
def test_no_rack_has_two_replicas_of_a_partition_while_another_has_none_though_racks_differ_in_size(names, data):
    racks = dict(enumerate(names))
    factor = data.draw(st.integers(1, len(racks)))
    placed = place(racks, 2 * len(racks), factor, racks, seed=data.draw(st.integers()))
    assert all(len({racks[broker] for broker in replicas}) == min(factor, len(set(names))) for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}


def test_who_shares_a_large_rack_follows_as_often_as_the_others_in_it():
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    placed = place(racks, 12, 2, racks)
    assert Counter(replicas[1] for replicas in placed) == {1: 1, 2: 1, 3: 1, 4: 9}


def test_a_fenced_broker_is_given_replicas_only_where_there_are_too_few_others_and_leads_nothing():
    for replicas in place((1, 2, 3, 4), 12, 3, fenced=(2,)):
        assert 2 not in replicas
    placed = place((1, 2, 3), 12, 3, fenced=(2,))
    assert all(replicas[2] == 2 for replicas in placed)
    assert {replicas[0] for replicas in placed} == {1, 3}


@pytest.mark.parametrize(("fenced", "stopping"), [((), (1, 2)), ((1, 2), ())])
def test_partitions_need_a_broker_that_can_lead_them(fenced, stopping):
    with pytest.raises(ApiError) as refused:
        place((1, 2), 1, 1, fenced=fenced, stopping=stopping)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_broker_that_stops_is_given_nothing():
    for replicas in place((1, 2, 3), 12, 2, stopping=(2,)):
        assert set(replicas) == {1, 3}


def test_more_replicas_than_brokers_are_refused():
    with pytest.raises(ApiError) as refused:
        place((1, 2), 1, 3)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
