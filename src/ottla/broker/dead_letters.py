"""Writes the dead letters of share groups (KIP-1191): records that were rejected, or delivered too often.

The topic is the group's `errors.deadletterqueue.topic.name`, and says that it takes them by
`errors.deadletterqueue.group.enable`. The partition is that of the record, modulo their count. Where there is no such
topic, nothing is written and the log says so, as in Kafka: records that can never become letters must not be delivered
for ever.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.records import RecordService
from ottla.broker.topics import TopicService
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.model.stream_record import HEADER as STREAM_HEADER
from ottla.model.topic_name import is_internal_topic
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, decode_records
from ottla.native.errors import KernelError
from ottla.queues.dead_letter import CUT, letter_headers
from ottla.queues.letters import Letter
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey
from ottla.replication.partition import Partition
from ottla.runtime.clock import Clock
from ottla.runtime.log_throttle import LogThrottle
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX

logger = logging.getLogger(__name__)

GROUP_ENABLE: Final = "errors.deadletterqueue.group.enable"
READ_BYTES: Final = 1 << 20
BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 512 << 10
TIMEOUT_MS: Final = 10_000
"""How long a batch of letters is tried before the records are given back instead."""

_NEVER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.POLICY_VIOLATION,
    }
)
_REFUSED: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class DeadLetters:
    """Belongs to the event loop."""

    def __init__(
        self,
        records: RecordService,
        topics: TopicService,
        current_image: Callable[[], MetadataImage],
        topic_settings: Callable[[str], dict[str, str]],
        broker_id: int,
        clock: Clock,
        *,
        auto_create: bool,
    ) -> None:
        """`auto_create` is `errors.deadletterqueue.auto.create.topics.enable`."""
        self._records = records
        self._topics = topics
        self._current_image = current_image
        self._topic_settings = topic_settings
        self._principal = broker_principal(broker_id)
        self._clock = clock
        self._auto_create = auto_create
        self._throttled = LogThrottle(logger, clock)

    async def write(self, key: ShareKey, partition: Partition, letters: Sequence[Letter], limits: ShareLimits) -> None:
        """Satisfies `ottla.queues.letters.WriteLetters`."""
        topic = await self._topic(limits.letters_topic, key.group_id, partition.topic_partition.topic)
        if topic is None:
            return
        place = TopicPartition(topic.name, key.partition % len(topic.partitions))
        batch: list[Record] = []
        size = 0
        for letter in letters:
            for record, record_bytes in await self._letter_records(key, partition, letter, limits):
                if batch and (len(batch) >= BATCH_RECORDS or size + record_bytes > BATCH_BYTES):
                    await self._append(place, batch)
                    batch, size = [], 0
                batch.append(record)
                size += record_bytes
        if batch:
            await self._append(place, batch)

    async def _topic(self, name: str, group_id: str, source: str) -> TopicImage | None:
        """The topic, or None where letters of records of `source` cannot go there."""
        topic = self._current_image().topic(name)
        if topic is None and self._auto_create:
            topic = await self._topics.ensure(NewTopic(name, configs={GROUP_ENABLE: "true"}))
        reason = None
        if topic is None:
            reason = "it does not exist"
        elif name == source:
            # The group would read its own letters, and write them again, without an end.
            reason = "it is the topic of the records themselves, where they stay"
        elif is_internal_topic(name):
            reason = "it holds a coordinator's state"
        elif self._topic_settings(name)[GROUP_ENABLE] != "true":
            reason = f"its {GROUP_ENABLE} is false"
        if reason is not None:
            self._throttled.warning("dead letters of share group %s are not kept in %s: %s", group_id, name, reason)
            return None
        return topic

    async def _letter_records(
        self, key: ShareKey, partition: Partition, letter: Letter, limits: ShareLimits
    ) -> list[tuple[Record, int]]:
        """The letters of a run, and about their sizes."""
        source = partition.topic_partition

        def headers(offset: int) -> list[tuple[str, bytes | None]]:
            return letter_headers(*source, offset, key.group_id, letter.deliveries, letter.reason)

        if not limits.copies_records:
            why = b"the group does not copy records (errors.deadletterqueue.copy.record.enable)"
            now_ms = self._clock.now_ms()
            return [
                ((now_ms, None, None, [*headers(offset), (CUT, why)]), 512)
                for offset in range(letter.first, letter.last + 1)
            ]
        found: list[tuple[Record, int]] = []
        at = max(letter.first, partition.log.log_start_offset)
        while at <= letter.last:
            data = await partition.read_bytes(at, READ_BYTES)
            try:
                decoded = decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=at)
            except KernelError as error:
                self._throttled.warning("%s at %d cannot become a dead letter: %s", source, at, error)
                break
            if not decoded:
                break
            is_stream = partition.log.config.is_stream
            for offset, timestamp_ms, record_key, value, own in decoded:
                if offset <= letter.last:
                    # A letter is no record of the stream.
                    kept = [each for each in own if each[0] != STREAM_HEADER] if is_stream else own
                    size = len(record_key or b"") + len(value or b"") + 512
                    found.append(((timestamp_ms, record_key, value, [*kept, *headers(offset)]), size))
            at = decoded[-1][0] + 1
        return found

    async def _append(self, place: TopicPartition, batch: list[Record]) -> None:
        try:
            await self._records.append_batch(self._principal, place, build_batch(batch), TIMEOUT_MS)
        except ApiError as error:
            if error.code in _REFUSED and len(batch) > 1:
                for record in batch:
                    await self._append(place, [record])
            elif error.code in _NEVER or error.code in _REFUSED:
                self._throttled.warning("%s does not take a dead letter: %s", place, error)
            else:
                raise
