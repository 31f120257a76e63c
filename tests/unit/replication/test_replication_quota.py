"""Replicas that are not in sync keep to a rate where their topic says so; those that are never do (KIP-73)."""

from pathlib import Path

import pytest

from ottla.model.error_code import ErrorCode
from ottla.replication.replication_quota import ReplicationQuota, ThrottledReplicas
from ottla.runtime.clock import ManualClock
from ottla.runtime.sampled_rate import Windows
from ottla.settings.definition import InvalidSettingError
from ottla.settings.topic_table import TOPIC_SETTINGS
from ottla.settings.value import LONG_MAX
from tests.unit.replication.replicas import LIMITS, Broker, Cluster, cluster, until
from tests.unit.replication.test_replication import acked


def test_replicas_are_named_by_partition_and_broker_or_all_at_once() -> None:
    some = ThrottledReplicas(["0:1", "0:2", "7:12"])
    assert [some.has(*each) for each in ((0, 1), (0, 2), (7, 12), (1, 1), (12, 7))] == [True, True, True, False, False]
    assert ThrottledReplicas(["*"]).has(5, 9)
    assert not ThrottledReplicas().has(0, 0)


@pytest.mark.parametrize("text", ["*", "0:1,12:3", "", " 0:1 "])
def test_what_names_replicas_is_taken(text: str) -> None:
    TOPIC_SETTINGS["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["all", "0", "0:", ":1", "0:1:2", "-1:2", "0:1 2:3"])
def test_what_does_not_is_refused(text: str) -> None:
    with pytest.raises(InvalidSettingError, match="partition:broker"):
        TOPIC_SETTINGS["follower.replication.throttled.replicas"].parse(text)


def test_who_has_spent_the_rate_waits_until_it_is_kept_again() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock, Windows(11, 1_000))
    quota.record(1 << 40)
    assert (quota.wait_ms, quota.left_bytes) == (0, LONG_MAX)
    quota.rate = 1_000  # what was spent before it held does not count
    assert (quota.wait_ms, quota.left_bytes) == (0, 1_000)
    quota.record(3_000)
    assert (quota.wait_ms, quota.left_bytes) == (3_000, 0)
    clock.advance(12_000)
    assert (quota.wait_ms, quota.left_bytes) == (0, 1_000)
    quota.record(400)
    assert (quota.wait_ms, quota.left_bytes) == (0, 600)
    quota.record(600)
    assert quota.wait_ms == 0
    quota.record(1_000)
    assert quota.wait_ms == 2_000
    clock.advance(2_000)
    assert quota.wait_ms == 0
    quota.record(1)
    assert quota.wait_ms == 1
    quota.rate = LONG_MAX
    assert quota.wait_ms == 0


def test_a_pause_between_two_throttled_moves_is_no_credit_for_the_second() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock, Windows(11, 1_000))
    for rate in (1_000, LONG_MAX, 1_000):
        quota.rate = rate
        quota.record(1)
        clock.advance(5_000)
    quota.rate = 2_000
    assert quota.left_bytes == 2_000


async def behind(made: Cluster) -> Broker:
    """Broker 3 is not in sync: it was away, and more was written meanwhile than a fetch brings."""
    made.unreachable.add(3)
    await made.fence(3)
    for number in range(4):
        assert await acked(made.leader.append(b"%d" % number + b"x" * (LIMITS.partition_max_bytes * 3 // 4))) is (
            ErrorCode.NONE
        )
    return made.brokers[3]


@pytest.mark.parametrize("by_leader", [True, False])
async def test_a_replica_that_is_behind_keeps_to_the_rate_until_it_is_raised(tmp_path: Path, by_leader: bool) -> None:
    async with cluster(tmp_path) as made:
        late = await behind(made)
        quota = made.leader.follower_quota if by_leader else late.own_quota
        made.leader.partition.throttles_followers, late.partition.is_throttled = by_leader, not by_leader
        quota.rate = 1
        made.unreachable.clear()
        await made.unfence(3)
        await until(lambda: late.end_offset > 0 and quota.wait_ms > 0)
        assert made.state.isr == (1, 2)
        reached = late.end_offset
        assert await acked(made.leader.append(b"y")) is ErrorCode.NONE
        assert late.end_offset == reached < 4
        quota.rate = LONG_MAX
        await until(lambda: set(made.state.isr) == {1, 2, 3})


async def test_a_replica_in_sync_keeps_to_no_rate(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        for broker in made.brokers.values():
            broker.partition.throttles_followers = broker.partition.is_throttled = True
            broker.own_quota.rate = broker.follower_quota.rate = 1
        for _ in range(5):
            assert await acked(made.leader.append(b"x" * 1_000)) is ErrorCode.NONE
        assert made.leader.follower_quota.wait_ms > 0
        assert set(made.state.isr) == {1, 2, 3}
