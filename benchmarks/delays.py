"""Delay topics: how late records come, what a million that wait take, and how fast dead letters are sent back.

    python -m benchmarks.delays [--rate 10000] [--seconds 10] [--waiting 1000000] [--letters 500000]
                                [--far 0] [--written 60000]

The lateness of a record is the time at which the target's log took it less the time at which it was due. Clients and
broker share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker import cpu_seconds, pss_mb
from ottla.cli.main import run as run_command
from ottla.client import ClientOptions, ProducerOptions
from ottla.client import Producer as OttlaProducer
from ottla.client.producing.delivery import Delivery
from ottla.native import build_batch
from ottla.runtime import garbage
from tests.broker_process import BrokerProcess

VALUE = b"x" * 100
PRODUCER = {"enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 2_000_000}


def create(broker: BrokerProcess, name: str, **config: str) -> None:
    """A topic of one partition."""
    given = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, config=given)])[name].result(30)


def produce(broker: BrokerProcess, topic: str, due: list[int]) -> None:
    """A record for each time."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **PRODUCER})
    for number, at in enumerate(due):
        producer.produce(topic, VALUE, key=str(at).encode(), headers=[("ottla-deliver-at", str(at).encode())])
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def lateness(broker: BrokerProcess, topic: str, count: int) -> list[int]:
    """Of so many records, in ms, sorted."""
    given = {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "isolation.level": "read_committed"}
    consumer = Consumer(given)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    end = time.monotonic() + 300
    while len(found) < count and time.monotonic() < end:
        messages = consumer.consume(10_000, 1)
        found += [each.timestamp()[1] - int(each.key()) for each in messages if each.error() is None]
    consumer.close()
    assert len(found) == count, f"{count - len(found)} records did not come"
    return sorted(found)


def cpu_of(broker: BrokerProcess) -> float:
    """User and system seconds of the broker so far."""
    assert broker.process is not None
    return sum(cpu_seconds(broker.process.pid))


def memory_of(broker: BrokerProcess) -> float:
    """Its memory in MB."""
    assert broker.process is not None
    return pss_mb(broker.process.pid)


def measure_lateness(broker: BrokerProcess, rate: int, seconds: int) -> dict[str, float]:
    """Records at random times of some seconds, all written before the first is due."""
    create(broker, "due", message_timestamp_type="LogAppendTime")
    create(broker, "due.later", ottla_deliver_to="due")
    count = rate * seconds
    begin_ms = int(time.time() * 1_000) + 5_000 + count // 20
    chance = random.Random(1)
    produce(broker, "due.later", [begin_ms + chance.randrange(seconds * 1_000) for _ in range(count)])
    assert time.time() * 1_000 < begin_ms, "the records were due before they were written: take a lower rate"
    time.sleep(max(0.0, begin_ms / 1_000 - time.time()))
    before = cpu_of(broker)
    late = lateness(broker, "due", count)
    return {
        "due a second": rate,
        "p50 ms": late[count // 2],
        "p99 ms": late[count * 99 // 100],
        "most ms": late[-1],
        "least ms": late[0],
        "broker CPU s a second": round((cpu_of(broker) - before) / seconds, 2),
    }


def measure_waiting(broker: BrokerProcess, count: int) -> dict[str, float]:
    """Records that wait, and a kill -9."""
    create(broker, "far", message_timestamp_type="LogAppendTime")
    create(broker, "far.later", ottla_deliver_to="far")
    before = memory_of(broker)
    hour_ms = int(time.time() * 1_000) + 3_600_000
    produce(broker, "far.later", [hour_ms + number * 7_919 % 3_600_000 for number in range(count)])
    probe_at = int(time.time() * 1_000) + 1_000
    produce(broker, "far.later", [probe_at])
    lateness(broker, "far", 1)
    waiting = memory_of(broker)
    broker.kill()
    killed = time.monotonic()
    broker.start()
    ready = time.monotonic()
    produce(broker, "far.later", [int(time.time() * 1_000)])
    lateness(broker, "far", 2)
    return {
        "waiting": count,
        "memory MB more": round(waiting - before),
        "bytes a record": round((waiting - before) * 1_048_576 / count),
        "ready after kill -9 s": round(ready - killed, 2),
        "first delivery after s": round(time.monotonic() - killed, 2),
    }


def measure_far(broker: BrokerProcess, count: int, rate: int, seconds: int, written: int) -> dict[str, float]:
    """Many records in bucket files, of which some are due one after the other: each from another place in the log."""
    create(broker, "wide", message_timestamp_type="LogAppendTime")
    create(broker, "wide.later", ottla_deliver_to="wide")
    memory, cpu, begun = memory_of(broker), cpu_of(broker), time.monotonic()
    begin_ms = int(time.time() * 1_000) + 30_000 + count * 1_000 // written
    asyncio.run(fill(broker, count, begin_ms, rate * seconds, seconds))
    filled = time.monotonic() - begun
    assert time.time() * 1_000 < begin_ms - 25_000, "the records were due before they were written"
    fill_rate = {"records written a second": round(count / filled), "memory MB more": round(memory_of(broker) - memory)}
    fill_cpu = cpu_of(broker) - cpu
    time.sleep(5)
    cpu = cpu_of(broker)
    time.sleep(15)
    waits = round((cpu_of(broker) - cpu) / 15, 3)
    time.sleep(max(0.0, begin_ms / 1_000 - time.time()))
    cpu = cpu_of(broker)
    late = lateness(broker, "wide", rate * seconds)
    moving = round((cpu_of(broker) - cpu) / seconds, 2)
    most = round(memory_of(broker) - memory)
    data = Path(broker.data_dir)
    sizes = {
        name: sum(each.stat().st_size for each in data.glob(f"wide.later-0/{name}")) for name in ("*.log", "delays/*")
    }
    broker.kill()
    killed = time.monotonic()
    broker.start()
    ready = time.monotonic()
    produce(broker, "wide.later", [int(time.time() * 1_000)])
    lateness(broker, "wide", rate * seconds + 1)
    return {
        "far": count,
        **fill_rate,
        "broker CPU s while they were written": round(fill_cpu, 1),
        "broker CPU s a second, waiting": waits,
        "due a second": rate,
        "p50 ms": late[len(late) // 2],
        "p99 ms": late[len(late) * 99 // 100],
        "most ms": late[-1],
        "least ms": late[0],
        "broker CPU s a second, moving": moving,
        "memory MB more, moving": most,
        "log MB": sizes["*.log"] >> 20,
        "bucket files MB": sizes["delays/*"] >> 20,
        "ready after kill -9 s": round(ready - killed, 2),
        "first delivery after s": round(time.monotonic() - killed, 2),
    }


async def fill(broker: BrokerProcess, count: int, begin_ms: int, due_count: int, seconds: int) -> None:
    """`due_count` records among others are due in the seconds from `begin_ms` on, the others after an hour."""
    options = ClientOptions.of(broker.bootstrap)
    every, chance = count // due_count, random.Random(1)
    async with OttlaProducer(options, ProducerOptions(linger_ms=0)) as producer:
        sent: list[Delivery] = []
        for first in range(0, count, 2_000):
            records = []
            for number in range(first, min(first + 2_000, count)):
                after_ms = chance.random() * (seconds * 1_000 if number % every == 0 else 3_600_000)
                at = begin_ms + int(after_ms) + (0 if number % every == 0 else 3_600_000)
                text = b"%d" % at
                records.append((begin_ms, text, VALUE, [("ottla-deliver-at", text)]))
            sent.append(await producer.send_encoded("wide.later", 0, build_batch(records), len(records)))
            if len(sent) > 8:
                await sent.pop(0)
        for delivery in sent:
            await delivery


def measure_redrive(broker: BrokerProcess, count: int) -> dict[str, float]:
    """Letters sent back."""
    create(broker, "jobs")
    create(broker, "dlq.jobs")
    producer = Producer({"bootstrap.servers": broker.bootstrap, **PRODUCER})
    said = {"topic": b"jobs", "partition": b"0", "group": b"workers", "message": b"Offset rejected by client."}
    for number in range(count):
        headers = [(f"__dlq.errors.{name}", value) for name, value in said.items()]
        producer.produce("dlq.jobs", VALUE, headers=[*headers, ("__dlq.errors.offset", str(number).encode())])
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0
    garbage.look_less_often()  # as the command does
    before, client_before = cpu_of(broker), time.process_time()
    begun = time.monotonic()
    assert run_command(["dlq", "redrive", "--bootstrap", broker.bootstrap, "dlq.jobs", "--execute"]) == 0
    took = time.monotonic() - begun
    return {
        "letters": count,
        "sent back a second": round(count / took),
        "client CPU us a letter": round((time.process_time() - client_before) / count * 1e6, 1),
        "broker CPU us a letter": round((cpu_of(broker) - before) / count * 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delays", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--letters", type=int, default=500_000)
    parser.add_argument("--far", type=int, default=0)
    parser.add_argument("--written", type=int, default=60_000, help="records a second that the far ones need at least")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data").start()
        try:
            if given.rate:
                print(json.dumps(measure_lateness(broker, given.rate, given.seconds)))
            if given.waiting:
                print(json.dumps(measure_waiting(broker, given.waiting)))
            if given.far:
                print(json.dumps(measure_far(broker, given.far, 10_000, given.seconds, given.written)))
            if given.letters:
                print(json.dumps(measure_redrive(broker, given.letters)))
            print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0]}))
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
