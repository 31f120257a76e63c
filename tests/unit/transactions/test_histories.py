"""Whether transactions hold when requests are late, lost, repeated and out of order (KIP-890)."""

import pytest

from tests.unit.transactions.world import World

STEPS = 600


@pytest.mark.parametrize("seed", range(100))
def test_transactions_v2_are_never_torn_lost_duplicated_or_leaked(seed: int):
    assert World(seed).run(STEPS) == []


@pytest.mark.parametrize("seed", range(40))
def test_with_transactions_v1_nothing_hangs_as_long_as_partitions_are_verified(seed: int):
    anomalies = World(seed, version=0).run(STEPS)
    assert [each for each in anomalies if each.startswith(("hanging", "duplicated"))] == []


def test_the_world_is_bad_enough_to_break_transactions_v1_without_verification():
    anomalies = [each for seed in range(150) for each in World(seed, version=0, verifies=False).run(STEPS)]
    assert {each.partition(":")[0] for each in anomalies} & {"hanging", "leaked", "torn", "lost"}


def test_transactions_are_committed_at_all():
    outcomes = []
    for seed in range(20):
        world = World(seed)
        world.run(STEPS)
        outcomes += [each.decided for producer in world.producers for each in producer.transactions]
    assert outcomes.count("committed") > 15
    assert outcomes.count("aborted") > 3
