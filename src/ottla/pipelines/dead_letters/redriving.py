"""Sends letters back. The transaction of a chunk includes the ledger, so that no letter is sent twice.

```
  init: what an earlier run left open is aborted, its producer fenced
  read the ledger: what is done
  for each chunk of letters:   begin ─ records to their topics ─ ledger ─ position of the group ─ commit
```

Whatever ends it in between, the next run finds a chunk sent and in the ledger, or neither.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from msgspec import Struct, field

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.errors import BrokerError, ClientError, TopicNotFoundError
from ottla.client.io.cluster import Cluster
from ottla.client.producing.delivery import Delivery
from ottla.client.producing.producer import Producer
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.dead_letters.ledger import TOPIC, TOPIC_CONFIGS, Done, key_of, newest_values
from ottla.pipelines.dead_letters.redrive import Destination, Refusal, Rules, decide
from ottla.pipelines.topic_range import edges, read_range

CHUNK_RECORDS = 5_000
"""The number of letters in a transaction."""

Pace = Callable[[int], Awaitable[None]]
"""Called with the number of sent letters; returns when the next one may be sent."""


def group_of(topic: str) -> str:
    """The consumer group whose positions show how far a topic of letters was sent back; also the transactional id."""
    return f"ottla-dlq-redrive.{topic}"


class Tally(Struct):
    """The counts of a redrive."""

    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of sent letters, by target topic and step."""
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of letters that are not sent by reason, with the message and position of the first."""
    done_before: int = 0
    """The number of letters that an earlier run sent back."""
    not_meant: int = 0
    """The number of records that are not letters, or that the filter excludes."""
    _messages: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of sent letters."""
        return sum(self.sent.values())

    def refuse(self, record: ConsumerRecord, refusal: Refusal) -> None:
        """Counts a letter that is not sent."""
        message = self._messages.setdefault(refusal.why, f"{record.topic_partition}@{record.offset}: {refusal.message}")
        self.refused[refusal.why, message] += 1


class Letters:
    """The letters in a topic that were not sent back yet, and the state of each partition."""

    def __init__(self, cluster: Cluster, consumer: Consumer, topic: str) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self.topic = topic
        self.starts: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.done: dict[TopicPartition, Done] = {}
        self.keys: dict[TopicPartition, bytes] = {}

    async def open(self) -> None:
        """Reads the topic's offsets and the ledger. Raises TopicNotFoundError."""
        self.starts, self.ends = await edges(self._consumer, self.topic)
        [found] = await Admin(self._cluster).describe_topics([self.topic])
        self.keys = {place: key_of(self.topic, found.topic_id, place.partition) for place in self.starts}
        values = await self._ledger()
        for place, key in self.keys.items():
            self.done[place] = Done.decode(values[key]) if key in values else Done()
            self.done[place].forget_before(self.starts[place])

    def position(self, place: TopicPartition) -> int:
        """The first offset that is not done."""
        return self.done[place].up_to(self.starts[place])

    def all(self) -> AsyncIterator[list[ConsumerRecord]]:
        """All records of the topic."""
        return read_range(self._consumer, self.starts, self.ends)

    def left(self, records_max: int = CHUNK_RECORDS) -> AsyncIterator[list[ConsumerRecord]]:
        """The records from the first pending one on; some of them may be done."""
        starts = {place: min(self.position(place), end) for place, end in self.ends.items()}
        return read_range(self._consumer, starts, self.ends, records_max=records_max)

    async def _ledger(self) -> dict[bytes, bytes]:
        try:
            starts, ends = await edges(self._consumer, TOPIC)
        except TopicNotFoundError:
            return {}
        return await newest_values(read_range(self._consumer, starts, ends), self.keys.values())


async def preview(cluster: Cluster, letters: Letters, wanted: Filter, rules: Rules, count: int | None = None) -> Tally:
    """The counts of what `redrive` would do now. Sends nothing."""
    tally = Tally()
    partitions: dict[str, int | None] = {}
    async for records in letters.left():
        for record in records:
            if count is not None and tally.total >= count:
                return tally
            await _judge(cluster, letters, record, wanted, rules, partitions, tally)
    return tally


async def redrive(
    cluster: Cluster,
    producer: Producer,
    letters: Letters,
    wanted: Filter,
    rules: Rules,
    *,
    count: int | None = None,
    pace: Pace | None = None,
    chunk_records: int = CHUNK_RECORDS,
) -> AsyncIterator[Tally]:
    """Send back the selected letters, at most `count`. Yields the counts after each transaction and at the end.

    `producer` has the transactional id `group_of(topic)` and is started; `letters` is not open yet. Raises ClientError:
    the transaction that was under way is then aborted, or not known to be committed, which the next run will learn.
    """
    await _make_ledger(cluster)
    await producer.init_transactions()
    await letters.open()
    tally = Tally()
    partitions: dict[str, int | None] = {}
    before = {place: letters.position(place) for place in letters.ends}
    async for records in letters.left(chunk_records):
        chunk: list[tuple[ConsumerRecord, Destination]] = []
        for record in records:
            if count is not None and tally.total >= count:
                break
            destination = await _judge(cluster, letters, record, wanted, rules, partitions, tally)
            place = record.topic_partition
            if destination is not None:
                chunk.append((record, destination))
                letters.done[place].add(before[place], record.offset + 1)
            before[place] = record.offset + 1
        if chunk:
            await _send(producer, letters, chunk)
            yield tally
            if pace is not None:
                await pace(tally.total)
        if count is not None and tally.total >= count:
            break
    yield tally


async def _send(producer: Producer, letters: Letters, chunk: list[tuple[ConsumerRecord, Destination]]) -> None:
    places = {record.topic_partition for record, _ in chunk}
    async with producer.transaction():
        sent: list[tuple[ConsumerRecord, Delivery]] = []
        for record, to in chunk:
            try:
                delivery = await producer.send(
                    to.topic,
                    to.value,
                    key=to.key,
                    partition=to.partition,
                    timestamp_ms=to.timestamp_ms,
                    headers=to.headers,
                )
            except BrokerError as error:
                raise _named([record], error) from error
            sent.append((record, delivery))
        for place in places:
            await producer.send(TOPIC, letters.done[place].encode(), key=letters.keys[place])
        positions = {place: letters.position(place) for place in places}
        await producer.send_offsets_to_transaction(positions, group_of(letters.topic))
        await producer.flush()
        failed = next((delivery.error for _, delivery in sent if delivery.error is not None), None)
        if failed is not None:
            # Those of one batch fail together; the broker says which of them it refuses, by its number in the batch.
            raise _named([record for record, delivery in sent if delivery.error is failed], failed) from failed


def _named(records: Sequence[ConsumerRecord], error: Exception) -> ClientError:
    first, last = (f"{each.topic_partition}@{each.offset}" for each in (records[0], records[-1]))
    which = f"letter {first}" if len(records) == 1 else f"one of {len(records)} letters from {first} to {last}"
    return ClientError(f"{which} cannot be sent back: {error}; choose others with --offsets, or send it --into a topic")


async def _judge(
    cluster: Cluster,
    letters: Letters,
    record: ConsumerRecord,
    wanted: Filter,
    rules: Rules,
    partitions: dict[str, int | None],
    tally: Tally,
) -> Destination | None:
    letter = letter_of(record.headers)
    if not wanted.takes(record, letter):
        tally.not_meant += 1
        return None
    if record.offset in letters.done[record.topic_partition]:
        tally.done_before += 1
        return None
    topic = rules.into or letter.topic
    if topic is not None and topic not in partitions:
        partitions[topic] = await _partition_count(cluster, topic)
    there = {name: number for name, number in partitions.items() if number is not None}
    decided = decide(record, letter, rules, there)
    if isinstance(decided, Refusal):
        tally.refuse(record, decided)
        return None
    tally.sent[decided.topic, letter.step or ""] += 1
    return decided


async def _partition_count(cluster: Cluster, topic: str) -> int | None:
    """How many partitions a topic has; None when there is none. A letter's headers create no topic."""
    try:
        [found] = await Admin(cluster).describe_topics([topic])
    except TopicNotFoundError:
        return None
    except BrokerError as error:
        if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            return None
        raise
    return len(found.partitions)


async def _make_ledger(cluster: Cluster) -> None:
    try:
        await Admin(cluster).create_topic(NewTopic(TOPIC, partitions=1, configs=TOPIC_CONFIGS))
    except BrokerError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
