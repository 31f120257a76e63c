"""The producer as the mover has it, over requests that travel, get lost, or come when nobody waits for them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.errors import ClientError, RequestTimedOutError, TopicNotFoundError, TransactionAbortableError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.rng import Rng
from ottla.simulation.delays.delay_log import PLACE
from ottla.simulation.delays.delay_target import LETTERS, TARGET, Answer, DelayTarget, MoverTransaction, RetryError
from ottla.simulation.delays.pausing import pause
from ottla.simulation.whole.event_loop import SimulatedLoop, settle

WAY_S_MAX: Final = 0.004
"""How long a request or an answer is on its way."""

LATE_S_MAX: Final = 3.0
"""How much later a request comes that its sender has given up."""

AGAIN_S: Final = 0.02
ATTEMPTS_MAX: Final = 400

Popped = Callable[[], tuple[int, int]]
"""When what is moved was taken: the monotonic clock, and what the wall clock had told by then."""


class Written(NamedTuple):
    """Where a batch is."""

    offset: int


class Requests:
    """How the requests of one broker travel."""

    def __init__(self, loop: SimulatedLoop, rng: Rng, on_trouble: Callable[[], None]) -> None:
        self._loop = loop
        self._rng = rng
        self.on_trouble = on_trouble
        self.lost_chance = 0.0

    async def ask(self, handle: Callable[[Answer], None]) -> Any:
        """What `handle` answers. Raises ClientError."""
        for _ in range(ATTEMPTS_MAX):
            answer = await self._attempt(handle)
            if isinstance(answer, RetryError):
                await pause(self._loop.call_later, AGAIN_S)
            elif isinstance(answer, BaseException):
                self.on_trouble()
                raise answer
            else:
                return answer
        self.on_trouble()
        raise RequestTimedOutError("nothing came of it")

    async def _attempt(self, handle: Callable[[Answer], None]) -> object:
        rng, loop = self._rng, self._loop
        answered: asyncio.Future[object] = loop.create_future()
        draw = rng.random()
        way_s = rng.uniform(0.0, WAY_S_MAX)

        def come(answer: object) -> None:
            loop.in_world(rng.uniform(0.0, WAY_S_MAX), settle, answered, answer)

        def lose(_answer: object) -> None:
            pass

        if draw >= self.lost_chance:
            loop.in_world(way_s, handle, come)
            return await answered
        self.on_trouble()
        kind = rng.randbelow(4)
        if kind == 0:  # the request is lost
            answer: object = RetryError()
        elif kind == 1:  # its answer is
            loop.in_world(way_s, handle, lose)
            answer = RetryError()
        else:  # the sender gives up; it is done at once, or much later
            loop.in_world(way_s if kind == 2 else rng.uniform(0.0, LATE_S_MAX), handle, lose)
            answer = RequestTimedOutError("no answer")
        loop.in_world(rng.uniform(0.05, 0.5), settle, answered, answer)
        return await answered


class SimulatedProducer:
    """Satisfies what the mover and its outbox ask of `ottla.client.producing.producer.Producer`."""

    def __init__(self, target: DelayTarget, requests: Requests, epoch: int, mover_epoch: int, popped: Popped) -> None:
        self._target = target
        self._requests = requests
        self._epoch = epoch
        self._mover_epoch = mover_epoch
        self._popped = popped
        self._transaction: MoverTransaction | None = None
        self._sent: list[asyncio.Future[Written]] = []
        self._last: dict[TopicPartition, asyncio.Future[Written]] = {}
        self._is_closed = False

    @classmethod
    async def become(
        cls, target: DelayTarget, requests: Requests, mover_epoch: int, popped: Popped
    ) -> "tuple[SimulatedProducer, CommittedOffset | None]":
        """Fence the one before, then read the progress."""
        epoch = await requests.ask(target.become)
        committed = await requests.ask(target.committed_offset)
        return cls(target, requests, epoch, mover_epoch, popped), committed

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        assert self._transaction is None, "the one before has not ended"
        self._transaction = MoverTransaction(self._epoch, self._mover_epoch, *self._popped())
        self._sent, self._last = [], {}

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return self._target.partition_count if topic == TARGET else 1

    async def send_encoded(self, topic: str, partition: int, batch: bytearray, record_count: int) -> Any:
        """Have a batch written, behind those before it of its partition."""
        del record_count
        transaction = self._open
        if topic not in (TARGET, PLACE.topic, LETTERS):
            raise TopicNotFoundError(topic)
        if topic == TARGET and not self._target.is_there:
            self._requests.on_trouble()
            raise TopicNotFoundError(topic)
        place = TopicPartition(topic, partition)
        request = self._target.request_id()
        handle = partial(self._target.produce, request, transaction, topic, partition, bytes(batch))
        sent = _quiet(asyncio.get_running_loop().create_task, self._send(self._last.get(place), handle))
        self._last[place] = sent
        self._sent.append(sent)
        return sent

    async def _send(self, before: "asyncio.Future[Written] | None", handle: Callable[[Answer], None]) -> Written:
        if before is not None:
            await asyncio.wait([before])
        return Written(await self._requests.ask(handle))

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, CommittedOffset], group: str) -> None:
        """Commit the progress as part of the transaction."""
        del group
        request, transaction = self._target.request_id(), self._open
        await self._requests.ask(partial(self._target.commit_offset, request, transaction, offsets[PLACE]))

    async def commit_transaction(self) -> None:
        """Commit, once all is written."""
        transaction = self._open
        if self._sent:
            await asyncio.wait(self._sent)
        failed = [error for each in self._sent if (error := each.exception()) is not None]
        if failed:
            raise TransactionAbortableError(f"a part of the transaction failed: {failed[0]}")
        await self._end(transaction, commits=True)

    async def abort_transaction(self) -> None:
        """Abort: nothing of it is delivered."""
        transaction = self._open
        if self._sent:
            await asyncio.wait(self._sent)
        await self._end(transaction, commits=False)

    async def _end(self, transaction: MoverTransaction, *, commits: bool) -> None:
        request = self._target.request_id()
        self._epoch = await self._requests.ask(partial(self._target.end, commits, request, transaction))
        self._transaction = None

    async def close(self, *, deliver: bool) -> None:
        """Send nothing more."""
        del deliver
        self._is_closed = True
        for each in self._sent:
            each.cancel()

    @property
    def _open(self) -> MoverTransaction:
        if self._transaction is None or self._is_closed:
            raise ClientError("there is no transaction")
        return self._transaction


def _quiet(
    create_task: Callable[[Coroutine[Any, Any, Written]], "asyncio.Future[Written]"],
    coroutine: Coroutine[Any, Any, Written],
) -> "asyncio.Future[Written]":
    """A task whose failure is seen by those who wait for it, if any."""
    task = create_task(coroutine)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
