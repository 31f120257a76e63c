"""The states of a transaction, and the ways between them.

                                      EndTxn(commit)   +---------------+  every marker   +----------------+
                     +--------------------------------> | PrepareCommit | -------------> | CompleteCommit |
                     |                                  +---------------+     written    +----------------+
    +-------+   a partition    +---------+                                                   |
    | Empty | ---------------> | Ongoing | <------- a partition is added --------------------+
    +-------+     is added     +---------+                                                   |
       |             |         EndTxn(abort), time-out  +--------------+  every marker   +---------------+
       |             +--------------------------------> | PrepareAbort | --------------> | CompleteAbort |
       |                       or another producer      +--------------+     written     +---------------+
       +---- EndTxn(abort) of transactions V2 ---------------^

InitProducerId leads from Empty and the two complete states to Empty. Nobody asks for anything while a transaction is
prepared: its outcome is decided, and what comes is told to come again.
"""

from enum import IntEnum


class TransactionState(IntEnum):
    """What the transaction of a transactional id is doing; the numbers are those of Kafka's records."""

    EMPTY = 0
    """There is none: its producer was made known and has not begun one."""
    ONGOING = 1
    """Partitions have a part in it."""
    PREPARE_COMMIT = 2
    """It holds; the markers that say so are being written."""
    PREPARE_ABORT = 3
    """It is void; the markers that say so are being written."""
    COMPLETE_COMMIT = 4
    """It holds, and every partition says so."""
    COMPLETE_ABORT = 5
    """It is void, and every partition says so."""
    DEAD = 6
    """The transactional id is being forgotten. In no record: here it is forgotten at once."""
    PREPARE_EPOCH_FENCE = 7
    """Its producer is being fenced off. In no record: here that is one step with the beginning of the abort."""

    @property
    def label(self) -> str:
        """The name clients see.

        >>> TransactionState.PREPARE_COMMIT.label
        'PrepareCommit'
        """
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState

TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset(),
}
"""From each state, where a transaction may go. Any other pair is an error of ours."""

PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided, and not written everywhere yet."""

IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""Nothing is going on; a transactional id may be forgotten, or get a producer."""
