import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from ottla.client.errors import ConnectionLostError
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.replication.alter_partitions import IsrAnswer
from ottla.replication.gathered_proposals import GatheredProposals
from ottla.runtime.tasks import Tasks

STATE = PartitionState(1, 4, (1, 2), (1,), 8)


def proposal(index: int) -> PartitionProposal:
    return PartitionProposal(UUID(int=1), index, 4, 7, ((1, 11),))


async def answers_of(outcome: Sequence[Outcome[PartitionState]] | Exception, count: int) -> list[IsrAnswer]:
    asked: list[int] = []

    async def ask(proposals: Sequence[PartitionProposal]) -> Sequence[Outcome[PartitionState]]:
        asked.append(len(proposals))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    tasks = Tasks("test")
    proposals = GatheredProposals(ask, asyncio.get_running_loop().call_soon, tasks)
    done: list[asyncio.Future[IsrAnswer]] = []
    for index in range(count):
        answered: asyncio.Future[IsrAnswer] = asyncio.get_running_loop().create_future()
        done.append(answered)
        proposals.propose(proposal(index), answered.set_result)
    assert not asked
    found = await asyncio.gather(*done)
    assert asked == [count]
    await tasks.close()
    return list(found)


async def test_proposals_of_a_turn_share_a_request_and_each_gets_its_own_answer() -> None:
    refused = ApiError(ErrorCode.INELIGIBLE_REPLICA, "fenced")
    assert await answers_of([STATE, refused], 2) == [
        IsrAnswer(ErrorCode.NONE, 1, 4, (1,), 8),
        IsrAnswer(ErrorCode.INELIGIBLE_REPLICA),
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.NOT_CONTROLLER, "moved"), ErrorCode.NOT_CONTROLLER),
        (ConnectionLostError("gone"), ErrorCode.NETWORK_EXCEPTION),
        (RuntimeError("a fault"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_everybody_hears_that_nobody_knows(error: Exception, code: ErrorCode) -> None:
    assert await answers_of(error, 3) == [IsrAnswer(code)] * 3
