"""The checker finds each fault that is planted in a sound history, and nothing else."""

import copy
from collections.abc import Callable

import pytest

from chaos.checker import check
from chaos.history import Commit, CommittedOffset, Delivery, FinalState, History, Send, TopicCreation
from ottla.simulation.anomaly import Anomaly
from ottla.simulation.history import Outcome
from workload.payload import Payload

ORDERS = ("orders", 0)
GROUP = "billing"


def payload(number: int) -> Payload:
    return Payload("p", number)


def sound() -> tuple[History, FinalState]:
    """Ten records at offsets 0 to 9, the last one unacknowledged; a group that committed 3 and 6 and began anew."""
    sends = [Send(payload(n), ORDERS, n, Outcome.OK, n, n + 0.5) for n in range(9)]
    sends.append(Send(payload(9), ORDERS, 9))
    sends.append(Send(payload(10), ORDERS, 10))
    sends.append(Send(payload(11), ORDERS, 11, Outcome.FAIL))
    final = FinalState({ORDERS: [(n, payload(n)) for n in range(10)]}, {"orders": 1, "made": 2})
    history = History(
        sends,
        [Commit(GROUP, ORDERS, 3, 20, Outcome.OK, 21), Commit(GROUP, ORDERS, 6, 22, Outcome.UNKNOWN)],
        [
            Delivery(GROUP, ORDERS, 12, [(n, payload(n)) for n in range(6)]),
            Delivery(GROUP, ORDERS, 30, [(n, payload(n)) for n in range(3, 10)]),
        ],
        [CommittedOffset(GROUP, ORDERS, None, 20.5), CommittedOffset(GROUP, ORDERS, 3, 25)],
        [TopicCreation("made", 2, Outcome.OK), TopicCreation("perhaps", 2)],
    )
    return history, final


def test_a_sound_history_has_no_violations():
    assert check(*sound()) == []


def lose(history: History, final: FinalState) -> None:
    del final.records[ORDERS][8:]
    history.deliveries[1].records = history.deliveries[1].records[:5]


def lose_in_the_middle(_: History, final: FinalState) -> None:
    del final.records[ORDERS][4]


def lose_and_put_the_next_in_its_place(_: History, final: FinalState) -> None:
    final.records[ORDERS] = [(n, payload(n if n < 4 else n + 1)) for n in range(9)]


def duplicate(_: History, final: FinalState) -> None:
    final.records[ORDERS].append((10, payload(9)))


def change(_: History, final: FinalState) -> None:
    final.records[ORDERS][4] = (4, None)


def reorder(_: History, final: FinalState) -> None:
    final.records[ORDERS][4:6] = [(4, payload(5)), (5, payload(4))]


def invent(_: History, final: FinalState) -> None:
    final.records[ORDERS].append((10, payload(77)))


def keep_what_was_refused(_: History, final: FinalState) -> None:
    final.records[ORDERS].append((10, payload(11)))


def take_back_what_was_read(history: History, final: FinalState) -> None:
    del final.records[ORDERS][9]
    assert history.sends[9].outcome is Outcome.UNKNOWN


def forget_a_commit(history: History, _: FinalState) -> None:
    history.committed_offsets[1].offset = None


def set_a_commit_back(history: History, _: FinalState) -> None:
    history.committed_offsets[1].offset = 2


def commit_by_itself(history: History, _: FinalState) -> None:
    history.committed_offsets[1].offset = 7


def deliver_again_what_was_committed(history: History, _: FinalState) -> None:
    history.deliveries[1].records.insert(0, (2, payload(2)))


def deliver_twice_in_a_row(history: History, _: FinalState) -> None:
    history.deliveries[1].records.insert(1, (3, payload(3)))


def skip(history: History, _: FinalState) -> None:
    del history.deliveries[1].records[5]


def skip_the_end(history: History, _: FinalState) -> None:
    del history.deliveries[1].records[-1]


def skip_at_the_beginning(history: History, _: FinalState) -> None:
    history.deliveries[1].records = history.deliveries[1].records[4:]


def forget_a_topic(_: History, final: FinalState) -> None:
    del final.topics["made"]


def forget_a_partition(_: History, final: FinalState) -> None:
    final.topics["made"] = 1


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose, Anomaly.LOST),
        (lose_in_the_middle, Anomaly.LOST),
        (lose_in_the_middle, Anomaly.GAP),
        (lose_and_put_the_next_in_its_place, Anomaly.LOST),
        (duplicate, Anomaly.DUPLICATE),
        (change, Anomaly.CHANGED),
        (reorder, Anomaly.REORDERED),
        (invent, Anomaly.PHANTOM),
        (keep_what_was_refused, Anomaly.REFUSED),
        (take_back_what_was_read, Anomaly.UNREAD),
        (forget_a_commit, Anomaly.COMMIT_LOST),
        (set_a_commit_back, Anomaly.COMMIT_LOST),
        (commit_by_itself, Anomaly.COMMIT_INVENTED),
        (deliver_again_what_was_committed, Anomaly.REDELIVERED),
        (deliver_twice_in_a_row, Anomaly.REDELIVERED),
        (skip, Anomaly.SKIPPED),
        (skip_the_end, Anomaly.SKIPPED),
        (skip_at_the_beginning, Anomaly.SKIPPED),
        (forget_a_topic, Anomaly.TOPIC_LOST),
        (forget_a_partition, Anomaly.TOPIC_LOST),
    ],
)
def test_each_planted_fault_is_found(plant: Callable[[History, FinalState], None], kind: Anomaly):
    history, final = sound()
    plant(history, final)
    assert kind in {violation.anomaly for violation in check(history, final)}


def test_what_is_unknown_may_be_there_or_not():
    history, final = sound()
    there = copy.deepcopy(final)
    there.records[ORDERS].append((10, payload(10)))
    history.deliveries[1].records.append((10, payload(10)))
    assert check(history, there) == []


def test_a_violation_says_what_and_where():
    history, final = sound()
    change(history, final)
    assert str(check(history, final)[0]) == "changed: orders-0 offset 4 (not what was sent)"
