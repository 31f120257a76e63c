"""`ottla dlq` against a running broker; confluent-kafka makes the letters and reads what was sent back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.client.consuming.consumer
import ottla.client.producing.producer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.errors import ClientError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.headers import Letter, headers_of
from ottla.pipelines.dead_letters.redrive import Rules
from ottla.pipelines.dead_letters.redriving import Letters, producer_options, redrive
from tests.broker_process import BrokerProcess
from tests.committed_records import committed_records, wait_until_ended
from tests.waiting_lines import ended

OTTLA = [sys.executable, "-m", "ottla.cli", "dlq"]
DEADLINE_S = 300
LETTERS = 12
FEW, CHUNK = 4, 3
"""Letters, and letters of a transaction, where each step is tried."""
Seen = tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""Partition, key, value, time and headers of a record."""


class Place:
    """A topic of events and a topic of letters on the broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.bootstrap = broker.bootstrap
        tag = uuid4().hex[:8]
        self.events, self.dead = f"events-{tag}", f"dead-letters-{tag}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        for made in admin.create_topics([NewTopic(self.events, 4), NewTopic(self.dead, 2)]).values():
            made.result()

    def refuse(self, count: int = LETTERS, *, replays: int = 0, reason: str = "9999 is no delay") -> list[Seen]:
        """Letters, in a transaction as a pipeline writes them; the records as they must come back."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": f"t-{self.dead}", "log_level": 2})
        producer.init_transactions()
        producer.begin_transaction()
        back: list[Seen] = []
        for number in range(count):
            step = ("decoded", "sane")[number % 2]
            letter = Letter(
                self.events, number % 4, number, 1_000 + number, "flights", step, "delay", reason, 1, 0, replays
            )
            headers = [("trace", b"%d" % number), *headers_of(letter)]
            key, value = b"k%d" % number, b"\xff\x00%d" % number
            producer.produce(self.dead, value, key, number % 2, headers=headers)
            count_header = ("__ottla.errors.replays", b"%d" % (replays + 1))
            back.append((number % 4, key, value, 1_000 + number, (("trace", b"%d" % number), count_header)))
        producer.commit_transaction()
        wait_until_ended(self.bootstrap, f"t-{self.dead}")
        return back

    def read(self, topic: str) -> list[Seen]:
        """Everything that a reader of committed records sees."""
        return [
            (each.partition(), each.key(), each.value(), each.timestamp()[1], tuple(each.headers() or ()))
            for each in committed_records(self.bootstrap, topic)
        ]

    def events_read(self) -> list[Seen]:
        return sorted(self.read(self.events), key=lambda each: each[3])

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "OTTLA_BOOTSTRAP": self.bootstrap}
        done = subprocess.run(
            [*OTTLA, *arguments], capture_output=True, text=True, env=env, timeout=DEADLINE_S, check=False
        )
        assert "Traceback" not in done.stderr
        return ended(done)

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def place(broker: BrokerProcess) -> Place:
    return Place(broker)


def test_letters_are_listed_shown_sent_back_once_and_purged(place: Place):
    back = place.refuse()
    listed = json.loads(place.ok("list", place.dead, "--json"))
    assert [(each["step"], each["letters"], each["left"], each["reason"]) for each in listed] == [
        ("decoded", 6, 6, "9999 is no delay"),
        ("sane", 6, 6, "9999 is no delay"),
    ]
    assert "LEFT" in place.ok("list", place.dead)
    shown = place.ok("show", place.dead, "--step", "sane", "-n", "1")
    assert f"origin   {place.events}-1@1, 1970-01-01T00:00:01.001Z" in shown
    assert "refused by flights / sane" in shown
    assert "header   trace: 1" in shown
    assert "value    ff 00 31" in shown
    [letter] = json.loads(place.ok("show", place.dead, "--origin", f"{place.events}:3", "-n", "1", "--json"))
    assert (letter["letter"]["reason"], letter["sent_back"]) == ("9999 is no delay", False)

    assert "would send back 6 letters" in place.ok("redrive", place.dead, "--step", "sane")
    assert place.events_read() == []
    assert "sent back 6 letters" in place.ok("redrive", place.dead, "--step", "sane", "--execute")
    assert place.events_read() == [each for each in back if int(each[4][0][1] or 0) % 2]
    # Another filter sends what the first left, and nothing twice.
    again = json.loads(place.ok("redrive", place.dead, "--execute", "--json"))
    assert (again["sent"][0]["letters"], again["sent_before"]) == (6, 0)
    assert place.events_read() == back
    assert "sent back 0 letters" in place.ok("redrive", place.dead, "--execute")
    assert place.events_read() == back

    later = place.refuse(2)
    assert sum(each["left"] for each in json.loads(place.ok("list", place.dead, "--json"))) == 2
    assert "nothing was deleted" in place.ok("purge", place.dead, "--redriven")
    assert len(place.read(place.dead)) == LETTERS + 2
    place.ok("purge", place.dead, "--redriven", "--execute")
    assert [each[1] for each in sorted(place.read(place.dead))] == [b"k0", b"k1"]
    assert "sent back 2 letters" in place.ok("redrive", place.dead, "--execute")
    assert Counter(place.events_read()) == Counter(back + later)
    place.ok("purge", place.dead, "--all", "--execute")
    assert place.read(place.dead) == []


def test_an_expression_selects_what_is_listed_sent_back_and_deleted(place: Place):
    back = place.refuse()
    where = "step = 'sane' AND header('trace') IN ('1', '3') AND key LIKE 'k_'"
    [listed] = json.loads(place.ok("list", place.dead, "--where", where, "--json"))
    assert (listed["step"], listed["letters"]) == ("sane", 2)
    assert "would send back 2 letters" in place.ok("redrive", place.dead, "--where", where)
    assert "sent back 2 letters" in place.ok("redrive", place.dead, "--where", where, "--execute")
    assert place.events_read() == [back[1], back[3]]
    # Deleted is what lies before the first record that is another one.
    assert "deleted 4 offsets" in place.ok("purge", place.dead, "--where", "offset IN (0, 1, 2, 3, 6)", "--execute")
    assert "sent back 8 letters" in place.ok("redrive", place.dead, "--execute")


def test_a_huge_value_is_cut_for_people_and_whole_for_machines(place: Place):
    producer = Producer({"bootstrap.servers": place.bootstrap, "log_level": 2})
    producer.produce(place.dead, b"z" * 500_000, headers=headers_of(Letter(place.events, 0, 1, reason="large")))
    assert producer.flush(DEADLINE_S) == 0
    shown = place.ok("show", place.dead)
    assert "zzz... (500,000 bytes, all with --json)" in shown
    assert len(shown) < 10_000
    [letter] = json.loads(place.ok("show", place.dead, "--json"))
    assert letter["value"] == "z" * 500_000


def test_a_letter_that_was_sent_back_too_often_stays_and_is_named(place: Place):
    place.refuse(2, replays=3)
    done = place.run("redrive", place.dead, "--execute")
    assert done.returncode == 0
    assert "2 stay, sent back too often" in done.stderr
    assert "it was sent back 3 times and refused again; --max-replays is 3" in done.stderr
    assert place.events_read() == []
    assert "sent back 2 letters" in place.ok("redrive", place.dead, "--execute", "--max-replays", "4")


def test_letters_go_into_another_topic_and_none_is_created(place: Place):
    place.refuse(4)
    other = f"{place.events}-other"
    done = place.run("redrive", place.dead, "--into", other, "--execute")
    assert f"topic {other} does not exist" in done.stderr
    admin = AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 2})
    assert other not in admin.list_topics().topics
    admin.create_topics([NewTopic(other, 1)])[other].result()
    place.ok("redrive", place.dead, "--into", other, "--execute", "--rate", "1000", "--count", "3")
    assert len(place.read(other)) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["list", "none-such"], 4, "none-such"),
        (["redrive", "none-such", "--execute"], 4, "none-such"),
        (["show", "DEAD", "--reason", "["], 2, "not a regular expression"),
        (["show", "DEAD", "--offsets", "1-2"], 2, "PARTITION:FIRST"),
        (["show", "DEAD", "--where", "attempt = 3"], 2, "--where, character 1: attempt is no field"),
        (["purge", "DEAD"], 2, "give one of --redriven"),
        (["purge", "DEAD", "--before", "7:1"], 1, "has no partition 7; nothing was deleted"),
        (["purge", "DEAD", "--before", "0:999"], 1, "before 999; nothing was deleted"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(place: Place, arguments: list[str], code: int, message: str):
    done = place.run(*(place.dead if each == "DEAD" else each for each in arguments))
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr


class Killed(BaseException):
    """As if the process ended here: nothing that was begun is finished or undone."""


class Fragile(ottla.client.producing.producer.Producer):
    """A producer that ends before or after its n-th step."""

    steps = 0
    ends_at: int | None = None
    over = False

    async def _step(self, action: Callable[[], Awaitable[Any]]) -> Any:
        self._end_here()
        outcome = await action()
        self._end_here()
        return outcome

    def _end_here(self) -> None:
        self.steps += 1
        self.over = self.over or self.steps == self.ends_at
        if self.over:
            raise Killed

    async def init_transactions(self) -> None:
        await self._step(super().init_transactions)

    async def send(self, *arguments: Any, **named: Any) -> Any:
        return await self._step(partial(super().send, *arguments, **named))

    async def send_encoded(self, *arguments: Any, **named: Any) -> Any:
        return await self._step(partial(super().send_encoded, *arguments, **named))

    async def flush(self) -> None:
        await self._step(super().flush)

    async def send_offsets_to_transaction(self, *arguments: Any, **named: Any) -> None:
        await self._step(partial(super().send_offsets_to_transaction, *arguments, **named))

    async def commit_transaction(self) -> None:
        await self._step(super().commit_transaction)

    async def abort_transaction(self) -> None:
        """A process that ended aborts nothing."""
        if not self.over:
            await super().abort_transaction()


async def send_back(place: Place, ends_at: int | None) -> int:
    """One run of redrive that ends at a step; how many steps there were."""
    client = ClientOptions.of(place.bootstrap)
    reading = ConsumerOptions(isolation=IsolationLevel.READ_COMMITTED, auto_offset_reset=OffsetReset.EARLIEST)
    writing = producer_options(place.dead)
    cluster = Cluster(client, AsyncioIo())
    producer = Fragile(client, writing)
    producer.ends_at = ends_at
    try:
        async with ottla.client.consuming.consumer.Consumer(client, reading) as consumer, producer:
            letters = Letters(cluster, consumer, place.dead)
            runs = redrive(cluster, producer, letters, Filter(), Rules(place.dead), chunk_records=CHUNK)
            async for _ in runs:
                pass
    except Killed:
        pass
    finally:
        cluster.close()
    return producer.steps


async def test_interrupted_at_any_step_and_run_again_nothing_is_lost_and_nothing_goes_twice(broker: BrokerProcess):
    whole = Place(broker)
    back = whole.refuse(FEW)
    steps = await send_back(whole, None)
    assert whole.events_read() == back
    assert steps > FEW
    for ends_at in range(1, steps + 1):
        place = Place(broker)
        back = place.refuse(FEW)
        await send_back(place, ends_at)
        await send_back(place, None)
        assert place.events_read() == back, f"interrupted at step {ends_at}"


def test_killed_again_and_again_it_sends_each_letter_once(broker: BrokerProcess):
    place = Place(broker)
    back = place.refuse(400)
    command = [*OTTLA, "redrive", place.dead, "--execute", "--rate", "20"]
    env = {**os.environ, "OTTLA_BOOTSTRAP": place.bootstrap}
    seen = 0
    for _ in range(2):
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + DEADLINE_S
            while written(place) <= seen:
                assert time.monotonic() < end
                assert process.poll() is None, "it has ended by itself"
        finally:
            process.kill()
            process.wait()
        seen = written(place)
    place.ok("redrive", place.dead, "--execute")
    assert Counter(place.events_read()) == Counter(back)


def written(place: Place) -> int:
    """What transactions that are open or aborted have written counts too."""
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": "none", "log_level": 2})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(place.events, number))[1] for number in range(4))
    finally:
        consumer.close()


async def test_a_later_run_goes_on_and_the_earlier_one_says_why_it_ends(broker: BrokerProcess):
    place = Place(broker)
    back = place.refuse()
    client = ClientOptions.of(place.bootstrap)
    cluster = Cluster(client, AsyncioIo())
    reading = ConsumerOptions(isolation=IsolationLevel.READ_COMMITTED, auto_offset_reset=OffsetReset.EARLIEST)
    producer = ottla.client.producing.producer.Producer(client, producer_options(place.dead))
    try:
        async with ottla.client.consuming.consumer.Consumer(client, reading) as consumer, producer:
            letters = Letters(cluster, consumer, place.dead)
            run = redrive(cluster, producer, letters, Filter(), Rules(place.dead), chunk_records=CHUNK)
            assert (await anext(run)).total == CHUNK
            await send_back(place, None)
            with pytest.raises(ClientError, match=f"another run sends back letters of {place.dead}"):
                await anext(run)
    finally:
        cluster.close()
    assert Counter(place.events_read()) == Counter(back)
