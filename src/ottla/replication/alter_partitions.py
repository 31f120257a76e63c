"""How the leader of a partition asks the controller for another ISR (AlterPartition, KIP-497)."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.model.error_code import ErrorCode


class IsrAnswer(Struct, frozen=True):
    """What became of a proposal: without an error, how the partition is now.

    Whatever kept the answer away (REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_CONTROLLER and the like) leaves it open
    whether the proposal was carried out.
    """

    error: ErrorCode = ErrorCode.NONE
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


OnIsrAnswer: TypeAlias = Callable[[IsrAnswer], None]


class AlterPartitions(Protocol):
    """Takes proposals to the controller, wherever that is."""

    def propose(self, proposal: PartitionProposal, on_answer: OnIsrAnswer) -> None:
        """Send a proposal, in the name of this broker.

        `on_answer` is called once, in the event loop, and not before this returns. Does not raise. Proposals of one
        turn of the loop may share a request.
        """
        ...
