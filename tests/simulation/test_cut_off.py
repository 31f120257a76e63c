"""Brokers that hear each other go on without one that hears nobody, whether or not it was the controller."""

from itertools import islice

from ottla.metadata.controller.check_quorum import CheckQuorum
from ottla.simulation.cut_off import CutOff, all_links, links_of
from ottla.simulation.ledger import Violation
from ottla.simulation.running import run
from ottla.simulation.schedule import schedule_of
from ottla.simulation.world import World

ROUNDS_MAX = 80
"""40 s: two session times, and what follows them."""
WORLDS = 60


class NeverLost(CheckQuorum):
    """A controller that goes on whomever it hears."""

    def is_lost(self, sessions, *, own_id, now_ms):
        return False


def worlds():
    """Clusters that can bear the loss of one broker, after their schedules.

    Where one replica is enough, the leader that is cut off may have gone on alone: then the others wait for it.
    """
    for seed in range(10_000):
        schedule = schedule_of(seed)
        swarm = schedule.swarm
        if 1 < swarm.min_insync_replicas < swarm.replica_count:
            world = run(schedule).world
            if all(len(each.replicas) > swarm.min_insync_replicas for each in world.image.partitions):
                yield world


def cut_off_controller(world: World, check_quorum: type[CheckQuorum] = CheckQuorum) -> CutOff:
    """Cut the links of the controller with the other brokers."""
    controller = world.metadata.controller
    return CutOff(world, links_of(controller, world.swarm.broker_count), check_quorum)


def test_the_others_go_on_without_a_controller_that_hears_nobody_and_keep_the_next_one() -> None:
    for world in islice(worlds(), WORLDS):
        before = world.metadata.controller
        cut_off = cut_off_controller(world)
        cut_off.require_writes(ROUNDS_MAX)
        for _ in range(ROUNDS_MAX):
            cut_off.round()
        cut_off.require_writes(5)
        assert world.metadata.controller != before
        assert cut_off.elections == 1


def test_a_controller_that_does_not_resign_keeps_them_from_it() -> None:
    def stands_still(world: World) -> bool:
        try:
            cut_off_controller(world, NeverLost).require_writes(ROUNDS_MAX)
        except Violation as violation:
            return violation.rule == "who hears enough goes on"
        return False

    assert sum(map(stands_still, islice(worlds(), WORLDS // 2))) > WORLDS // 4


def test_one_that_is_cut_off_and_does_not_decide_changes_no_controller() -> None:
    for world in islice(worlds(), WORLDS):
        controller = world.metadata.controller
        count = world.swarm.broker_count
        cut_off = CutOff(world, links_of(1 + controller % count, count), CheckQuorum)
        cut_off.require_writes(ROUNDS_MAX)
        assert (world.metadata.controller, cut_off.elections) == (controller, 0)


def test_where_nobody_hears_anybody_each_has_its_turn_and_then_one_decides() -> None:
    for world in islice(worlds(), WORLDS // 4):
        count = world.swarm.broker_count
        cut_off = CutOff(world, all_links(count), CheckQuorum)
        for _ in range(30 * count):
            cut_off.round()
        elections = cut_off.elections
        assert elections <= count
        for _ in range(30 * count):
            cut_off.round()
        assert cut_off.elections == elections
