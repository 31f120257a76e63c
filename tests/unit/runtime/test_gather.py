from ottla.runtime.gather import Gather


def test_answers_are_handed_on_in_the_order_of_their_places_when_all_are_there():
    done: list[list[str]] = []
    gather: Gather[str] = Gather(3, done.append)
    for index in (2, 0):
        gather.place(index)(f"answer {index}")
    assert done == []
    gather.place(1)("answer 1")
    assert done == [["answer 0", "answer 1", "answer 2"]]


def test_nothing_to_wait_for_is_complete_at_once():
    done: list[list[str]] = []
    Gather(0, done.append)
    assert done == [[]]
