"""The topic with the leases of checkpoints: `__ottla_checkpoints`.

One compacted partition, so that its records have one order, which is what decides between two drivers. A record is of
one driver and one checkpoint: key `[checkpoint, driver]`, value a `Sign`. All times in it are for people: no clock of
one machine is compared with that of another.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from ottla.client.admin.admin import CreatedTopic, NewTopic
from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.offsets import ListedOffset, OffsetAt
from ottla.client.consuming.visible_batches import whole_batches
from ottla.client.errors import BrokerError, ClientError, OffsetOutOfRangeError, TopicNotFoundError
from ottla.client.producing.produce import ProducedBatch
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, decode_records
from ottla.runtime.clock import Clock

TOPIC: Final = "__ottla_checkpoints"
PARTITION: Final = TopicPartition(TOPIC, 0)
SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Two claims are told apart by their order: none may go while its driver has yet to read the other.
    "min.compaction.lag.ms": "3600000",
    # A driver that starts reads all of it; a segment that is written to is not compacted.
    "segment.bytes": "4194304",
    "segment.ms": "3600000",
}
_WAIT_MS: Final = 500
_EMPTY_MAX: Final = 20
"""Answers without a record, each after the wait above, before what was appended counts as lost."""
_FETCH_BYTES: Final = 4_000_000
_DECODED_BYTES_MAX: Final = 64_000_000


class Use(StrEnum):
    """The state of a driver's lease."""

    CLAIMS = "claims"
    """The driver wants the checkpoint; another one may have been first."""
    USES = "uses"
    """The driver was the first to claim the checkpoint, and uses it."""
    LEFT = "left"
    """The driver has released the checkpoint."""


class Sign(Struct, frozen=True):
    """A lease of a checkpoint. `generation` counts the drivers that the checkpoint has had."""

    generation: int
    use: Use
    host: str
    pid: int
    machine: str
    """The boot id of the driver's machine; empty if it is not known."""
    since_ms: int
    directory: str
    """The path of the checkpoint on the driver's machine."""


class Entry(NamedTuple):
    """A record of the topic. `sign` is None in a tombstone."""

    checkpoint: str
    driver: str
    sign: Sign | None


def newer(before: Entry | None, entry: Entry) -> Entry | None:
    """The holder of a checkpoint after one more record, in the order of the log.

    The highest generation has it. Of two claims to the same one the first: the driver of the other, which reads both,
    never goes on to use it.
    """
    if entry.sign is None:
        return None if before is not None and before.driver == entry.driver else before
    if before is None or before.sign is None or entry.sign.generation > before.sign.generation:
        return entry
    if entry.sign.generation < before.sign.generation:
        return before
    first = before.sign.use is Use.CLAIMS and entry.sign.use is not Use.CLAIMS
    return entry if entry.driver == before.driver or first else before


class LogClient(Protocol):
    """The client of the log, such as `ottla.client.blocking.BlockingClient`."""

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Raises BrokerError."""
        ...

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets at special points."""
        ...

    def fetch_raw(self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchedBatches:
        """Record batches from an offset on."""
        ...

    def produce_raw(self, topic: str, partition: int, batches: bytearray) -> ProducedBatch:
        """Append, acknowledged by all replicas in sync."""
        ...

    def close(self) -> None:
        """Cancels requests in flight; any thread may call it."""
        ...


class LeaseLog:
    """Reads the topic from its start, and appends to it. Calls block, and raise ClientError."""

    def __init__(self, client: LogClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._position: int | None = None

    def append(self, entries: Iterable[Entry]) -> int:
        """Append entries as one batch. Returns the offset after the last of them."""
        now_ms = self._clock.now_ms()
        made = [(now_ms, *encoded(entry), ()) for entry in entries]
        return self._client.produce_raw(*PARTITION, build_batch(made)).base_offset + len(made)

    def close(self) -> None:
        """Sends no more requests, and cancels those in flight; any thread may call it."""
        self._client.close()

    def up_to(self, end: int | None = None) -> list[Entry]:
        """The unread entries, at least up to an offset; by default up to the end of the log."""
        position = self._at()
        end = self._listed(OffsetAt.LATEST) if end is None else end
        found: list[Entry] = []
        answers = 0
        while self._at() < end:
            found += self.listen(_WAIT_MS)
            answers = answers + 1 if self._at() == position else 0
            position = self._at()
            if answers == _EMPTY_MAX:
                raise ClientError(f"{TOPIC} ends at offset {position}, and {end} was written: was it deleted?")
        return found

    def listen(self, wait_ms: int) -> list[Entry]:
        """The unread entries; if there are none, those that arrive within the timeout."""
        try:
            answer = self._client.fetch_raw(*PARTITION, self._at(), max_bytes=_FETCH_BYTES, max_wait_ms=wait_ms)
        except OffsetOutOfRangeError:
            # Somebody deleted the topic, and it was made again.
            self._position = self._listed(OffsetAt.EARLIEST)
            return []
        return [*self._entries(answer)]

    def _at(self) -> int:
        if self._position is None:
            self._position = self._start()
        return self._position

    def _entries(self, answer: FetchedBatches) -> Iterator[Entry]:
        for batch in whole_batches(answer.records):
            self._position = batch.last_offset + 1
            if batch.is_control:
                continue
            data = answer.records[batch.position : batch.position + batch.size]
            for _, _, key, value, _ in decode_records(data, max_decompressed_bytes=_DECODED_BYTES_MAX):
                entry = decoded(key, value)
                if entry is not None:
                    yield entry

    def _start(self) -> int:
        try:
            return self._listed(OffsetAt.EARLIEST)
        except TopicNotFoundError:
            try:
                self._client.create_topic(NewTopic(TOPIC, partitions=1, configs=SETTINGS))
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        return self._listed(OffsetAt.EARLIEST)

    def _listed(self, at: OffsetAt) -> int:
        return self._client.list_offsets({PARTITION: int(at)})[PARTITION].offset


def encoded(entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value of a record."""
    key = json.dumps([entry.checkpoint, entry.driver]).encode()
    return key, None if entry.sign is None else msgspec.json.encode(entry.sign)


def decoded(key: bytes | None, value: bytes | None) -> Entry | None:
    """The entry; None for other records."""
    try:
        checkpoint, driver = msgspec.json.decode(key or b"", type=tuple[str, str])
        return Entry(checkpoint, driver, None if value is None else msgspec.json.decode(value, type=Sign))
    except msgspec.MsgspecError:
        return None
