"""The life of a connection, as a table.

                     START
    NEW ------------------------------> OPEN ---------- PEER_FINISHED ----> HALF_CLOSED
                                       ^ |  ^ |                                  |
                    LOW_WATER          | |  | | NO_MEMORY                        |
              PAUSED ------------------+ |  | +--------> STARVED                 |
                 ^----- HIGH_WATER ------+  +- MEMORY ------+                    |
                                                                                 |
    OPEN, PAUSED, STARVED --- MUTE ---> MUTED --- UNMUTE ---> OPEN               |
    NEW, OPEN, PAUSED, STARVED, MUTED, HALF_CLOSED --- DRAIN ---> DRAINING       |
    all --- CLOSE ---> CLOSED   <--- when all is answered and sent --------------+

Only an open connection is read. What was read is answered in every state but the last.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class State(Enum):
    """What a connection does about its requests."""

    __hash__ = object.__hash__  # Enum's own hashes the name, by way of Python

    NEW = auto()
    """It has no handler yet."""

    OPEN = auto()
    """It reads requests and hands them out."""

    PAUSED = auto()
    """Too much is unanswered, or not taken by the peer: requests that are here wait, and nothing is read."""

    STARVED = auto()
    """There is no memory to receive into (`ottla.network.request_memory`)."""

    MUTED = auto()
    """Its client is over a quota (KIP-219): nothing is read and requests that are here wait until its time is up. What
    a request has of memory stays counted, and neither idleness nor a stalled request is held against it."""

    HALF_CLOSED = auto()
    """The peer sends nothing more but may still read: it closes when all it asked for is answered and sent."""

    DRAINING = auto()
    """We read nothing more: it closes when all that was handed out is answered and sent."""

    CLOSED = auto()
    """It is gone. Answers that are given now go nowhere."""


class Event(Enum):
    """What moves a connection from one state to another."""

    __hash__ = object.__hash__

    START = auto()
    HIGH_WATER = auto()
    """`FlowControl.is_full`."""
    LOW_WATER = auto()
    """`FlowControl.is_low`."""
    NO_MEMORY = auto()
    MEMORY = auto()
    MUTE = auto()
    """A quota was exceeded."""
    UNMUTE = auto()
    """The time to be quiet is over."""
    PEER_FINISHED = auto()
    """The peer has shut down its side, or is gone without a reset: the two look the same."""
    DRAIN = auto()
    CLOSE = auto()


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.NEW, Event.START): State.OPEN,
    (State.OPEN, Event.HIGH_WATER): State.PAUSED,
    (State.PAUSED, Event.LOW_WATER): State.OPEN,
    (State.OPEN, Event.NO_MEMORY): State.STARVED,
    (State.STARVED, Event.MEMORY): State.OPEN,
    (State.OPEN, Event.MUTE): State.MUTED,
    (State.PAUSED, Event.MUTE): State.MUTED,
    (State.STARVED, Event.MUTE): State.MUTED,
    (State.MUTED, Event.UNMUTE): State.OPEN,
    (State.OPEN, Event.PEER_FINISHED): State.HALF_CLOSED,
    (State.NEW, Event.DRAIN): State.DRAINING,
    (State.OPEN, Event.DRAIN): State.DRAINING,
    (State.PAUSED, Event.DRAIN): State.DRAINING,
    (State.STARVED, Event.DRAIN): State.DRAINING,
    (State.MUTED, Event.DRAIN): State.DRAINING,
    (State.HALF_CLOSED, Event.DRAIN): State.DRAINING,
    (State.DRAINING, Event.DRAIN): State.DRAINING,
    (State.NEW, Event.CLOSE): State.CLOSED,
    (State.OPEN, Event.CLOSE): State.CLOSED,
    (State.PAUSED, Event.CLOSE): State.CLOSED,
    (State.STARVED, Event.CLOSE): State.CLOSED,
    (State.MUTED, Event.CLOSE): State.CLOSED,
    (State.HALF_CLOSED, Event.CLOSE): State.CLOSED,
    (State.DRAINING, Event.CLOSE): State.CLOSED,
}
"""Where an event leads. A pair that is not here is a mistake of ours."""

ENDING: Final = frozenset({State.HALF_CLOSED, State.DRAINING})
"""The states that end when nothing is left to answer or to send."""


def next_state(state: State, event: Event) -> State:
    """Where `event` leads from `state`; AssertionError where it cannot happen."""
    following = TRANSITIONS.get((state, event))
    assert following is not None, f"{event.name} cannot happen to a connection that is {state.name}"
    return following
