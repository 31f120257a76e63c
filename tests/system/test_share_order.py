"""Order by key and priorities on a running broker: share groups over the wire, many workers, and channels of NSQ."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from uuid import uuid4

import pytest

from ottla.client import AcknowledgementMode, AcknowledgeType, ShareConsumerOptions, SyncProducer, SyncShareConsumer
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.nsq_client import NsqClient
from tests.system.share_member import ShareMember
from tests.system.test_group_letters import command
from tests.system.test_nsq import address

ACCEPT, RELEASE = 1, 2


@pytest.fixture
def name() -> str:
    return f"order-{uuid4().hex[:8]}"


def prepare(broker: BrokerProcess, name: str, *settings: str) -> None:
    at = ["--bootstrap", broker.bootstrap]
    command("topic", "create", *at, name)
    settings = ("share.auto.offset.reset=earliest", *(settings or ("ottla.delivery.order=key",)))
    command("config", "set", *at, "--group", name, *settings)


def fetched(member: ShareMember, **how: int) -> dict[int, list[tuple[int, int, int]]]:
    """What a member gets once there is something; a leader that loads its state refuses until then."""
    return wait_until(lambda: member.fetch(max_wait_ms=1_000, **how), "records", 60)


def produce(broker: BrokerProcess, topic: str, *records: str) -> None:
    """Values, of which the first letter is the key."""
    with SyncProducer(broker.bootstrap) as producer:
        for value in records:
            producer.send(topic, value.encode(), key=value[:1].encode())


def test_the_next_of_a_key_comes_to_anybody_when_the_one_before_is_done(
    new_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = new_broker().start()
    prepare(broker, name)
    produce(broker, name, "a1", "a2", "b1", "a3", "b2")
    one, other = (ShareMember(broker.port, name, name).join(1) for _ in range(2))
    assert fetched(one) == {0: [(0, 0, 1), (2, 2, 1)]}
    assert other.fetch(max_wait_ms=0) == {}
    waits = other.begin_fetch()
    assert one.settle((0, 0, ACCEPT)) == 0
    assert waits() == {0: [(1, 1, 1)]}
    assert one.settle((2, 2, RELEASE)) == 0
    assert fetched(one) == {0: [(2, 2, 2)]}
    broker.kill()
    broker.start()
    one, other = (ShareMember(broker.port, name, name).join(1) for _ in range(2))
    assert fetched(one) == {0: [(1, 1, 1), (2, 2, 2)]}, "both were held, and the rest waits for them"
    assert other.fetch(max_wait_ms=0) == {}
    assert one.settle((1, 2, ACCEPT)) == 0
    assert fetched(other) == {0: [(3, 4, 1)]}


def test_many_workers_never_have_two_records_of_a_key_at_once_and_do_them_in_order(
    broker: BrokerProcess, name: str
) -> None:
    """One key is poisoned: its first record is given back until it is archived."""
    prepare(
        broker,
        name,
        "ottla.delivery.order=key",
        "share.delivery.count.limit=3",
        "ottla.delivery.ahead.max=150",
        "share.record.lock.duration.ms=60000",
    )
    keys = [f"{key}{index:02}" for index in range(25) for key in "abcdefgh"]
    produce(broker, name, *keys)
    lock = threading.Lock()
    held: dict[str, str] = {}
    tries: list[str] = []
    done: dict[str, list[str]] = defaultdict(list)
    wrong: list[str] = []
    until = time.monotonic() + 240

    def work() -> None:
        options = ShareConsumerOptions(name, acknowledgement_mode=AcknowledgementMode.EXPLICIT)
        with SyncShareConsumer(broker.bootstrap, options) as consumer:
            consumer.subscribe([name])
            while sum(map(len, done.values())) < len(keys) - 1 and time.monotonic() < until and not wrong:
                records = consumer.poll(timeout_ms=200)
                values = [(record.value or b"").decode() for record in records]
                with lock:
                    for value in values:
                        if value[0] in held:
                            wrong.append(f"{value} came while {held[value[0]]} was held")
                        held[value[0]] = value
                    for value in values:  # what is acknowledged comes to others from then on
                        del held[value[0]]
                        tries.append(value)
                        if value != "c00":
                            done[value[0]].append(value)
                for record, value in zip(records, values, strict=True):
                    kind = AcknowledgeType.RELEASE if value == "c00" else AcknowledgeType.ACCEPT
                    consumer.acknowledge(record, kind)
                consumer.commit()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert wrong == []
    assert done == {key: [each for each in keys if each[0] == key and each != "c00"] for key in "abcdefgh"}
    assert tries.count("c00") == 3


def test_a_channel_of_nsq_is_given_one_message_of_a_key_at_a_time(
    new_broker: Callable[..., BrokerProcess], name: str
) -> None:
    broker = new_broker(nsq_listener="127.0.0.1:0").start()
    prepare(broker, name)
    produce(broker, name, "a1", "a2", "b1")
    reader = NsqClient(address(broker)).subscribe(name, name, 5)
    first, second = reader.message(), reader.message()
    assert [first.body, second.body] == [b"a1", b"b1"]
    reader.send(b"REQ " + first.message_id + b" 0")
    again = reader.message()
    assert [again.body, again.attempts] == [b"a1", 2]
    reader.send(b"FIN " + again.message_id)
    assert reader.message().body == b"a2"


def produce_with_priorities(broker: BrokerProcess, topic: str, *records: tuple[str, str]) -> None:
    with SyncProducer(broker.bootstrap) as producer:
        for value, priority in records:
            producer.send(topic, value.encode(), headers=[("ottla-priority", priority.encode())])


def test_urgent_records_come_first_and_the_others_get_their_share(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name, "ottla.delivery.priority.weights=1,3")
    produce_with_priorities(broker, name, *((f"slow{number}", "0") for number in range(4)))
    produce_with_priorities(broker, name, *((f"fast{number}", "9") for number in range(8)))
    member = ShareMember(broker.port, name, name).join(1)
    found = []
    for _ in range(8):
        [(offset, last, deliveries)] = wait_until(
            lambda: member.fetch(max_wait_ms=1_000, max_records=1, mode=1), "a record", 60
        )[0]
        assert (offset, deliveries) == (last, 1)
        assert member.settle((offset, offset, ACCEPT)) == 0
        found.append(b"slow%d" % offset if offset < 4 else b"fast%d" % (offset - 4))
    kinds = [each[:4] for each in found]
    assert kinds[0] == b"fast"
    assert (kinds.count(b"fast"), kinds.count(b"slow")) == (6, 2)
    with SyncShareConsumer(broker.bootstrap, ShareConsumerOptions(name)) as consumer:
        consumer.subscribe([name])
        until = time.monotonic() + 60
        while len(found) < 12 and time.monotonic() < until:
            found += [record.value or b"" for record in consumer.poll(timeout_ms=500)]
        consumer.commit()
    assert sorted(found) == [
        b"%s%d" % (kind, number) for kind, count in ((b"fast", 8), (b"slow", 4)) for number in range(count)
    ]


def test_a_channel_of_nsq_gets_what_is_urgent_first(new_broker: Callable[..., BrokerProcess], name: str) -> None:
    broker = new_broker(nsq_listener="127.0.0.1:0").start()
    prepare(broker, name, "ottla.delivery.priority.weights=1,100")
    produce_with_priorities(broker, name, ("slow", "0"), ("soon", "1"), ("none", "x"), ("urgent", "7"))
    reader = NsqClient(address(broker)).subscribe(name, name, 1)
    found = []
    for _ in range(4):
        message = reader.message()
        found.append(message.body)
        reader.send(b"FIN " + message.message_id)
    assert found == [b"soon", b"urgent", b"slow", b"none"]
