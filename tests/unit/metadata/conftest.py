"""Brokers over a store on disk, and images made from records."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.metadata.metadata_broker import MetadataBroker

StartBroker = Callable[..., Awaitable[MetadataBroker]]


@pytest.fixture
async def start_broker(tmp_path: Path) -> AsyncIterator[StartBroker]:
    """Starts brokers over the store of one directory; what still runs at the end is closed."""
    tasks = Tasks()
    started: list[MetadataBroker] = []

    async def start(seed: int = 0, **settings: str) -> MetadataBroker:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        broker = MetadataBroker(tmp_path, BrokerSettings(given), SeededRng(seed), tasks)
        await broker.start()
        started.append(broker)
        return broker

    yield start
    await tasks.close()
    for broker in started:
        await broker.close()
