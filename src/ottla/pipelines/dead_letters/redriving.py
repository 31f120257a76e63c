"""Sends letters back. The transaction of a chunk includes the ledger, so that no letter is sent twice.

```
  init: what an earlier run left open is aborted, its producer fenced
  read the ledger: what is done
  for each chunk of letters:   begin ─ batches to their topics ─ ledger ─ position of the group ─ commit
                               meanwhile the next chunk is read, judged and encoded
```

Whatever ends it in between, the next run finds a chunk sent and in the ledger, or neither.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from msgspec import Struct, field

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.errors import BrokerError, ClientError, InvalidOptionError, TopicNotFoundError
from ottla.client.io.cluster import Cluster
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.dead_letters.chunk import Chunk
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.headers import Letter, letter_of
from ottla.pipelines.dead_letters.ledger import TOPIC, TOPIC_CONFIGS, Done, key_of, newest_values
from ottla.pipelines.dead_letters.redrive import Destination, Refusal, Rules, decide
from ottla.pipelines.topic_range import edges, read_range

CHUNK_RECORDS: Final = 10_000
"""The number of letters in a transaction."""
CHUNK_BYTES: Final = 16 * 1024 * 1024
"""About their size: two chunks are in memory, and what a poll returns."""
POLL_RECORDS: Final = 5_000
RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
"""The largest record that is tried. Whether a topic takes it is the broker's decision."""

Pace = Callable[[int], Awaitable[None]]
"""Called with the number of sent letters; returns when the next one may be sent."""


def group_of(topic: str) -> str:
    """The consumer group whose positions show how far a topic of letters was sent back; also the transactional id."""
    return f"ottla-dlq-redrive.{topic}"


def producer_options(topic: str) -> ProducerOptions:
    """Those of the producer that sends back the letters of a topic."""
    return ProducerOptions(
        transactional_id=group_of(topic),
        request_bytes_max=RECORD_BYTES_MAX,
        buffer_bytes=RECORD_BYTES_MAX,
    )


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

    def add(self, other: "Tally") -> None:
        """Counts what another one has counted."""
        self.sent.update(other.sent)
        self.done_before += other.done_before
        self.not_meant += other.not_meant
        for (why, message), count in other.refused.items():
            self.refused[why, self._messages.setdefault(why, message)] += count

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

    def left(self, records_max: int = POLL_RECORDS) -> AsyncIterator[list[ConsumerRecord]]:
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
    judge = _Judge(cluster, letters, wanted, rules, count)
    tally = Tally()
    async for records in letters.left():
        await judge.chosen(records, tally)
        if judge.is_full:
            break
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

    `producer` has `producer_options(topic)` and is started; `letters` is not open yet. Raises ClientError: the
    transaction that was under way is then aborted, or not known to be committed, which the next run will learn.
    """
    await _make_ledger(cluster)
    await producer.init_transactions()
    await letters.open()
    judge = _Judge(cluster, letters, wanted, rules, count)
    chunks = _Chunks(letters, judge, chunk_records)
    tally = Tally()
    following: tuple[Chunk, Tally] | ClientError | None = await chunks.next()
    while following is not None:
        if isinstance(following, ClientError):
            raise following
        chunk, counts = following
        following = None
        if chunk.letters:
            group_id = group_of(letters.topic)
            try:
                _, following = await cluster.io.together([chunk.send(producer, group_id), chunks.next()])
            except BrokerError as error:
                raise _of_another_run(letters.topic, error) from error
        tally.add(counts)
        yield tally
        if chunk.letters and pace is not None:
            await pace(tally.total)


def _of_another_run(topic: str, error: BrokerError) -> ClientError:
    """What the error says if a later run is its reason: it has taken over the transactional id."""
    if error.code not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE):
        return error
    return ClientError(
        f"another run sends back letters of {topic} since, or a transaction took too long: this one ends; letters are"
        f" sent once all the same ({error})"
    )


class _Chunks:
    """The chosen letters, read and encoded. What one `next` returns says of `letters.done` what it was then."""

    def __init__(self, letters: Letters, judge: "_Judge", records_max: int) -> None:
        self._letters = letters
        self._judge = judge
        self._records_max = records_max
        self._batches = letters.left(min(records_max, POLL_RECORDS))
        self._rest: list[ConsumerRecord] = []
        self._before = {place: letters.position(place) for place in letters.ends}
        """The first offset of each partition that was not looked at."""
        self._number = 0

    async def next(self) -> tuple[Chunk, Tally] | ClientError:
        """The next chunk and its counts. It has no letters if there are no more.

        An error is returned: what was collected before it must be sent all the same, or no run would get beyond it.
        """
        chunk, tally = Chunk(self._number), Tally()
        self._number += 1
        try:
            while chunk.letters < self._records_max and not self._judge.is_full:
                records = self._rest or await anext(self._batches, [])
                if not records:
                    break
                room = self._records_max - chunk.letters
                records, self._rest = records[:room], records[room:]
                chosen = await self._judge.chosen(records, tally)
                self._add(chunk, records, chosen)
                if chunk.size_bytes > CHUNK_BYTES:
                    break
            chunk.close()
        except ClientError as error:
            return error
        return chunk, tally

    def _add(
        self, chunk: Chunk, records: list[ConsumerRecord], chosen: list[tuple[int, ConsumerRecord, Destination]]
    ) -> None:
        """Add what was chosen of the records to the chunk, and mark it as done."""
        places: dict[int, TopicPartition] = {}
        wanted = {index for index, _, _ in chosen}
        ranges: dict[int, tuple[int, int]] = {}
        """By partition the range of chosen letters that goes on."""
        for index, record in enumerate(records):
            number, offset = record.partition, record.offset
            place = places.get(number)
            if place is None:
                place = places[number] = record.topic_partition
            if index in wanted:
                begun = ranges.get(number)
                ranges[number] = (self._before[place] if begun is None else begun[0], offset + 1)
            elif number in ranges:
                self._letters.done[place].add(*ranges.pop(number))
            self._before[place] = offset + 1
        touched = {record.partition for _, record, _ in chosen}
        for number, begun in ranges.items():
            self._letters.done[places[number]].add(*begun)
        for number in touched:
            place = places[number]
            chunk.ledger[self._letters.keys[place]] = self._letters.done[place].encode()
            chunk.positions[place] = self._letters.position(place)
        for _, record, destination in chosen:
            chunk.add(record, destination, self._judge.partitions[destination.topic])


class _Judge:
    """Decides on letters, at most `count` of which are chosen."""

    def __init__(self, cluster: Cluster, letters: Letters, wanted: Filter, rules: Rules, count: int | None) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._rules = rules
        self._left = count
        self._asked: set[str] = set()
        self._done = {place.partition: done for place, done in letters.done.items()}
        self.partitions: dict[str, int] = {}
        """How many the topics have that exist."""

    @property
    def is_full(self) -> bool:
        """Whether no more letters are chosen."""
        return self._left == 0

    async def chosen(
        self, records: list[ConsumerRecord], tally: Tally
    ) -> list[tuple[int, ConsumerRecord, Destination]]:
        """The chosen letters and where they go, with their indexes in `records`."""
        found = [letter_of(record.headers) for record in records]
        if self._rules.into is not None:
            await self._look_for({self._rules.into})
        else:
            await self._look_for({letter.topic for letter in found if letter.topic is not None})
        chosen: list[tuple[int, ConsumerRecord, Destination]] = []
        for index, (record, letter) in enumerate(zip(records, found, strict=True)):
            if self._left is not None and len(chosen) == self._left:
                break
            destination = self._decide(record, letter, tally)
            if destination is not None:
                chosen.append((index, record, destination))
        if self._left is not None:
            self._left -= len(chosen)
        return chosen

    def _decide(self, record: ConsumerRecord, letter: Letter, tally: Tally) -> Destination | None:
        if not self._wanted.takes(record, letter):
            tally.not_meant += 1
            return None
        if record.offset in self._done[record.partition]:
            tally.done_before += 1
            return None
        decided = decide(record, letter, self._rules, self.partitions)
        if isinstance(decided, Refusal):
            tally.refuse(record, decided)
            return None
        tally.sent[decided.topic, letter.step or ""] += 1
        return decided

    async def _look_for(self, topics: set[str]) -> None:
        for topic in topics - self._asked:
            self._asked.add(topic)
            count = await _partition_count(self._cluster, topic)
            if count is not None:
                self.partitions[topic] = count


async def _partition_count(cluster: Cluster, topic: str) -> int | None:
    """How many partitions a topic has; None when there is none, or it may not be seen.

    A letter's headers create no topic, and one that names a strange topic does not hold up the others.
    """
    try:
        [found] = await Admin(cluster).describe_topics([topic])
    except (TopicNotFoundError, InvalidOptionError):  # or no topic can have the name
        return None
    except BrokerError as error:
        if error.code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            return None
        raise
    return len(found.partitions)


async def _make_ledger(cluster: Cluster) -> None:
    """Make the topic unless it is there, which needs the right to do so only once."""
    admin = Admin(cluster)
    try:
        await admin.describe_topics([TOPIC])
    except TopicNotFoundError:
        try:
            await admin.create_topic(NewTopic(TOPIC, partitions=1, configs=TOPIC_CONFIGS))
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
