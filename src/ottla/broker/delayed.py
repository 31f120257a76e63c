"""Records that are delivered to a topic later, for gateways whose protocols have that.

They wait in a delay topic of their own, `TOPIC.later`, which is made for the first of them: with as many partitions,
so that a record comes to the partition that was asked for.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.broker.records import RecordService, Value
from ottla.broker.topics import TopicService
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import MetadataImage, topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_partition import TopicPartition
from ottla.model.unknown_topic import no_such_topic
from ottla.queues.delay import DELAY_MAX_MS, DELIVER_AT
from ottla.runtime.clock import Clock
from ottla.settings.topic_settings import DELIVER_TO

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
SUFFIX: Final = ".later"


def later_topic(topic: str) -> str:
    """Where the records wait that `DelayedRecords` takes for a topic."""
    return topic + SUFFIX


class DelayedRecords:
    """Belongs to the event loop; its methods may be called concurrently."""

    def __init__(
        self,
        records: RecordService,
        topics: TopicService,
        current_image: Callable[[], MetadataImage],
        clock: Clock,
        authorizer: Authorizer,
        count_waiting: Callable[[TopicPartition], int] = lambda place: 0,
    ) -> None:
        """`count_waiting` says how many records wait in a partition of a delay topic that this broker leads."""
        self._records = records
        self._topics = topics
        self._current_image = current_image
        self._clock = clock
        self._authorizer = authorizer
        self._count_waiting = count_waiting

    def waiting_count(self, place: TopicPartition) -> int:
        """How many records wait to be delivered to a partition, about; 0 where another broker has them."""
        return self._count_waiting(TopicPartition(later_topic(place.topic), place.partition))

    async def append(
        self, principal: Principal, place: TopicPartition, values: Sequence[Value], delay_ms: int, timeout_ms: int
    ) -> None:
        """Have values delivered to a partition of a topic that is there, `delay_ms` from now: not before, and at most a
        second after. They are safe when this returns.

        Raises ApiError: INVALID_REQUEST for a delay below 0 or above ten years, UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_CONFIG when `TOPIC.later` is there and delivers elsewhere, INVALID_TOPIC_EXCEPTION when that name is too
        long, and as `RecordService.append`.
        """
        require(self._authorizer, principal, Operation.WRITE, ResourceType.TOPIC, place.topic)
        if not 0 <= delay_ms <= DELAY_MAX_MS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a delay is from 0 to {DELAY_MAX_MS} ms, not {delay_ms}")
        name = await self._waiting_place(place.topic)
        at = str(self._clock.now_ms() + delay_ms).encode()
        delayed = [(key, value, [*headers, (DELIVER_AT, at)]) for key, value, headers in values]
        await self._records.append(principal, TopicPartition(name, place.partition), delayed, timeout_ms)

    async def _waiting_place(self, topic: str) -> str:
        name = later_topic(topic)
        image = self._current_image()
        target = image.topic(topic)
        if target is None:
            raise no_such_topic(topic)
        if image.topic(name) is None:
            configs = {DELIVER_TO: topic}
            if (bytes_max := image.config(topic_resource(topic)).get(MAX_MESSAGE_BYTES)) is not None:
                configs[MAX_MESSAGE_BYTES] = bytes_max  # what fits there has to fit here
            await self._topics.ensure(NewTopic(name, len(target.partitions), configs=configs))
            image = self._current_image()
        delivers_to = image.config(topic_resource(name)).get(DELIVER_TO)
        if delivers_to != topic:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"records for topic {topic} would wait in {name}, whose {DELIVER_TO} is {delivers_to or 'not set'}: "
                f"set it to {topic}, or use another name for that topic",
            )
        return name
