"""Targets take turns, and only what was asked for is run."""

import pytest

from benchmarks.beside_kafka.plan import GROUPS, remaining_seconds, steps
from benchmarks.beside_kafka.run import OTHER_ROWS

ALL = ("ottla-written", "kafka", "ottla", "kafka-synced")


def test_the_second_round_goes_the_other_way():
    planned = steps(["produce"], ALL, 2)
    assert [step.target.key for step in planned] == [*ALL, *reversed(ALL)]


def test_scaling_rows_are_measured_once_and_beside_each_other():
    planned = steps(["partitions"], ALL, 3)
    assert [(step.round, step.target.key) for step in planned] == [(1, "kafka"), (1, "ottla")]


def test_what_varies_between_rounds_is_measured_in_each():
    for kind in ("spark", "catch-up", "transactions"):
        assert [step.target.key for step in steps([kind], ALL, 2)] == ["kafka", "ottla", "ottla", "kafka"]


def test_clusters_are_measured_in_each_round_and_what_takes_minutes_once():
    planned = steps(["cluster"], ALL, 2)
    assert [(step.round, step.target.key) for step in planned if step.kind == "cluster"] == [
        *((1, key) for key in ("ottla-written", "kafka", "ottla")),
        *((2, key) for key in ("ottla", "kafka", "ottla-written")),
    ]
    many = [(step.round, step.target.key) for step in planned if step.kind == "cluster-partitions"]
    assert many == [(1, "kafka"), (1, "ottla")]
    assert steps(["cluster-partitions"], ALL, 2) == [step for step in planned if step.kind == "cluster-partitions"]


def test_what_is_measured_has_a_time_and_a_program():
    for step in steps(GROUPS, ALL, 2):
        assert step.seconds > 0
        assert step.kind == "load" or step.kind in OTHER_ROWS


def test_a_target_has_only_the_rows_that_concern_it():
    (synced,) = steps(GROUPS, ["kafka-synced"], 1)
    assert synced.groups == {"produce", "requests", "latency"}
    assert steps(["consume"], ["kafka-synced"], 1) == []


@pytest.mark.parametrize(("groups", "targets"), [(["prodcue"], ALL), (["produce"], ["redis"])])
def test_a_name_that_is_not_known_is_refused(groups, targets):
    with pytest.raises(ValueError, match="is not known"):
        steps(groups, targets, 1)


def test_the_time_that_remains_follows_the_pace_so_far():
    planned = steps(["produce"], ["kafka"], 3)
    assert remaining_seconds(planned, 0, 0.0) == 3 * planned[0].seconds
    assert remaining_seconds(planned, 1, planned[0].seconds * 2) == pytest.approx(4 * planned[0].seconds)
    assert remaining_seconds(planned, 3, 1.0) == 0.0
