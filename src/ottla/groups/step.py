"""One step of a group: when it happens, the settings it obeys, and the effects it collects."""

from dataclasses import field

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups.group_config import GroupConfig
from ottla.model.lazy_dataclass import dataclass


@dataclass(slots=True)
class Step:
    """What the decisions of one step share. `outcome` is the value the step ends in."""

    now_ms: int
    config: GroupConfig
    outcome: Outcome = field(default_factory=Outcome)

    def answer(self, waiter: Waiter | None, answer: Answer) -> None:
        """Answer somebody, if there is anybody."""
        if waiter is not None:
            self.outcome.answer(waiter, answer)
