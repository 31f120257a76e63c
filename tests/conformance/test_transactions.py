"""Transactions of client libraries: what is committed is read by those who want committed records, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.structs import OffsetAndMetadata

from ottla.client.errors import ClientError
from ottla.client.options import ClientOptions
from ottla.client.producing.producer import Producer as OttlaProducer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S
from tests.conformance.clients.peer_programs import FranzGoClient
from tests.conformance.clients.program import encoded
from tests.conformance.needed_peers import needed_peer
from tests.conformance.topics import new_topic
from tests.hostile.raw_peer import RawPeer

PARTITIONS = 3


def new_id() -> str:
    return f"transactional-{uuid4().hex[:8]}"


def confluent_producer(broker: BrokerProcess, transactional_id: str, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def read_committed(broker: BrokerProcess, topic: str) -> list[bytes]:
    """Every committed record of a topic by confluent-kafka, once all its transactions are ended.

    A commit is answered when it is decided; its markers, and with them the records, may come a moment later.
    """
    return shown(broker, topic, ends(broker, topic))


def ends(broker: BrokerProcess, topic: str) -> list[int]:
    """The end of each partition, behind transactions that are open as well."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "n", "isolation.level": "read_uncommitted"})
    count = len(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
    found = [consumer.get_watermark_offsets(TopicPartition(topic, each), PATIENCE_S)[1] for each in range(count)]
    consumer.close()
    return found


def shown(broker: BrokerProcess, topic: str, at_least: Sequence[int], isolation: str = "read_committed") -> list[bytes]:
    """Every record of a topic that confluent-kafka shows, up to the ends of its partitions, `at_least` these."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": uuid4().hex,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(len(at_least))])
    values: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < len(at_least):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "the end of a partition was not told"
        if message.error() is None:
            value = message.value()
            assert value is not None
            values.append(value)
        elif message.offset() >= at_least[message.partition()]:
            ended.add(message.partition())
    consumer.close()
    return sorted(values)


def read_by_kafka_python(broker: BrokerProcess, topic: str) -> list[bytes]:
    """The same by kafka-python."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    partitions = [PythonTopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    values: list[bytes] = []
    while any(consumer.position(each) < ends[each] for each in partitions):
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value for record in records]
    consumer.close()
    return sorted(values)


class ConfluentTransactions:
    """Transactions by confluent-kafka."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        self.producer = confluent_producer(broker, transactional_id)

    def run(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        self.producer.begin_transaction()
        for number, value in enumerate(values):
            self.producer.produce(topic, value, partition=number % PARTITIONS)
        self.producer.flush(PATIENCE_S)
        if commit:
            self.producer.commit_transaction(PATIENCE_S)
        else:
            self.producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self.producer.flush(PATIENCE_S)


class PythonTransactions:
    """Transactions by kafka-python."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        self.producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)
        self.producer.init_transactions()

    def run(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        self.producer.begin_transaction()
        for number, value in enumerate(values):
            self.producer.send(topic, value, partition=number % PARTITIONS)
        self.producer.flush()
        if commit:
            self.producer.commit_transaction()
        else:
            self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close()


class AioTransactions:
    """Transactions by aiokafka."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        self.loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)
            await producer.start()
            return producer

        self.producer = self.loop.run_until_complete(start())

    def run(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        async def transaction() -> None:
            await self.producer.begin_transaction()
            for number, value in enumerate(values):
                await self.producer.send_and_wait(topic, value, partition=number % PARTITIONS)
            if commit:
                await self.producer.commit_transaction()
            else:
                await self.producer.abort_transaction()

        self.loop.run_until_complete(transaction())

    def close(self) -> None:
        self.loop.run_until_complete(self.producer.stop())
        self.loop.close()


class OttlaTransactions:
    """Transactions by the client of this package."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        self.loop = asyncio.new_event_loop()

        async def start() -> OttlaProducer:
            options = ProducerOptions(transactional_id=transactional_id)
            producer = OttlaProducer(ClientOptions.of(broker.bootstrap), options)
            await producer.start()
            await producer.init_transactions()
            return producer

        self.producer = self.loop.run_until_complete(start())

    def run(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        async def transaction() -> None:
            self.producer.begin_transaction()
            for number, value in enumerate(values):
                await self.producer.send(topic, value, partition=number % PARTITIONS)
            await self.producer.flush()
            if commit:
                await self.producer.commit_transaction()
            else:
                await self.producer.abort_transaction()

        self.loop.run_until_complete(transaction())

    def close(self) -> None:
        self.loop.run_until_complete(self.producer.close())
        self.loop.close()


class GoTransactions:
    """Transactions by franz-go."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        with needed_peer():
            self.client = FranzGoClient(broker)
        self.client.program.call("transactional", handle=transactional_id, id=transactional_id)
        self.transactional_id = transactional_id

    def run(self, topic: str, values: list[bytes], *, commit: bool) -> None:
        records = [{"partition": number % PARTITIONS, "value": encoded(value)} for number, value in enumerate(values)]
        self.client.program.call(
            "transaction", handle=self.transactional_id, topic=topic, records=records, commit=commit
        )

    def close(self) -> None:
        self.client.close()


Transactions = ConfluentTransactions | PythonTransactions | AioTransactions | OttlaTransactions | GoTransactions
LIBRARIES: dict[str, Callable[[BrokerProcess, str], Transactions]] = {
    "confluent-kafka": ConfluentTransactions,
    "kafka-python": PythonTransactions,
    "aiokafka": AioTransactions,
    "Ottla client": OttlaTransactions,
    "franz-go": GoTransactions,
}
each_library = pytest.mark.parametrize(
    "library",
    [
        pytest.param(
            name,
            marks=[pytest.mark.proves(client=name), *([pytest.mark.peer] if name == "franz-go" else [])],
            id=name,
        )
        for name in LIBRARIES
    ],
)


@pytest.fixture
def transactions(group_broker: BrokerProcess, library: str) -> Iterator[Transactions]:
    opened = LIBRARIES[library](group_broker, new_id())
    yield opened
    opened.close()


@each_library
@pytest.mark.proves(feature="transactions")
def test_committed_transactions_are_read_and_aborted_ones_are_not(
    group_broker: BrokerProcess, transactions: Transactions
) -> None:
    topic = new_topic(group_broker, PARTITIONS)
    committed: list[bytes] = []
    aborted: list[bytes] = []
    for number in range(12):
        values = [f"{number}-{index}".encode() for index in range(7)]
        commit = number % 3 != 1
        transactions.run(topic, values, commit=commit)
        (committed if commit else aborted).extend(values)
    assert read_committed(group_broker, topic) == sorted(committed)
    assert read_by_kafka_python(group_broker, topic) == sorted(committed)
    everything = shown(group_broker, topic, ends(group_broker, topic), "read_uncommitted")
    assert set(committed) <= set(everything) <= set(committed + aborted)


@each_library
@pytest.mark.proves(feature="a producer is fenced off by the next of its id")
def test_a_second_producer_of_an_id_ends_what_the_first_had_open(group_broker: BrokerProcess, library: str) -> None:
    topic, transactional_id = new_topic(group_broker, PARTITIONS), new_id()
    first = confluent_producer(group_broker, transactional_id)
    first.begin_transaction()
    first.produce(topic, b"of the first", partition=0)
    first.flush(PATIENCE_S)
    second = LIBRARIES[library](group_broker, transactional_id)
    second.run(topic, [b"of the second"], commit=True)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(PATIENCE_S)
    assert refused.value.args[0].fatal()
    second.close()
    assert read_committed(group_broker, topic) == [b"of the second"]


def fill(broker: BrokerProcess, topic: str, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    values = [f"{number:04}".encode() for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    producer.flush(PATIENCE_S)
    return values


@pytest.mark.proves(client="confluent-kafka", feature="consume, transform and produce exactly once")
def test_a_copy_in_transactions_has_each_record_once_whatever_is_aborted(group_broker: BrokerProcess) -> None:
    source, target, group = new_topic(group_broker, PARTITIONS), new_topic(group_broker, PARTITIONS), uuid4().hex
    values = fill(group_broker, source, 200)
    transactional_id = new_id()
    copied = 0
    for attempt in range(40):
        producer = confluent_producer(group_broker, transactional_id)
        consumer = Consumer(
            {
                "bootstrap.servers": group_broker.bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([source])
        for batch in range(3):
            messages = consumer.consume(20, PATIENCE_S)
            producer.begin_transaction()
            for message in messages:
                assert message.error() is None
                producer.produce(target, message.value(), partition=message.partition())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
            )
            if batch == 2 and attempt % 2:
                producer.abort_transaction(PATIENCE_S)
                break
            producer.commit_transaction(PATIENCE_S)
            copied += len(messages)
            if copied >= len(values):
                break
        consumer.close()
        if copied >= len(values):
            break
    assert read_committed(group_broker, target) == sorted(values)


@pytest.mark.proves(client="kafka-python", feature="consume, transform and produce exactly once")
@pytest.mark.proves(client="aiokafka", feature="consume, transform and produce exactly once")
@pytest.mark.proves(client="Ottla client", feature="consume, transform and produce exactly once")
def test_offsets_of_a_transaction_hold_when_it_is_committed_and_not_before(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), uuid4().hex

    def committed_offset() -> int:
        admin = Consumer({"bootstrap.servers": group_broker.bootstrap, "group.id": group})
        [found] = admin.committed([TopicPartition(topic, 0)], PATIENCE_S)
        admin.close()
        return int(found.offset)

    python = KafkaProducer(bootstrap_servers=group_broker.bootstrap, transactional_id=new_id())
    python.init_transactions()
    for offset, commit in ((3, True), (9, False)):
        python.begin_transaction()
        python.send(topic, b"x", partition=0)
        offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        python.send_offsets_to_transaction(offsets, group)
        if commit:
            python.commit_transaction()
        else:
            python.abort_transaction()
    python.close()
    assert committed_offset() == 3

    async def by_aiokafka() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=group_broker.bootstrap, transactional_id=new_id())
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"x", partition=0)
            await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 5}, group)
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"x", partition=0)
                await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 12}, group)
                raise ZeroDivisionError
        await producer.stop()

    asyncio.run(by_aiokafka())
    assert committed_offset() == 5

    async def by_ottla() -> None:
        from ottla.model.topic_partition import TopicPartition as Partition

        options = ProducerOptions(transactional_id=new_id())
        async with OttlaProducer(ClientOptions.of(group_broker.bootstrap), options) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"x", partition=0)
                await producer.send_offsets_to_transaction({Partition(topic, 0): 7}, group)
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({Partition(topic, 0): 20}, group)
                    raise ZeroDivisionError

    asyncio.run(by_ottla())
    assert committed_offset() == 7


@pytest.mark.peer
@pytest.mark.proves(client="franz-go", feature="consume, transform and produce exactly once")
def test_a_copy_in_go_has_each_record_once_whatever_is_aborted(group_broker: BrokerProcess) -> None:
    source, target = new_topic(group_broker, PARTITIONS), new_topic(group_broker, PARTITIONS)
    values = fill(group_broker, source, 200)
    with needed_peer():
        client = FranzGoClient(group_broker)
    count = client.program.call("copy", topic=source, target=target, group=uuid4().hex, id=new_id(), count=len(values))
    client.close()
    assert count > len(values) // 20
    assert read_committed(group_broker, target) == sorted(values)


@pytest.mark.long
@pytest.mark.proves(client="Ottla client", feature="a producer that was too slow goes on")
def test_a_producer_whose_transaction_took_too_long_aborts_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with BrokerProcess(tmp_path_factory.mktemp("slow") / "data", settings) as broker:
        topic = new_topic(broker, PARTITIONS)
        asyncio.run(be_too_slow(broker, topic))
        assert read_committed(broker, topic) == [b"in time"]


async def be_too_slow(broker: BrokerProcess, topic: str) -> None:
    options = ProducerOptions(transactional_id="slow", transaction_timeout_ms=10_000)
    async with OttlaProducer(ClientOptions.of(broker.bootstrap), options) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"too late", partition=1)
        await asyncio.to_thread(until_aborted, broker, "slow")
        with pytest.raises(ClientError):
            await producer.send_and_wait(topic, b"refused", partition=1)
        await producer.abort_transaction()
        producer.begin_transaction()
        await producer.send(topic, b"in time", partition=1)
        await producer.commit_transaction()


def until_aborted(broker: BrokerProcess, transactional_id: str) -> None:
    """Wait until the coordinator has aborted what the id had open."""
    request, deadline = DescribeTransactionsRequest((transactional_id,)), time.monotonic() + PATIENCE_S
    with RawPeer(broker.port) as peer:
        while peer.ask(request, 0).transaction_states[0].transaction_state != "CompleteAbort":
            assert time.monotonic() < deadline, "the transaction goes on"
            time.sleep(0.05)


@pytest.mark.proves(client="confluent-kafka", feature="transactions are there after a kill -9")
def test_transactions_are_finished_after_a_kill(tmp_path_factory: pytest.TempPathFactory) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("killed") / "data") as broker:
        topic = new_topic(broker, PARTITIONS)
        settings = {"reconnect.backoff.max.ms": 100, "transaction.timeout.ms": 60_000}
        producer = confluent_producer(broker, "killed", **settings)
        producer.begin_transaction()
        producer.produce(topic, b"before", partition=0)
        producer.flush(PATIENCE_S)
        broker.kill()
        broker.start()
        producer.produce(topic, b"after", partition=1)
        producer.commit_transaction(PATIENCE_S)
        assert read_committed(broker, topic) == [b"after", b"before"]
        producer.begin_transaction()
        producer.produce(topic, b"void", partition=2)
        producer.flush(PATIENCE_S)
        broker.kill()
        broker.start()
        producer.abort_transaction(PATIENCE_S)
        assert read_committed(broker, topic) == [b"after", b"before"]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert topic in admin.list_topics(timeout=PATIENCE_S).topics


@pytest.mark.proves(client="confluent-kafka", feature="a copy in transactions under kill -9 of broker and copier")
def test_a_copy_is_exact_however_often_broker_and_copier_are_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with BrokerProcess(tmp_path_factory.mktemp("chain") / "data", settings) as broker:
        source, target = new_topic(broker, PARTITIONS), new_topic(broker, PARTITIONS)
        values = fill(broker, source, 300)
        command = [sys.executable, "-m", "tests.conformance.copier", broker.bootstrap, source, target]
        copied: list[bytes] = []
        for round_number in range(100):
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as copier:
                before = len(copied)
                deadline = time.monotonic() + PATIENCE_S
                while len(copied) < before + 60 and copier.poll() is None and time.monotonic() < deadline:
                    copied = shown(broker, target, [0] * PARTITIONS)
                if round_number % 2:
                    broker.kill()
                copier.kill()
            if round_number % 2:
                broker.start()
            copied = shown(broker, target, [0] * PARTITIONS)
            if len(copied) >= len(values):
                break
        assert copied == sorted(values)
