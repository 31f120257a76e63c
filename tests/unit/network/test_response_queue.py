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

    def on_held(self, by: int) -> None:
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
        seen.append((list(sent.answers), queue.first, len(queue), queue.held_bytes, sent.held_bytes))
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
