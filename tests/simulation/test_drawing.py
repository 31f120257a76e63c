"""What a person is shown of a failing schedule."""

from functools import partial

from ottla.simulation.drawing import draw
from ottla.simulation.planted_bugs import TWELVE
from ottla.simulation.running import run
from ottla.simulation.schedule import schedule_of
from ottla.simulation.shrinking import shrink


def test_a_failing_schedule_is_drawn_with_a_column_a_node_and_ends_with_the_rule_it_broke() -> None:
    bug = next(bug for bug in TWELVE if bug.name == "truncate-to-hw")
    seed = next(seed for seed in range(300) if run(schedule_of(seed), bug.decisions).violation is not None)
    with_bug = partial(run, decisions=bug.decisions)
    shrunk = shrink(with_bug(schedule_of(seed)), with_bug)
    result = with_bug(shrunk.result.schedule, traced=True)

    lines = draw(result).splitlines()

    assert lines[0].startswith(f"{result.world.swarm.broker_count} brokers, ")
    heads = ["clients", *(f"broker {number}" for number in range(1, result.world.swarm.broker_count + 1)), "metadata"]
    assert lines[2].split("  ")[0] == "step"
    assert [head for head in heads if head in lines[2]] == heads
    assert str(result.violation) in lines[-1]
    assert any("Fetch 0, e0" in line and "<" in line for line in lines)
    assert any("LEADS epoch 0" in line for line in lines)


def test_every_kind_of_event_can_be_drawn() -> None:
    for seed in range(120):
        drawing = draw(run(schedule_of(seed), traced=True))

        assert "everything heals" in drawing
