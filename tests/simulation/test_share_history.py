"""What members of a share group must not see is found in what they saw."""

import pytest
from msgspec.structs import replace

from ottla.simulation.history import Outcome
from ottla.simulation.share_history import Delivery, Settlement, ShareHistory

PARTITION = ("t", 0)
LOG = {PARTITION: [(0, "a"), (1, "b")]}
FIRST, SECOND = (PARTITION, 0), (PARTITION, 1)

GOT_A = Delivery("one", FIRST, "a", 1, asked_s=1.0, came_s=2.0)
GOT_B = Delivery("one", SECOND, "b", 1, asked_s=1.0, came_s=2.0)
DONE_A = Settlement("one", FIRST, True, Outcome.OK, sent_s=3.0, answered_s=4.0)
DONE_B = replace(DONE_A, place=SECOND)
RELEASED_A = replace(DONE_A, is_done=False)
OTHER_GOT_A = Delivery("other", FIRST, "a", 2, asked_s=2.1, came_s=2.5)


def history(*seen: Delivery | Settlement) -> ShareHistory:
    found = ShareHistory(deliveries_max=3)
    found.deliveries = [each for each in seen if isinstance(each, Delivery)]
    found.settlements = [each for each in seen if isinstance(each, Settlement)]
    return found


def test_a_group_that_did_everything_once_did_nothing_wrong() -> None:
    done = history(GOT_A, GOT_B, DONE_A, DONE_B)
    assert done.check(LOG) == []
    assert done.unfinished(LOG) == []


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        ("never delivered", [GOT_A]),
        ("delivered again", [GOT_A, GOT_B, DONE_A, replace(OTHER_GOT_A, asked_s=4.1, came_s=5.0)]),
        ("settled by a past holder", [GOT_A, GOT_B, OTHER_GOT_A, DONE_A]),
        ("delivery count lost", [GOT_A, GOT_B, RELEASED_A, replace(OTHER_GOT_A, asked_s=4.1, came_s=5.0, count=1)]),
        ("wrong delivery count", [GOT_A, replace(GOT_B, count=4)]),
        ("wrong delivery count", [GOT_A, replace(GOT_B, count=0)]),
        ("delivered what is not there", [GOT_A, replace(GOT_B, value="c")]),
    ],
)
def test_what_is_wrong_is_found(rule: str, seen: list[Delivery | Settlement]) -> None:
    assert [found.partition(":")[0] for found in history(*seen).check(LOG)] == [rule]


@pytest.mark.parametrize(
    "seen",
    [
        [replace(OTHER_GOT_A, asked_s=3.9, came_s=5.0), DONE_A],
        [replace(OTHER_GOT_A, asked_s=5.0, came_s=6.0), replace(DONE_A, outcome=Outcome.UNKNOWN)],
        [OTHER_GOT_A, replace(DONE_A, member="other", sent_s=2.6, answered_s=2.7), DONE_A],
        [OTHER_GOT_A, replace(GOT_A, asked_s=2.6, came_s=2.7, count=3), DONE_A],
        [RELEASED_A, replace(OTHER_GOT_A, asked_s=4.1, came_s=5.0)],
        [replace(RELEASED_A, outcome=Outcome.UNKNOWN), replace(OTHER_GOT_A, asked_s=4.1, came_s=5.0, count=1)],
    ],
    ids=[
        "asked before it was done",
        "nobody knows whether it is done",
        "done by another",
        "had it once more",
        "counted on",
        "not known to be stored",
    ],
)
def test_what_may_be_is_not_taken_for_wrong(seen: list[Delivery | Settlement]) -> None:
    assert history(GOT_A, GOT_B, *seen).check(LOG) == []


def test_records_that_are_not_done_are_to_be_delivered_yet() -> None:
    assert history(GOT_A, GOT_B, replace(DONE_A, outcome=Outcome.FAIL)).unfinished(LOG) == [
        "t-0 offset 0",
        "t-0 offset 1",
    ]
    assert history(replace(GOT_A, count=3), replace(DONE_B, outcome=Outcome.UNKNOWN)).unfinished(LOG) == []
