"""Keeps the history of share partitions in a topic, so that it outlasts the broker that noted it.

```
  notes of all leaders --200 ms--> __share_group_history, a partition by the hash of group and partition
    key    workers/1f3c0f0e-.../3        header offsets  120-125
    value  {"version": 1, "events": [[1795827028421, "delivered", 120, 125, 1, "m-1"], ...]}
```

The topic is made for the first event. What could not be written waits, bounded, and is tried again. A broker that is
stopped writes what waits; one that is killed takes the events of the last moments with it. An event may be there twice:
it is told once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ottla.broker.records import OutOfRangeError, RecordRead, RecordService
from ottla.broker.topics import TopicService
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import MetadataImage
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.model.topic_name import SHARE_GROUP_HISTORY_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, crc32c, decode_records
from ottla.native.errors import KernelError
from ottla.protocol.message import Records
from ottla.queues.history import Event
from ottla.queues.share_state import ShareKey
from ottla.runtime.clock import Clock
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX

logger = logging.getLogger(__name__)

PARTITIONS: Final = 4
RETENTION_BYTES: Final = 32 << 20
"""Of a partition, beside the segment that is written to; an event takes about 25 bytes."""
SEGMENT_BYTES: Final = 8 << 20
RETENTION_MS: Final = 30 * 86_400_000
"""The longest `ottla.history.ms`."""

WRITE_MS: Final = 200
"""How long events are gathered."""
RETRY_MS: Final = 1_000
CLOSE_MS: Final = 2_000
"""How long a broker that is stopped tries to write what waits."""
CLOSE_RETRY_MS: Final = 50
"""Its connections to other brokers end once when it is fenced, which fails what is on its way."""
WAITING_MAX: Final = 50_000
"""Events that wait to be written; the oldest go first."""
RECORD_EVENTS_MAX: Final = 1_000
BATCH_RECORDS_MAX: Final = 20
TIMEOUT_MS: Final = 5_000
READ_BYTES: Final = 1 << 20
READS_MAX: Final = 2
"""So many histories are read at a time; others wait."""

_LZ4: Final = 3
_OFFSETS: Final = "offsets"


class _Value(Struct):
    version: int
    events: list[Event]


class HistoryTopic:
    """Belongs to the event loop."""

    def __init__(
        self,
        records: RecordService,
        topics: TopicService,
        current_image: Callable[[], MetadataImage],
        broker_id: int,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
    ) -> None:
        self._records = records
        self._topics = topics
        self._current_image = current_image
        self._principal = broker_principal(broker_id)
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._throttled = LogThrottle(logger, clock)
        self._waiting: dict[ShareKey, list[Event]] = {}
        self._waiting_count = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        self._hurry = asyncio.Event()
        self._reads = asyncio.Semaphore(READS_MAX)

    def note(self, key: ShareKey, events: Sequence[Event]) -> None:
        """Have events of a group in a partition written soon."""
        if not events or self._is_closed:
            return
        self._waiting.setdefault(key, []).extend(events)
        self._waiting_count += len(events)
        if self._waiting_count > WAITING_MAX:
            self._drop_oldest()
        if self._writing is None or self._writing.done():
            self._writing = self._tasks.spawn(self._write(), "share-history")

    async def read(self, key: ShareKey, offset: int, since_ms: int) -> list[Event]:
        """What was written of one record after a time, in the order of being written. Raises ApiError."""
        topic = self._current_image().topic(SHARE_GROUP_HISTORY_TOPIC)
        if topic is None:
            return []
        place = _place_of(key, len(topic.partitions))
        wanted = _key_of(key)
        found: list[Event] = []
        at = 0
        async with self._reads:
            while True:
                read = await self._read_from(place, at)
                if read is None:
                    return found
                end, events = await self._tasks.in_thread(_events_in, read.records, at, wanted, offset, since_ms)
                found += events
                if end is None or end >= read.high_watermark:
                    return found
                at = end

    async def _read_from(self, place: TopicPartition, at: int) -> RecordRead | None:
        for _ in range(2):
            try:
                return await self._records.read(self._principal, place, at, max_bytes=READ_BYTES, timeout_ms=TIMEOUT_MS)
            except OutOfRangeError as error:
                if error.log_start_offset <= at:
                    break
                at = error.log_start_offset  # what is older was deleted, maybe just now
        return None

    async def close(self) -> None:
        """Write what waits, if that takes no longer than `CLOSE_MS`; nothing is noted from now on."""
        self._is_closed = True
        self._hurry.set()
        writing = self._writing
        if writing is None or writing.done():
            return
        end = self._timer.schedule(CLOSE_MS, writing.cancel)
        await asyncio.wait([writing])
        end.cancel()
        if writing.cancelled() or self._waiting:
            logger.warning("the last moments of the history of share groups are not stored")

    async def _pause(self, ms: int) -> None:
        """Return after so long, or on `close`."""
        end = self._timer.schedule(ms, self._hurry.set)
        try:
            await self._hurry.wait()
        finally:
            end.cancel()
        if not self._is_closed:
            self._hurry.clear()

    async def _write(self) -> None:
        while self._waiting:
            await self._pause(WRITE_MS)
            events, self._waiting, self._waiting_count = self._waiting, {}, 0
            try:
                await self._append(events)
            except ApiError as error:
                self._throttled.warning("the history of share groups is not stored now: %s", error)
                self._put_back(events)
                await (self._timer.sleep(CLOSE_RETRY_MS) if self._is_closed else self._pause(RETRY_MS))

    async def _append(self, events: dict[ShareKey, list[Event]]) -> None:
        """Append events, and take out of `events` what was. Raises ApiError."""
        topic = await self._topics.ensure(
            NewTopic(
                SHARE_GROUP_HISTORY_TOPIC,
                PARTITIONS,
                configs={
                    "cleanup.policy": "delete",
                    "retention.bytes": str(RETENTION_BYTES),
                    "retention.ms": str(RETENTION_MS),
                    "segment.bytes": str(SEGMENT_BYTES),
                },
            )
        )
        by_place: dict[TopicPartition, list[ShareKey]] = {}
        for key in events:
            by_place.setdefault(_place_of(key, len(topic.partitions)), []).append(key)
        for place, keys in by_place.items():
            for start in range(0, len(keys), BATCH_RECORDS_MAX):
                part = keys[start : start + BATCH_RECORDS_MAX]
                await self._append_part(place, part, events)

    async def _append_part(
        self, place: TopicPartition, keys: Sequence[ShareKey], events: dict[ShareKey, list[Event]]
    ) -> None:
        while keys:
            batch = build_batch([_record(key, events[key][:RECORD_EVENTS_MAX]) for key in keys], codec=_LZ4)
            await self._records.append_batch(self._principal, place, batch, TIMEOUT_MS)
            for key in keys:
                del events[key][:RECORD_EVENTS_MAX]
            keys = [key for key in keys if events[key]]

    def _put_back(self, events: dict[ShareKey, list[Event]]) -> None:
        for key, each in events.items():
            if each:
                self._waiting[key] = each + self._waiting.pop(key, [])
        self._waiting_count = sum(map(len, self._waiting.values()))
        if self._waiting_count > WAITING_MAX:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._throttled.warning("a part of the history of share groups is not stored: too many events wait")
        while self._waiting_count > WAITING_MAX // 2:
            key = next(iter(self._waiting))
            self._waiting_count -= len(self._waiting.pop(key))


def _place_of(key: ShareKey, partition_count: int) -> TopicPartition:
    return TopicPartition(SHARE_GROUP_HISTORY_TOPIC, crc32c(_key_of(key)) % partition_count)


def _key_of(key: ShareKey) -> bytes:
    return f"{key.group_id}/{key.topic_id}/{key.partition}".encode()


def _record(key: ShareKey, events: list[Event]) -> tuple[int, bytes, bytes, list[tuple[str, bytes]]]:
    offsets = f"{min(each.first for each in events)}-{max(each.last for each in events)}".encode()
    return events[-1].at_ms, _key_of(key), msgspec.json.encode(_Value(1, events)), [(_OFFSETS, offsets)]


def _events_in(records: Records, start: int, key: bytes, offset: int, since_ms: int) -> tuple[int | None, list[Event]]:
    """The end of what could be read, None if there was nothing, and the events of an offset in it."""
    found: list[Event] = []
    try:
        decoded = decode_records(records, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=start)
    except KernelError:
        return None, found
    for _, timestamp_ms, record_key, value, headers in decoded:
        if record_key != key or value is None or timestamp_ms <= since_ms or not _covers(headers, offset):
            continue
        try:
            events = msgspec.json.decode(value, type=_Value).events
        except msgspec.MsgspecError:
            continue  # not of ours
        found += [each for each in events if each.first <= offset <= each.last and each.at_ms > since_ms]
    return (decoded[-1][0] + 1 if decoded else None), found


def _covers(headers: Sequence[tuple[str, bytes | None]], offset: int) -> bool:
    for name, value in headers:
        if name == _OFFSETS and value is not None:
            first, _, last = value.partition(b"-")
            if first.isdigit() and last.isdigit() and len(value) < 40:
                return int(first) <= offset <= int(last)
    return True
