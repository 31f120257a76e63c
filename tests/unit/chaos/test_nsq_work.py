"""What the chaos of NSQ channels writes down of what consumers saw and said."""

from threading import Lock

from chaos.nsq_work import TOPIC, Said, command_of, message_of, place_of
from ottla.simulation.history import Outcome
from ottla.simulation.share_history import ShareHistory

FIRST = bytes(9) + b"\x02" + b"0000000000000007" + b"one"
SECOND = bytes(9) + b"\x01" + b"0000000000000008" + b"other"


def test_a_message_is_known_by_partition_and_offset() -> None:
    message = message_of(FIRST)
    assert (message.attempts, message.body) == (2, b"one")
    assert place_of(message.message_id) == ((TOPIC, 0), 7)


def test_one_value_is_published_alone_and_several_together() -> None:
    assert command_of(["a"]) == (b"PUB clicks", b"a")
    assert command_of(["a", "bc"]) == (b"MPUB clicks", b"\0\0\0\x02\0\0\0\x01a\0\0\0\x02bc")


def test_what_is_not_refused_before_the_end_ended_as_the_connection_did() -> None:
    history = ShareHistory(100)
    said = Said("one", history, Lock())
    for data in (FIRST, SECOND):
        message = message_of(data)
        said.came(message, 1.0)
        said.says(message, is_done=True)
    said.refused(b"E_FIN_FAILED FIN 0000000000000007 failed ID not in flight")
    said.over(Outcome.OK)
    assert [(each.place[1], each.outcome) for each in history.settlements] == [(7, Outcome.FAIL), (8, Outcome.OK)]
    said.says(message, is_done=True)
    said.refused(b"E_FIN_FAILED FIN 0000000000000008 failed NOT_LEADER_OR_FOLLOWER: it may come again")
    assert history.settlements[-1].outcome is Outcome.UNKNOWN
    assert [(each.value, each.count, each.asked_s) for each in history.deliveries] == [
        ("one", 2, 1.0),
        ("other", 1, 1.0),
    ]
