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
