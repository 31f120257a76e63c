import re

import pytest

from ottla.network import connection_state
from ottla.network.connection_state import ENDING, TRANSITIONS, Event, State, next_state

LIVING = [state for state in State if state is not State.CLOSED]


@pytest.mark.parametrize("state", sorted(LIVING, key=str))
def test_whatever_it_does_a_connection_can_be_drained_and_closed(state: State):
    assert next_state(state, Event.DRAIN) is State.DRAINING
    assert next_state(state, Event.CLOSE) is State.CLOSED


@pytest.mark.parametrize("event", Event)
def test_nothing_happens_to_a_closed_connection(event: Event):
    with pytest.raises(AssertionError, match=f"{event.name} cannot happen to a connection that is CLOSED"):
        next_state(State.CLOSED, event)


@pytest.mark.parametrize("state", sorted(ENDING, key=str))
def test_a_connection_that_is_ending_is_never_read_again(state: State):
    reached, waiting = {state}, [state]
    while waiting:
        current = waiting.pop()
        following = {after for (before, _), after in TRANSITIONS.items() if before is current}
        waiting += following - reached
        reached |= following
    assert reached == {state, State.DRAINING, State.CLOSED}


def test_every_state_is_reached_and_every_event_happens():
    assert set(TRANSITIONS.values()) | {State.NEW} == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_the_picture_names_what_the_table_has():
    picture = connection_state.__doc__ or ""
    named = set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)*\b", picture))
    assert named == {each.name for each in State} | {each.name for each in Event}
