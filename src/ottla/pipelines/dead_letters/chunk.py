"""What one transaction sends back: record batches by target partition, and what the ledger says after it.

```
  letters of a chunk, in order     a b c d e f
  batches                          jobs-0: [a c f]   jobs-1: [b] [d e]      at most 256 KB each
  in the same transaction          the done ranges of each partition, and its first offset that is not done
```
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.errors import BrokerError, ClientError, TransactionAbortableError
from ottla.client.producing.delivery import Delivery
from ottla.client.producing.partitioner import partition_for_key
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_batch import Record, record_bytes
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.pipelines.dead_letters.ledger import TOPIC
from ottla.pipelines.dead_letters.redrive import Destination

BATCH_BYTES: Final = 256 * 1024
"""A batch larger than this has one record. A topic may ask for smaller ones: the producer then divides it."""

Place = tuple[str, int, int]
"""Topic, partition and offset of a letter."""


class _Batch(Struct):
    topic: str
    partition: int
    letters: list[Place] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    encoded: bytearray | None = None
    size_bytes: int = 0


class Chunk:
    """The letters of one transaction. Records without a key and a partition all go to the same one."""

    def __init__(self, number: int) -> None:
        """`number` differs from chunk to chunk."""
        self._number = number
        self._open: dict[tuple[str, int], _Batch] = {}
        self._batches: list[_Batch] = []
        self.letters = 0
        self.size_bytes = 0
        self.ledger: dict[bytes, bytes] = {}
        """The records of the ledger."""
        self.positions: dict[TopicPartition, int] = {}
        """The first offset that is not done in each partition with letters of this chunk."""

    def add(self, letter: ConsumerRecord, to: Destination, partition_count: int) -> None:
        """A letter is sent back with this chunk."""
        partition = to.partition
        if partition is None:
            partition = (
                self._number if to.key is None else partition_for_key(to.key, partition_count)
            ) % partition_count
        size = record_bytes(to.key, to.value, to.headers)
        batch = self._open.get((to.topic, partition))
        if batch is None or batch.size_bytes + size > BATCH_BYTES:
            if batch is not None:
                _encode(batch)
            batch = self._open[to.topic, partition] = _Batch(to.topic, partition)
            self._batches.append(batch)
        batch.letters.append(letter[:3])
        batch.records.append((to.timestamp_ms, to.key, to.value, to.headers))
        batch.size_bytes += size
        self.size_bytes += size
        self.letters += 1

    def close(self) -> None:
        """Nothing more is added: what is left is encoded."""
        for batch in self._open.values():
            _encode(batch)
        self._open.clear()

    async def send(self, producer: Producer, group_id: str) -> None:
        """One transaction. Raises ClientError, which names the letter if it is one that cannot be sent."""
        async with producer.transaction():
            sent: list[tuple[_Batch, Delivery]] = []
            try:
                for batch in self._batches:
                    delivery = await self._send_batch(producer, batch)
                    sent.append((batch, delivery))
                for key, value in self.ledger.items():
                    await producer.send(TOPIC, value, key=key)
                await producer.send_offsets_to_transaction(self.positions, group_id)
            except TransactionAbortableError:
                # A batch has failed meanwhile: the reason is that batch's.
                await producer.flush()
                _raise_for(sent)
                raise
            await producer.flush()
            _raise_for(sent)

    async def _send_batch(self, producer: Producer, batch: _Batch) -> Delivery:
        encoded, batch.encoded = batch.encoded, None
        assert encoded is not None, "the chunk is closed, and sent once"
        try:
            return await producer.send_encoded(batch.topic, batch.partition, encoded, len(batch.letters))
        except TransactionAbortableError:
            raise
        except BrokerError as error:
            raise _named(batch.letters, error) from error


def _encode(batch: _Batch) -> None:
    if batch.encoded is None:
        batch.encoded = build_batch(batch.records)
        batch.records = []


def _raise_for(sent: Sequence[tuple[_Batch, Delivery]]) -> None:
    """Raise for the first batch that failed by itself, and not because another one did."""
    for batch, delivery in sent:
        if delivery.error is None and delivery.is_whole:
            continue
        errors = [delivery.error_behind(index) for index in range(len(batch.letters))]
        failed = next((each for each in errors if not isinstance(each, TransactionAbortableError | None)), None)
        if failed is not None:
            # Those of one batch fail together; the broker says which of them it refuses, by its number in the batch.
            together = [place for place, error in zip(batch.letters, errors, strict=True) if error is failed]
            raise _named(together, failed) from failed


def _named(letters: Sequence[Place], error: Exception) -> ClientError:
    first, last = ("{}-{}@{}".format(*each) for each in (letters[0], letters[-1]))
    which = f"letter {first}" if len(letters) == 1 else f"one of {len(letters)} letters from {first} to {last}"
    return ClientError(f"{which} cannot be sent back: {error}; choose others with --offsets, or send it --into a topic")
