import asyncio
from typing import Any

import pytest

from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.probe import PROBE_EVERY_MS, StoreProbe
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer


class Store:
    def __init__(self):
        self.answers = asyncio.Event()
        self.error = None
        self.asked = 0

        self.end_offset = 0

    async def probe(self):
        self.asked += 1
        await self.answers.wait()
        if self.error:
            raise self.error
        return self.end_offset


def probe_of(store, tasks, **options):
    timer = ManualTimer()
    given: Any = {"publisher": MetadataPublisher(MetadataImage("c")), "clock": timer.clock, "timer": timer}
    return StoreProbe(store, tasks=tasks, **(given | options))


async def turns():
    """Let everybody who can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def tasks():
    tasks = Tasks()
    yield tasks
    await tasks.close()


async def test_a_silent_store_is_named_is_asked_once_and_may_come_back(tasks):
    store = Store()
    probe = probe_of(store, tasks, timeout_ms=1)
    assert (
        await asyncio.gather(*(probe.trouble() for _ in range(3)))
        == ["the metadata store has not answered within 0.001 s"] * 3
    )
    assert "has not answered" in await probe.trouble()
    assert store.asked == 1
    store.answers.set()
    assert await probe_of(store, tasks).trouble() is None


async def test_a_store_that_cannot_be_asked_says_why(tasks):
    store = Store()
    store.answers.set()
    store.error = StoreError("a:2181: no server")
    assert await probe_of(store, tasks).trouble() == "the metadata store cannot be used: a:2181: no server"


async def test_the_image_is_current_when_it_has_what_the_store_has(tasks):
    store, publisher = Store(), MetadataPublisher(MetadataImage("c"))
    store.answers.set()
    probe = probe_of(store, tasks, publisher=publisher)
    assert (await probe.trouble(), probe.current_ms) == (None, probe._clock.now_ms())
    store.end_offset = 3
    before = probe.current_ms
    probe._clock.advance(7)
    asking = asyncio.ensure_future(probe.trouble())
    await turns()
    assert probe.current_ms == before
    image = MetadataImage("c", end_offset=3)
    await publisher.publish(image, MetadataDelta(image))
    assert (await asking, probe.current_ms) == (None, before + 7)


async def test_the_store_is_asked_now_and_then_until_the_end(tasks):
    store, timer = Store(), ManualTimer()
    store.answers.set()
    probe = probe_of(store, tasks, timer=timer)
    probe.start()
    for count in (1, 2, 3):
        await turns()
        assert store.asked == count
        timer.advance(PROBE_EVERY_MS)
    probe.close()
    await turns()
    assert len(timer) == 0
