from ottla.groups.group_state import TRANSITIONS, GroupState


def test_every_state_has_its_transitions():
    assert set(TRANSITIONS) == set(GroupState)


def test_a_group_becomes_stable_only_through_a_whole_rebalance():
    before_stable = {state for state, nexts in TRANSITIONS.items() if GroupState.STABLE in nexts}
    assert before_stable == {GroupState.COMPLETING_REBALANCE}
    before_completing = {state for state, nexts in TRANSITIONS.items() if GroupState.COMPLETING_REBALANCE in nexts}
    assert before_completing == {GroupState.PREPARING_REBALANCE}


def test_every_state_but_dead_leads_to_dead_and_dead_leads_nowhere():
    assert all(GroupState.DEAD in nexts for state, nexts in TRANSITIONS.items() if state is not GroupState.DEAD)
    assert not TRANSITIONS[GroupState.DEAD]


def test_the_names_are_those_that_clients_know():
    assert [state.value for state in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
