"""The function of each action."""

from collections.abc import Callable
from typing import Final

from ottla.simulation import faults, work
from ottla.simulation.swarm import Action
from ottla.simulation.world import World

Step = Callable[[World, int, int, int], None]

ACTIONS: Final[tuple[Step, ...]] = tuple(
    {
        Action.PRODUCE: work.produce,
        Action.DELIVER: work.deliver,
        Action.FETCH: work.fetch,
        Action.REPLICATE: work.replicate,
        Action.SYNC: work.sync,
        Action.FOLLOW_METADATA: work.follow_metadata,
        Action.TEND: work.tend,
        Action.HEARTBEAT: work.heartbeat,
        Action.ELECT_CONTROLLER: work.elect_controller,
        Action.READ: work.read,
        Action.CHECK_LAG: work.check_lag,
        Action.RETRY_PROPOSAL: work.retry_proposal,
        Action.START: work.start,
        Action.HEAL: work.heal,
        Action.RESUME: work.resume,
        Action.CHECKPOINT: work.checkpoint,
        Action.PREFER: work.prefer,
        Action.DROP: faults.drop,
        Action.REPEAT: faults.repeat,
        Action.KILL: faults.kill,
        Action.CUT_POWER: faults.cut_power,
        Action.STOP_CLEANLY: faults.stop_cleanly,
        Action.LOSE_DISK: faults.lose_disk,
        Action.PAUSE: faults.pause,
        Action.CUT_LINK: faults.cut_link,
        Action.END_SESSION: faults.end_session,
        Action.FENCE: faults.fence,
        Action.JUMP: faults.jump,
        Action.CUT_POWER_OF_ALL: faults.cut_power_of_all,
        Action.UNCLEAN_ELECTION: work.unclean_election,
        Action.CLAIM: faults.claim,
        Action.STALL: faults.stall,
        Action.REASSIGN: work.reassign,
    }[action]
    for action in Action
)
