"""Proposals of one turn of the event loop, sent to the controller together."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ottla.client.errors import ClientError
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.replication.alter_partitions import IsrAnswer, OnIsrAnswer
from ottla.runtime.tasks import Tasks

logger: Final = logging.getLogger(__name__)

PROPOSALS_MAX: Final = 10_000
"""Proposals of one request: some 60 bytes each, far below what a broker takes."""

Ask = Callable[[Sequence[PartitionProposal]], Awaitable[Sequence[Outcome[PartitionState]]]]
"""Asks the controller, in the name of this broker; the outcomes in the order of the proposals. Raises ApiError,
ClientError."""


class GatheredProposals:
    """`AlterPartitions` over one request for many. Belongs to the event loop."""

    __slots__ = ("_ask", "_defer", "_gathered", "_tasks")

    def __init__(self, ask: Ask, defer: Callable[[Callable[[], None]], object], tasks: Tasks) -> None:
        """`defer` calls back in the next turn of the loop: `loop.call_soon`."""
        self._ask = ask
        self._defer = defer
        self._tasks = tasks
        self._gathered: list[tuple[PartitionProposal, OnIsrAnswer]] = []

    def propose(self, proposal: PartitionProposal, on_answer: OnIsrAnswer) -> None:
        """See `AlterPartitions.propose`."""
        if not self._gathered:
            self._defer(self._send)
        self._gathered.append((proposal, on_answer))

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), PROPOSALS_MAX):
            self._tasks.spawn(self._request(gathered[start : start + PROPOSALS_MAX]), "asking for in-sync replicas")

    async def _request(self, gathered: Sequence[tuple[PartitionProposal, OnIsrAnswer]]) -> None:
        answers: list[IsrAnswer]
        try:
            outcomes = await self._ask([proposal for proposal, _ in gathered])
            answers = [_answer(outcome) for outcome in outcomes]
        except ApiError as error:
            answers = [IsrAnswer(error.code)] * len(gathered)
        except ClientError as error:
            logger.debug("the controller was not reached: %s", error)
            answers = [IsrAnswer(ErrorCode.NETWORK_EXCEPTION)] * len(gathered)
        except Exception:
            logger.exception("could not send ISR changes to the controller")
            answers = [IsrAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)] * len(gathered)
        for (_, on_answer), answer in zip(gathered, answers, strict=True):
            try:
                on_answer(answer)
            except Exception:
                logger.exception("a leader failed on the controller's response")


def _answer(outcome: Outcome[PartitionState]) -> IsrAnswer:
    if isinstance(outcome, ApiError):
        return IsrAnswer(outcome.code)
    return IsrAnswer(ErrorCode.NONE, outcome.leader, outcome.leader_epoch, tuple(outcome.isr), outcome.partition_epoch)
