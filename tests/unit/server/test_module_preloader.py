"""What is read after the start: what clients need, the rest only where there is somebody for it."""

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.apis import APIS
from ottla.metadata.image.delta import MetadataDelta, apply_records
from ottla.metadata.image.image import MetadataImage
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.runtime import garbage
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server import module_preloader
from ottla.server.module_preloader import OF_BROKERS, OF_CLIENTS, OF_TOPICS, READ_AFTER_MS, ModulePreloader, Part
from tests.unit.metadata.images import image_of, topic_record

GROUPS, TRANSACTIONS = OF_TOPICS[CONSUMER_OFFSETS_TOPIC], OF_TOPICS[TRANSACTION_STATE_TOPIC]
ALONE = image_of()
WITH_GROUPS = image_of(topic_record(CONSUMER_OFFSETS_TOPIC, 1))


async def turns() -> None:
    """Let tasks that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


class NoticedReads(ApiTable):
    """A table of which nothing was read yet; notes what is."""

    def __init__(self, read: list[object]) -> None:
        super().__init__(APIS.rows.values())
        self._read = read

    def find(self, key: int) -> Api | None:
        self._read.append(key)
        return None


class Reading:
    """A `ModulePreloader`, and what it has read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool = False) -> None:
        self.read: list[object] = []
        self.timer, self.tasks = ManualTimer(), Tasks()
        monkeypatch.setattr(module_preloader, "import_module", self.read.append)
        monkeypatch.setattr(garbage, "settle", lambda: self.read.append("settled"))
        self.later = ModulePreloader(NoticedReads(self.read), self.timer, self.tasks, is_shared=is_shared)

    async def all(self) -> list[object]:
        """Everything that is due and what follows it, and none of it again."""
        self.timer.advance(READ_AFTER_MS)
        await turns()
        while len(self.tasks):
            self.timer.advance(1)
            await turns()
        read, self.read[:] = list(self.read), []
        return read


def of(*parts: Part) -> list[object]:
    return [*(each for part in parts for each in (*part.apis, *part.modules)), "settled"]


def in_order(*topics: str) -> Iterator[tuple[MetadataImage, MetadataDelta]]:
    image = ALONE
    for number, topic in enumerate(topics, 1):
        image, delta = apply_records(image, [topic_record(topic, number)])
        yield image, delta


async def test_nothing_is_read_before_the_first_clients_were_served_and_then_one_in_a_turn(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(ALONE)
    reading.timer.advance(READ_AFTER_MS - 1)
    await turns()
    assert reading.read == []
    for count in range(1, len(OF_CLIENTS.apis) + 1):
        reading.timer.advance(1)
        await turns()
        assert reading.read == list(OF_CLIENTS.apis[:count])
    reading.timer.advance(1)
    await turns()
    assert (reading.read[-1], len(reading.tasks), len(reading.timer)) == ("settled", 0, 0)


async def test_one_broker_without_groups_and_transactions_reads_what_clients_ask(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(ALONE)
    assert await reading.all() == of(OF_CLIENTS)


async def test_groups_that_there_were_are_read_as_well(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(WITH_GROUPS)
    assert await reading.all() == of(OF_CLIENTS, GROUPS)


async def test_groups_and_transactions_are_read_when_there_are_any_and_once(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(ALONE)
    await reading.all()
    topics = ("t", CONSUMER_OFFSETS_TOPIC, "u", TRANSACTION_STATE_TOPIC, "v")
    read = []
    for image, delta in in_order(*topics):
        reading.later.on_image(image, delta)
        read.append(await reading.all())
    assert read == [[], of(GROUPS), [], of(TRANSACTIONS), []]


async def test_who_comes_while_others_are_read_is_next(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(ALONE)
    reading.timer.advance(READ_AFTER_MS)
    await turns()
    for image, delta in in_order(TRANSACTION_STATE_TOPIC):
        reading.later.on_image(image, delta)
    assert await reading.all() == of(OF_CLIENTS, TRANSACTIONS)


async def test_who_comes_before_anything_is_read_waits_for_the_first_clients(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(ALONE)
    for image, delta in in_order(CONSUMER_OFFSETS_TOPIC):
        reading.later.on_image(image, delta)
    await turns()
    assert reading.read == []
    assert await reading.all() == of(OF_CLIENTS, GROUPS)


async def test_brokers_of_a_cluster_read_what_they_ask_each_other(monkeypatch):
    reading = Reading(monkeypatch, is_shared=True)
    reading.later.start(ALONE)
    assert await reading.all() == of(OF_CLIENTS, OF_BROKERS)


async def test_a_broker_that_stops_meanwhile_reads_no_further(monkeypatch):
    reading = Reading(monkeypatch)
    reading.later.start(ALONE)
    reading.timer.advance(READ_AFTER_MS)
    await turns()
    await reading.tasks.close()
    reading.read.clear()
    assert (await reading.all(), len(reading.timer)) == ([], 0)


@pytest.mark.parametrize("part", [OF_CLIENTS, OF_BROKERS, *OF_TOPICS.values()])
def test_everything_that_is_named_is_there(part):
    assert set(part.apis) <= set(APIS)
    assert all(map(find_spec, part.modules))


def test_apis_between_brokers_are_read_in_a_cluster():
    of_gateways = {ApiKey.REDIS_COMMANDS}  # whoever has Redis clients has read it with their gateway
    read = {*OF_BROKERS.apis, *OF_TOPICS[SHARE_GROUP_STATE_TOPIC].apis, *of_gateways}
    assert {key for key, row in APIS.rows.items() if row.is_between_brokers} <= read
