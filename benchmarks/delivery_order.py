"""A share group with order by key beside one without: records a second, fetched and accepted over the wire.

    python -m benchmarks.delivery_order [--records 500000]

Records of 100 bytes in one partition, with keys drawn at random of many or few. Four members on connections of their
own take up to 500 records each in turn; a fetch accepts what the one before it got. Each row is a topic that two groups
read one after the other. Client and broker share the machine; the CPU seconds are the broker's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.delays import cpu_of, create
from ottla.cli.main import run as run_command
from tests.broker_process import BrokerProcess
from tests.system.share_member import ShareMember

MEMBERS, FETCHED = 4, 500
ACCEPT = 1
VALUE = b"x" * 100


def produce(broker: BrokerProcess, topic: str, records: int, keys: int) -> None:
    """Records with random keys."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 2_000_000})
    chance = random.Random(7)
    for number in range(records):
        producer.produce(topic, VALUE, key=f"key-{chance.randrange(keys)}")
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def rate_of(broker: BrokerProcess, topic: str, records: int, order: str) -> tuple[float, float]:
    """Records a second, and records a CPU second of the broker."""
    group = f"{topic}-{order}"
    settings = ["share.auto.offset.reset=earliest", f"ottla.delivery.order={order}"]
    with contextlib.redirect_stdout(io.StringIO()):
        run_command(["config", "set", "--bootstrap", broker.bootstrap, "--group", group, *settings])
    members = [ShareMember(broker.port, group, topic).join(1) for _ in range(MEMBERS)]
    held: list[list[tuple[int, int, int]]] = [[] for _ in members]
    cpu, begun, done = cpu_of(broker), time.monotonic(), 0
    while done < records:
        for number, member in enumerate(members):
            runs = member.fetch(max_wait_ms=0, max_records=FETCHED, settles={0: held[number]}).get(0, [])
            held[number] = [(first, last, ACCEPT) for first, last, _ in runs]
            done += sum(last - first + 1 for first, last, _ in runs)
    return records / (time.monotonic() - begun), records / (cpu_of(broker) - cpu)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=500_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data").start()
        try:
            for keys in (1_000_000, 100_000, 10_000, 1_000):
                topic = f"keys-{keys}"
                create(broker, topic)
                produce(broker, topic, records, keys)
                (rate, by_cpu), (in_order, in_order_by_cpu) = (
                    rate_of(broker, topic, records, order) for order in ("none", "key")
                )
                print(
                    f"{keys:9,} keys: {rate:9,.0f} records/s ({by_cpu:9,.0f} a CPU second), in order {in_order:9,.0f} "
                    f"({in_order_by_cpu:9,.0f}): {in_order / rate:.2f} ({in_order_by_cpu / by_cpu:.2f})"
                )
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
