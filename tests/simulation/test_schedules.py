"""Schedules: the same seed gives the same run, and brokers as they are break no rule."""

from itertools import islice

from msgspec.structs import replace

from ottla.simulation.running import run
from ottla.simulation.schedule import STEP_BYTES, schedule_of
from ottla.simulation.trace import trace_hash

SEEDS_AGAIN = 25
SCHEDULES = 1_500


def test_the_same_seed_gives_the_same_run_event_by_event() -> None:
    first = [trace_hash(run(schedule_of(seed), traced=True)) for seed in range(SEEDS_AGAIN)]
    again = [trace_hash(run(schedule_of(seed), traced=True)) for seed in range(SEEDS_AGAIN)]

    assert again == first
    assert len(set(first)) == SEEDS_AGAIN


def test_a_trace_changes_nothing_of_what_happens() -> None:
    for seed in range(SEEDS_AGAIN):
        quiet, traced = run(schedule_of(seed)), run(schedule_of(seed), traced=True)

        assert [each.committed for each in quiet.world.ledgers] == [each.committed for each in traced.world.ledgers]
        assert quiet.world.image.partitions == traced.world.image.partitions


def test_any_part_of_a_schedule_is_a_schedule() -> None:
    schedule = schedule_of(1)
    for length in range(0, len(schedule), 7):
        assert run(replace(schedule, steps=schedule.steps[: length * STEP_BYTES])).violation is None


def test_brokers_as_they_are_break_no_rule() -> None:
    assert [seed for seed in range(SCHEDULES) if run(schedule_of(seed)).rules] == []


def test_schedules_get_somewhere() -> None:
    """Records are committed, leaders change, logs are cut, and sometimes more is broken than a cluster promises to
    bear: a simulator in which nothing happens finds nothing."""
    worlds = [run(schedule_of(seed)).world for seed in range(300)]
    epochs = [world.image.partitions[0].leader_epoch for world in worlds]

    assert sum(len(world.ledgers[0].committed) for world in worlds) / len(worlds) > 5
    assert sum(epochs) / len(epochs) > 1
    assert any(world.ledgers[0].lost for world in worlds)
    assert any(world.consumer.read for world in worlds)
    kinds = {
        event[1] for seed in islice(range(300), 60) for event in (run(schedule_of(seed), traced=True).world.trace or [])
    }
    assert {"cut", "lead", "power cut", "kill", "disk lost", "fence", "unfence", "register", "propose", "drop"} <= kinds
