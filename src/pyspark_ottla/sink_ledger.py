"""The topic that stores the state of exactly-once writes: `__ottla_spark_sinks`.

The topic has one compacted partition, so its records have one order. Keys and values are JSON. For each transactional
id:

```
 key                           value                                              written
 ["owner", id]                 which driver writes with it, and which ones did    when a driver takes it
 ["attempt", id, task]         an attempt at a task that is about to write        before its first record
 ["closing", id]               the driver counts the attempts from here back      before the end of a transaction
 ["state", id]                 the newest batch, by query id and number           inside of the batch's transaction
```

Only a state is written in a transaction, together with its rows: both are committed or neither is. A reader reads
every record, and accepts a state when its commit marker comes. So the open transaction of another sink does not hide
later records, as it would from a reader of committed records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ottla.client.admin.admin import CreatedTopic, NewTopic
from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.offsets import ListedOffset, OffsetAt
from ottla.client.consuming.visible_batches import whole_batches
from ottla.client.errors import BrokerError, TopicNotFoundError
from ottla.client.producing.produce import ProducedBatch
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, decode_records
from ottla.runtime.clock import Clock, SystemClock

TOPIC = "__ottla_spark_sinks"
PARTITION = TopicPartition(TOPIC, 0)
SETTINGS = {
    "cleanup.policy": "compact",
    # Attempts of one task have one key: none may go before the transaction that it belongs to has ended.
    "min.compaction.lag.ms": "3600000",
    "segment.bytes": "16777216",
    "compression.type": "producer",
}
_COMMIT = 1
_TAIL_OFFSETS = 200
"""How far back a search looks first; then eight times as far, and so on."""
_FETCH_BYTES = 4_000_000
_DECODED_BYTES_MAX = 64_000_000


@dataclass(frozen=True, slots=True)
class Owner:
    """The driver that writes with a transactional id, by what it got from the coordinator.

    A driver that is about to take it has no producer yet. `former` are those before it, the newest last.
    """

    driver: str
    former: tuple[str, ...] = ()
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a task, by the transaction it writes to."""

    producer_id: int
    producer_epoch: int
    task: int
    attempt: str


@dataclass(frozen=True, slots=True)
class Closing:
    """From here on no further attempt may write to this transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class State:
    """The newest committed batch. `run` is the run of the query that wrote it; `query_id` None is a single write."""

    query_id: str | None
    batch_id: int
    run: str
    records: int
    producer_id: int
    producer_epoch: int


_KINDS: dict[str, type[Any]] = {"owner": Owner, "attempt": Attempt, "closing": Closing, "state": State}
Entry = Owner | Attempt | Closing | State


@dataclass(frozen=True, slots=True)
class Ledger:
    """The newest entries of one transactional id; `end` is the offset up to which the topic was read."""

    owner: Owner | None = None
    state: State | None = None
    end: int = 0

    def expects(self, producer_id: int, epoch: int) -> bool:
        """Whether the coordinator's producer is what this driver left: the end of a transaction raises the epoch."""
        known = {(self.owner.producer_id, self.owner.producer_epoch)} if self.owner is not None else set()
        if self.state is not None:
            known.add((self.state.producer_id, self.state.producer_epoch + 1))
        return (producer_id, epoch) in known


@dataclass(slots=True)
class _Reading:
    """How far the topic was read, what was found, and what waits for its transaction to end."""

    offset: int
    owner: Owner | None = None
    state: State | None = None
    pending: dict[int, tuple[int, list[Entry]]] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """One more entry, in the order of the log."""
        if isinstance(entry, Owner):
            self.owner = entry
        elif isinstance(entry, State):
            self.state = entry


class LedgerClient(Protocol):
    """The client of the ledger, such as `ottla.client.blocking.BlockingClient`."""

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Raises BrokerError."""
        ...

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets at special points."""
        ...

    def fetch_raw(self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchedBatches:
        """Record batches, of open and aborted transactions too."""
        ...

    def produce_raw(self, topic: str, partition: int, batches: bytearray) -> ProducedBatch:
        """Append, acknowledged by all replicas in sync."""
        ...


class SinkLedger:
    """The ledger as one transactional id sees it. Calls block, and raise ClientError.

    It remembers what it has read: a log only grows, so the next reading looks at what came since.
    """

    def __init__(self, client: LedgerClient, transactional_id: str, clock: Clock | None = None) -> None:
        self._client = client
        self._id = transactional_id
        self._clock = clock or SystemClock()
        self._seen: _Reading | None = None

    def create(self) -> None:
        """Create the topic where it is not there yet."""
        try:
            self._earliest()
        except TopicNotFoundError:
            try:
                self._client.create_topic(NewTopic(TOPIC, partitions=1, configs=SETTINGS))
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

    def read(self) -> Ledger:
        """The newest owner and state: what came since the last reading; at first, looked for from the end back."""
        end = self._end()
        if self._seen is None or end < self._seen.offset:
            self._seen = self._from_the_end(end)
        seen, self._seen = self._seen, None
        for entry in self._entries(seen, end):
            seen.take(entry)
        # Only what was read to its end is gone on with.
        self._seen = seen
        return Ledger(seen.owner, seen.state, end)

    def _from_the_end(self, end: int) -> _Reading:
        earliest = self._earliest()
        reach = _TAIL_OFFSETS
        while True:
            start = max(end - reach, earliest)
            reading = _Reading(start)
            for entry in self._entries(reading, end):
                reading.take(entry)
            if start == earliest or (reading.owner is not None and reading.state is not None):
                return reading
            reach *= 8

    def append(self, entry: Owner | Attempt | Closing) -> int:
        """Append an entry outside of a transaction. Returns its offset."""
        return self._client.produce_raw(*PARTITION, self._batch(entry)).base_offset

    def attempts(self, start: int, end: int) -> list[Attempt | Closing]:
        """The announced attempts between two offsets, in order."""
        return [each for each in self._entries(_Reading(start), end) if isinstance(each, Attempt | Closing)]

    def state_batch(self, state: State) -> bytearray:
        """The record that stores the state, for the transaction's producer."""
        return self._batch(state)

    def _batch(self, entry: Entry) -> bytearray:
        return build_batch([(self._clock.now_ms(), *encoded(self._id, entry), ())])

    def _earliest(self) -> int:
        return self._client.list_offsets({PARTITION: int(OffsetAt.EARLIEST)})[PARTITION].offset

    def _end(self) -> int:
        return self._client.list_offsets({PARTITION: int(OffsetAt.LATEST)})[PARTITION].offset

    def _entries(self, reading: _Reading, end: int) -> Iterator[Entry]:
        pending = reading.pending
        while reading.offset < end:
            answer = self._client.fetch_raw(*PARTITION, reading.offset, max_bytes=_FETCH_BYTES, max_wait_ms=500)
            for batch in whole_batches(answer.records):
                if batch.base_offset >= end:
                    return
                reading.offset = batch.last_offset + 1
                if batch.is_control:
                    _, entries = pending.pop(batch.producer_id, (0, []))
                    if batch.marker is not None and batch.marker[0] == _COMMIT:
                        yield from entries
                    continue
                data = answer.records[batch.position : batch.position + batch.size]
                entries = [
                    entry
                    for _, _, key, value, _ in decode_records(data, max_decompressed_bytes=_DECODED_BYTES_MAX)
                    if (entry := decoded(self._id, key, value)) is not None
                ]
                if batch.is_transactional:
                    epoch, before = pending.pop(batch.producer_id, (batch.producer_epoch, []))
                    if epoch != batch.producer_epoch:
                        # Compaction takes away markers, of transactions that it left something of: committed ones.
                        yield from before
                        before = []
                    pending[batch.producer_id] = (batch.producer_epoch, before + entries)
                else:
                    yield from entries


def encoded(transactional_id: str, entry: Entry) -> tuple[bytes, bytes]:
    """Key and value of an entry."""
    kind = next(name for name, each in _KINDS.items() if isinstance(entry, each))
    key = [kind, transactional_id, *([entry.task] if isinstance(entry, Attempt) else [])]
    return json.dumps(key).encode(), json.dumps(asdict(entry)).encode()


def decoded(transactional_id: str, key: bytes | None, value: bytes | None) -> Entry | None:
    """The entry; None if the record is not one of this transactional id."""
    try:
        kind, of_id, *_ = json.loads(key or b"[]")
        if of_id != transactional_id or value is None:
            return None
        fields = json.loads(value)
        if "former" in fields:
            fields["former"] = tuple(fields["former"])
        entry: Entry = _KINDS[kind](**fields)
    except (ValueError, KeyError, TypeError):
        return None
    return entry
