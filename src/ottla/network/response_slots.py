"""The places of the responses to requests of many connections, or of one, that are served as one."""

from collections.abc import Sequence

from ottla.network.response_queue import ResponseQueue, ResponseSlot


class ResponseSlots:
    """The places of some requests in the queues of their connections, as `ResponseSlot` is that of one.

    They are filled together, once, at any time; or taken `apart`. To let go of them and do neither closes all those
    connections.
    """

    __slots__ = ("_numbers", "queues")

    def __init__(self, queues: Sequence[ResponseQueue]) -> None:
        """The next place in each of the queues, one of which may be there several times."""
        self.queues = queues
        """Whose each place is; nobody's once they are filled or apart."""
        self._numbers: list[int] = []
        numbers = self._numbers
        for queue in queues:
            numbers.append(queue.next)
            queue.next += 1
            queue.answers.append(None)

    def __del__(self) -> None:
        for queue, number in zip(self.queues, self._numbers, strict=True):
            queue.abandon(number)

    def send(self, answers: Sequence[bytes]) -> None:
        """Answer each with its bytes, the 4-byte length included."""
        for queue, number, answer in zip(self.queues, self._numbers, answers, strict=True):
            if number >= queue.end:
                continue
            waiting = queue.answers
            if number != queue.first:
                waiting[number - queue.first] = (answer,)
                queue.hold((answer,))
                continue
            del waiting[0]
            queue.first = number + 1
            queue.sender.on_answer(answer)
            if waiting and waiting[0] is not None:
                queue.release()
        self.queues, self._numbers = (), []

    def send_to_one(self, answers: Sequence[bytes]) -> None:
        """The same for places that are all of one queue, one behind the other."""
        queue, number, count = self.queues[0], self._numbers[0], len(answers)
        if number != queue.first or number + count > queue.end:
            self.send(answers)
            return
        waiting = queue.answers
        del waiting[:count]
        queue.first = number + count
        self.queues, self._numbers = (), []
        queue.sender.on_answer(b"".join(answers))
        if waiting and waiting[0] is not None:
            queue.release()

    def apart(self) -> list[ResponseSlot]:
        """Each by itself from now on."""
        queues, self.queues = self.queues, ()
        numbers, self._numbers = self._numbers, []
        return [ResponseSlot.at(queue, number) for queue, number in zip(queues, numbers, strict=True)]
