"""The share coordinator of a simulated share partition: its answers wait, some never say what became of a write."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ottla.coordination.outcome import Waiter
from ottla.model.error_code import ErrorCode
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import ShareStateShard, StateAnswer, WriteState
from ottla.runtime.rng import Rng

LOST_CHANCE: Final = 0.05
"""How often a request is lost, and how often its answer."""


class SimulatedStates:
    """Every record goes through its bytes; a coordinator that takes over replays them."""

    def __init__(self, key: ShareKey, rng: Rng) -> None:
        self._key = key
        self._rng = rng
        self._shard = ShareStateShard()
        self._log: list[tuple[bytes, bytes | None]] = []
        self._pending: list[tuple[WriteState, asyncio.Future[StateAnswer]]] = []
        self.is_faulty = True
        self._ask(self._shard.handle_initialize, (key, 0, 0))

    async def write(self, request: WriteState) -> StateAnswer:
        """As `ShareStates.write`."""
        answered: asyncio.Future[StateAnswer] = asyncio.get_running_loop().create_future()
        self._pending.append((request, answered))
        return await answered

    def read(self, leader_epoch: int) -> StateAnswer:
        """The state for a new leader."""
        return self._ask(self._shard.handle_read, (self._key, leader_epoch))

    def answer_one(self) -> bool:
        """Handle the oldest request, whether or not its answer arrives; False when there is none."""
        if not self._pending:
            return False
        request, answered = self._pending.pop(0)
        draw = self._rng.random() if self.is_faulty else 1.0
        answer = StateAnswer(ErrorCode.REQUEST_TIMED_OUT)
        if draw >= LOST_CHANCE:
            told = self._ask(self._shard.handle_write, request)
            answer = told if draw >= 2 * LOST_CHANCE else answer
        if not answered.done():
            answered.set_result(answer)
        return True

    def move(self) -> None:
        """Another coordinator takes over."""
        self._shard = ShareStateShard()
        for key, value in self._log:
            record = self._shard.decode(key, value)
            assert record is not None
            self._shard.replay(record)

    def prune(self) -> None:
        """The state is written anew, and what came before is deleted."""
        before = len(self._log)
        self._ask(self._shard.handle_snapshot, self._key)
        del self._log[:before]

    def _ask(self, handle: Callable[[int, Any, Waiter], Any], request: object) -> StateAnswer:
        answers: list[StateAnswer] = []
        outcome = handle(0, request, lambda answer: None)
        for record in outcome.records:
            key, value = self._shard.encode(record)
            self._log.append((key, value))
            replayed = self._shard.decode(key, value)
            assert replayed is not None
            self._shard.replay(replayed)
        answers += [answer for _, answer in outcome.answers]
        return answers[0]
