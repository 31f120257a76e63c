"""What the APIs 83 to 87 share: share partitions of a group, from brokers only, each answered by itself."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ottla.broker.access import require_broker
from ottla.coordination.awaited import awaited
from ottla.coordination.outcome import Waiter
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import StateAnswer

T = TypeVar("T")


async def answers_of(
    ctx: RequestContext, request: Any, ask: Callable[[ShareKey, Any, Waiter], object]
) -> Iterator[StateAnswer]:
    """The answer for each partition of each topic, in order; the refusal for all of them when a client asks.

    `ask` submits one to the coordinator.
    """
    places = [(topic, each) for topic in request.topics for each in topic.partitions]
    try:
        require_broker(ctx.principal)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        return iter([StateAnswer(error.code, message=error.message)] * len(places))

    async def one(topic: Any, each: Any) -> StateAnswer:
        if each.partition < 0:
            return StateAnswer(ErrorCode.INVALID_REQUEST, message="The partition id cannot be a negative number.")
        key = ShareKey(request.group_id, topic.topic_id, each.partition)
        answer = await awaited(lambda waiter: ask(key, each, waiter))
        assert isinstance(answer, StateAnswer)
        return answer

    return iter(await asyncio.gather(*(one(topic, each) for topic, each in places)))


def results(
    request: Any,
    answers: Iterator[StateAnswer],
    make_topic: Callable[[Any, tuple[Any, ...]], T],
    make_partition: Callable[[int, StateAnswer], object],
) -> Sequence[T]:
    """The topics of the response."""
    return tuple(
        make_topic(topic.topic_id, tuple(make_partition(each.partition, next(answers)) for each in topic.partitions))
        for topic in request.topics
    )
