"""Finds out which silent followers this broker cannot reach: nobody has to wait for them any longer.

behind, not heard for a third of the time --> every live broker is asked --> it answers: slow, it keeps its time
                                                                        \\-> no answer within half of the time:
                                                                             cut off, it leaves the ISR now

A follower that is slow may lag for `replica.lag.time.max.ms`. One that cannot be reached from here cannot fetch either,
as a connection needs both directions: to wait for it as long holds every producer up for nothing. The controller may
well hear both. A leader that reaches no majority of the live brokers is more likely cut off itself: it changes nothing,
and the others are to elect a leader among the in-sync replicas.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ottla.runtime.tasks import Tasks

logger: Final = logging.getLogger(__name__)

Reaches = Callable[[int, int], Awaitable[bool]]
"""Whether a broker answers within so many ms."""


class SilentFollowers:
    """Belongs to the event loop."""

    def __init__(
        self, broker_id: int, live_brokers: Mapping[int, int], reaches: Reaches, tasks: Tasks, *, silence_max_ms: int
    ) -> None:
        """`silence_max_ms` is how long a broker may say nothing (`broker.session.timeout.ms`)."""
        self._broker_id = broker_id
        self._live_brokers = live_brokers
        self._reaches = reaches
        self._tasks = tasks
        self._answer_ms = silence_max_ms // 2
        self.silent_ms = silence_max_ms // 3
        """Who has said nothing for so long is asked."""
        self._is_asking = False

    def ask(self, silent: frozenset[int], on_cut_off: Callable[[frozenset[int]], None]) -> None:
        """Call `on_cut_off`, in a while, with those of `silent` that cannot be reached, if there are any.

        Nothing is asked while the answers of the time before are awaited.
        """
        if silent and not self._is_asking:
            self._is_asking = True
            self._tasks.spawn(self._ask(silent, on_cut_off), "asking silent followers")

    async def _ask(self, silent: frozenset[int], on_cut_off: Callable[[frozenset[int]], None]) -> None:
        try:
            others = sorted(self._live_brokers.keys() - {self._broker_id})
            answers = await asyncio.gather(*(self._reaches(each, self._answer_ms) for each in others))
            away = frozenset(each for each, answered in zip(others, answers, strict=True) if not answered)
            if silent & away and 2 * len(away) < len(others) + 1:
                on_cut_off(silent & away)
        finally:
            self._is_asking = False
