"""The states of a classic consumer group, and the ways between them.

                a member joins                 everybody is back, or time is up
        +--------------------------+     +------------------------------------------+
        |                          v     |                                          v
    +-------+   nobody is back   +--------------------+               +---------------------+
    | Empty | <----------------- | PreparingRebalance | <------------ | CompletingRebalance |
    +-------+                    +--------------------+  a change     +---------------------+
                                       ^                                     |
                                       |   a member joins, leaves       the leader
                                       |   or is not heard of           hands out work
                                       |          +--------+                 |
                                       +--------- | Stable | <---------------+
                                                  +--------+

every state but Dead leads to Dead: the group is deleted or moves to another broker
"""

from enum import Enum


class GroupState(Enum):
    """What a group is doing; the values are the names clients see."""

    EMPTY = "Empty"
    """It has no members; it may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are expected to join (again); those who did wait for their answer."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation is agreed; its members wait for the leader's assignment."""
    STABLE = "Stable"
    """Every member has its assignment."""
    DEAD = "Dead"
    """It is gone. What clients are told of a group that does not exist."""


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state, where a group may go. Any other pair is an error of ours."""
