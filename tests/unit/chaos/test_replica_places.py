"""Replicas that are not where they were asked to be are found, each way in which they can be elsewhere."""

from collections.abc import Callable
from random import Random

import pytest

from chaos.replica_places import Place, check_places, other_replicas, replicas_given_back
from ottla.simulation.anomaly import Anomaly

WANTED = {("orders", 0): (4, 2, 1), ("orders", 1): (3, 4, 2)}


class Found:
    """Everything as it was asked for, until a fault is planted."""

    def __init__(self) -> None:
        self.moving: set[tuple[str, int]] = set()
        self.places = {("orders", 0): Place((4, 2, 1), (1, 2, 4)), ("orders", 1): Place((3, 4, 2), (4, 3, 2))}
        self.files = {1: {"orders-0"}, 2: {"orders-0", "orders-1"}, 3: {"orders-1"}, 4: {"orders-0", "orders-1"}}


def test_what_is_where_it_was_asked_to_be_is_no_violation() -> None:
    found = Found()
    assert list(check_places(WANTED, found.moving, found.places, found.files)) == []


def is_still_moving(found: Found) -> None:
    found.moving.add(("orders", 1))


def is_elsewhere(found: Found) -> None:
    found.places["orders", 1] = Place((3, 4, 1), (3, 4, 2))


def has_one_replica_more(found: Found) -> None:
    found.places["orders", 1] = Place((3, 4, 2, 1), (3, 4, 2))


def prefers_another_leader(found: Found) -> None:
    found.places["orders", 1] = Place((4, 3, 2), (4, 3, 2))


def is_not_in_sync(found: Found) -> None:
    found.places["orders", 1] = Place((3, 4, 2), (4, 3))


def has_no_replicas(found: Found) -> None:
    found.places["orders", 1] = Place((), (3, 4, 2))


def left_its_files(found: Found) -> None:
    found.files[1].add("orders-1")


def has_no_files(found: Found) -> None:
    found.files[3].clear()


@pytest.mark.parametrize(
    "plant",
    [
        is_still_moving,
        is_elsewhere,
        has_one_replica_more,
        prefers_another_leader,
        is_not_in_sync,
        has_no_replicas,
        left_its_files,
        has_no_files,
    ],
)
def test_each_planted_fault_is_found_where_it_is(plant: Callable[[Found], None]) -> None:
    found = Found()
    plant(found)
    [violation] = check_places(WANTED, found.moving, found.places, found.files)
    assert violation.anomaly is Anomaly.MISPLACED
    assert violation.where.startswith("orders-1")


def test_a_partition_that_nobody_tells_of_is_found() -> None:
    found = Found()
    del found.places["orders", 0]
    assert {each.anomaly for each in check_places(WANTED, (), found.places, found.files)} == {Anomaly.MISPLACED}


def test_each_partition_gets_a_replica_where_it_has_none() -> None:
    present = {("orders", index): (1 + index % 3, 1 + (index + 1) % 3, 4) for index in range(100)}
    wanted = other_replicas(present, [1, 2, 3, 4, 5], Random(1))
    assert wanted.keys() == present.keys()
    for partition, replicas in wanted.items():
        assert len(set(replicas)) == len(replicas) == 3
        assert set(replicas) - set(present[partition])
    assert other_replicas({("orders", 0): (1, 2)}, [1, 2], Random(1)) == {}


def test_what_is_cancelled_is_given_back_in_the_order_of_what_was_to_stay() -> None:
    assert replicas_given_back((1, 2, 3), (4, 3, 1)) == (3, 1, 2)
