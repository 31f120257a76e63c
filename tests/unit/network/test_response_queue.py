"""Answers leave in the order of their requests, whichever way they are given."""

from collections.abc import Sequence
from random import Random

from ottla.network.response_queue import Part, ResponseQueue, ResponseSlot


class Sent:
    """A connection, as far as its answers go."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.held_bytes = 0
        self.abandoned: list[int] = []

    def on_response(self, parts: Sequence[Part]) -> None:
        self.answers.append(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def on_answer(self, answer: bytes) -> None:
        self.answers.append(answer)

    def on_held(self, by: int, /) -> None:
        self.held_bytes += by

    def on_abandoned(self, number: int) -> None:
        self.abandoned.append(number)


def conversation(seed: int, *, in_one: bool) -> tuple[list[object], Sent]:
    """Requests and answers by chance, the end of some of them among it; what there was to see after each step."""
    random, sent = Random(seed), Sent()
    queue = ResponseQueue(sent)
    slots: list[ResponseSlot] = []
    seen: list[object] = []
    for _ in range(60):
        chance = random.random()
        if chance < 0.5:
            slots.append(ResponseSlot(queue))
        elif chance < 0.52:
            queue.cut(random.randrange(queue.next + 1))
        elif slots:
            slot = slots.pop(random.randrange(len(slots)))
            answer = b"%d" % slot.number
            if in_one:
                slot.answer(answer)
            else:
                slot.send((answer,))
        seen.append((list(sent.answers), queue.first, len(queue), sent.held_bytes))
    for slot in slots:
        slot.skip()
    return seen, sent


def test_an_answer_of_nothing_but_bytes_is_sent_as_any_other_is():
    for seed in range(200):
        assert conversation(seed, in_one=True)[0] == conversation(seed, in_one=False)[0]


def test_answers_leave_in_the_order_of_their_requests_up_to_the_end_of_them():
    lengths = []
    for seed in range(200):
        _, sent = conversation(seed, in_one=True)
        numbers = [int(answer) for answer in sent.answers if answer]
        assert numbers == sorted(set(numbers))
        assert (sent.held_bytes, sent.abandoned) == (0, [])
        lengths.append(len(numbers))
    assert max(lengths) > 20


def test_who_wants_to_be_first_is_called_when_all_before_it_have_left():
    sent = Sent()
    called: list[str] = []
    queue = ResponseQueue(sent)
    alone = ResponseSlot(queue)
    alone.when_first(lambda: called.append("alone"))
    alone.answer(b"0")
    slots = [ResponseSlot(queue) for _ in range(5)]
    slots[1].when_first(lambda: called.append("second"))

    def answer_at_once() -> None:
        called.append("fourth")
        slots[3].answer(b"4")

    slots[3].when_first(answer_at_once)
    slots[2].answer(b"3")
    slots[4].answer(b"5")
    assert (called, sent.answers) == (["alone"], [b"0"])
    slots[0].answer(b"1")
    assert (called, sent.answers) == (["alone", "second"], [b"0", b"1"])
    slots[1].answer(b"2")
    assert called == ["alone", "second", "fourth"]
    assert sent.answers == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (sent.held_bytes, queue.answers) == (0, [])


def test_who_wants_to_be_first_is_called_when_nobody_wants_its_answer_any_more():
    sent = Sent()
    called: list[bool] = []
    queue = ResponseQueue(sent)
    slots = [ResponseSlot(queue) for _ in range(4)]
    slots[1].when_first(lambda: called.append(slots[1].is_void))
    slots[2].when_first(lambda: called.append(slots[2].is_void))
    queue.cut(2)
    assert called == [True]
    slots[3].when_first(lambda: called.append(slots[3].is_void))  # which is cut already
    assert called == [True, True]
    slots[0].answer(b"0")
    assert called == [True, True, False]
    queue.clear()
    assert (called, sent.abandoned) == ([True, True, False], [])
    for slot in slots[1:]:
        slot.skip()
