"""Runs a schedule: its steps, then the end, in which everything heals and must come to rest."""

from typing import Final

from msgspec import Struct

from ottla.simulation import clients, controlling, following, leading, messages
from ottla.simulation.actions import ACTIONS
from ottla.simulation.decisions import PRODUCTION, Decisions
from ottla.simulation.ending import end
from ottla.simulation.ledger import Violation
from ottla.simulation.schedule import Schedule
from ottla.simulation.world import STEP_MS, Handler, World

HANDLERS: Final[dict[int, Handler]] = {
    messages.FETCH: leading.on_fetch,
    messages.FETCHED: following.on_fetched,
    messages.ALTER: controlling.on_alter,
    messages.ALTERED: leading.on_altered,
    messages.PRODUCE: leading.on_produce,
    messages.PRODUCED: clients.on_produced,
    messages.APPEND: controlling.on_append,
    messages.LOOK: leading.on_look,
    messages.LOOKED: clients.on_looked,
    messages.CLAIMED_FETCH: leading.on_claimed_fetch,
}


class Result(Struct, frozen=True):
    """The result of a schedule."""

    schedule: Schedule
    """The part that ran: to the step in which a rule was broken, if one was."""
    violation: Violation | None
    world: World

    @property
    def rules(self) -> tuple[str, ...]:
        """The rule that was broken, if one was."""
        return () if self.violation is None else (self.violation.rule,)


def run(schedule: Schedule, decisions: Decisions = PRODUCTION, *, traced: bool = False) -> Result:
    """Run a schedule to its end or to the first rule that is broken."""
    world = World(schedule.swarm, HANDLERS, decisions, traced=traced)
    following.begin(world)
    table = schedule.swarm.table
    width = len(table)
    drawn = iter(schedule.steps)
    number = 0
    try:
        for kind, a, b, c in zip(drawn, drawn, drawn, drawn, strict=True):
            world.step_number = number
            number += 1
            world.now_ms += STEP_MS
            ACTIONS[table[kind * width >> 8]](world, a, b, c)
        world.step_number = number
        end(world)
    except Violation as violation:
        if world.trace is not None:
            world.note("violation", str(violation))
        return Result(schedule.with_parts(schedule.parts[:number]), violation, world)
    return Result(schedule, None, world)
