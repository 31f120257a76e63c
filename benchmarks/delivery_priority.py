"""Priorities and time to live of share groups beside a group without: records a second over the wire, and who waits.

    python -m benchmarks.delivery_priority [--records 300000]

Records of 100 bytes in one partition. Four members on connections of their own take up to 100 records each in turn; a
fetch accepts what the one before it got. Priorities are drawn at random: 5 % are 2, 15 % are 1, the others 0, with the
weights 1, 4 and 16. `waited` is the most records of other priorities between two of priority 0, in the first half.

For time to live, half of the records say in a header that they are too old: the older half, or each second one. Client
and broker share the machine; the CPU seconds are the broker's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from benchmarks.delays import cpu_of, create
from ottla.cli.main import run as run_command
from tests.broker_process import BrokerProcess
from tests.system.share_member import ShareMember

MEMBERS, FETCHED = 4, 100
ACCEPT = 1
VALUE = b"x" * 100
WEIGHTS = (1, 4, 16)
SHARES = (80, 15, 5)
"""Percent of the records that have each priority."""


class Delivered(NamedTuple):
    """One group's reading of a topic."""

    rate: float
    by_cpu: float
    offsets: list[int]
    """In the order of delivery."""

    @property
    def text(self) -> str:
        return f"{self.rate:9,.0f} records/s ({self.by_cpu:9,.0f} a CPU second)"


def produce(broker: BrokerProcess, topic: str, headers: list[list[tuple[str, bytes]]]) -> None:
    """A record for each list of headers, with a timestamp an hour ago."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 2_000_000})
    hour_ago = int(time.time() * 1_000) - 3_600_000
    for number, each in enumerate(headers):
        producer.produce(topic, VALUE, headers=each, timestamp=hour_ago)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def deliver(broker: BrokerProcess, topic: str, group: str, records: int, *settings: str) -> Delivered:
    """Have a new group read so many records of a topic."""
    with contextlib.redirect_stdout(io.StringIO()):
        given = ["share.auto.offset.reset=earliest", *settings]
        run_command(["config", "set", "--bootstrap", broker.bootstrap, "--group", group, *given])
    members = [ShareMember(broker.port, group, topic).join(1) for _ in range(MEMBERS)]
    held: list[list[tuple[int, int, int]]] = [[] for _ in members]
    offsets: list[int] = []
    cpu, begun = cpu_of(broker), time.monotonic()
    while len(offsets) < records:
        for number, member in enumerate(members):
            runs = member.fetch(max_wait_ms=0, max_records=FETCHED, settles={0: held[number]}).get(0, [])
            held[number] = [(first, last, ACCEPT) for first, last, _ in runs]
            for first, last, _ in runs:
                offsets.extend(range(first, last + 1))
    return Delivered(records / (time.monotonic() - begun), records / (cpu_of(broker) - cpu), offsets)


def longest_wait(order: list[int]) -> int:
    """The most records between two of priority 0."""
    longest = waiting = 0
    for priority in order:
        waiting = 0 if priority == 0 else waiting + 1
        longest = max(longest, waiting)
    return longest


def measure_priorities(broker: BrokerProcess, records: int) -> None:
    """With priorities and without."""
    create(broker, "urgent")
    priorities = random.Random(7).choices(range(len(WEIGHTS)), SHARES, k=records)
    produce(broker, "urgent", [[("ottla-priority", b"%d" % each)] for each in priorities])
    plain = deliver(broker, "urgent", "plain", records)
    weights = ",".join(map(str, WEIGHTS))
    weighted = deliver(broker, "urgent", "weighted", records, f"ottla.delivery.priority.weights={weights}")
    order = [priorities[offset] for offset in weighted.offsets]
    assert sorted(weighted.offsets) == list(range(records)), "each record once"
    bound = sum(WEIGHTS[1:]) * FETCHED + (len(WEIGHTS) - 1) * FETCHED
    waited = longest_wait(order[: records // 2])
    print(f"no priorities    {plain.text}")
    print(f"weights {weights}   {weighted.text}: {weighted.rate / plain.rate:.2f}, waited {waited}, at most {bound}")
    for each in range(len(WEIGHTS)):
        ahead = [offset - at for at, offset in enumerate(weighted.offsets) if priorities[offset] == each]
        print(f"priority {each}: by {statistics.median(ahead):,.0f} records before its turn (median)")


def measure_time_to_live(broker: BrokerProcess, records: int) -> None:
    """With headers that are read, and without."""
    for topic, settings in (("plain", {}), ("lives", {"ottla_ttl_header": "true"})):
        create(broker, topic, **settings)
        produce(broker, topic, [[("ottla-ttl", b"7200000")]] * records)
    plain, lives = (deliver(broker, topic, topic, records) for topic in ("plain", "lives"))
    print(f"no time to live  {plain.text}")
    print(f"none too old     {lives.text}: {lives.rate / plain.rate:.2f}")
    for topic, what in (("first", "first half old  "), ("second", "each second old ")):
        create(broker, topic, ottla_ttl_header="true")
        is_old = [(number < records // 2) if topic == "first" else number % 2 == 0 for number in range(records)]
        produce(broker, topic, [[("ottla-ttl", b"1" if each else b"7200000")] for each in is_old])
        half = deliver(broker, topic, topic, records // 2)
        assert not any(is_old[offset] for offset in half.offsets), "what is too old is not delivered"
        print(f"{what} {half.text}: {half.rate / plain.rate:.2f}, of those delivered")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=300_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory) / "data").start()
        try:
            measure_priorities(broker, records)
            measure_time_to_live(broker, records)
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
