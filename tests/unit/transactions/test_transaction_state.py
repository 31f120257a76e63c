import re

import pytest

from ottla.transactions import transaction_state
from ottla.transactions.transaction_state import IDLE, PREPARED, TRANSITIONS, TransactionState


def test_every_state_has_its_ways():
    assert set(TRANSITIONS) == set(TransactionState)


@pytest.mark.parametrize(
    ("state", "label"),
    [
        (TransactionState.EMPTY, "Empty"),
        (TransactionState.ONGOING, "Ongoing"),
        (TransactionState.PREPARE_COMMIT, "PrepareCommit"),
        (TransactionState.PREPARE_ABORT, "PrepareAbort"),
        (TransactionState.COMPLETE_COMMIT, "CompleteCommit"),
        (TransactionState.COMPLETE_ABORT, "CompleteAbort"),
        (TransactionState.DEAD, "Dead"),
        (TransactionState.PREPARE_EPOCH_FENCE, "PrepareEpochFence"),
    ],
)
def test_states_have_the_names_and_numbers_of_kafka(state: TransactionState, label: str):
    assert state.label == label
    assert list(TransactionState).index(state) == state


def test_a_decided_transaction_has_one_way_to_go():
    assert all(len(TRANSITIONS[state]) == 1 for state in PREPARED)
    assert all(TransactionState.ONGOING in TRANSITIONS[state] for state in IDLE)


def test_the_picture_has_the_states_that_records_have():
    drawn = set(re.findall(r"\| (\w+) \|", transaction_state.__doc__ or ""))
    assert drawn == {state.label for state in TransactionState if TRANSITIONS[state]}
