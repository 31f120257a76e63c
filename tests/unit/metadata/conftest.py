"""A controller over a store on disk, and images made from records."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.metadata.controller.controller import BrokerAddress, Controller
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.settings.broker_settings import BrokerSettings

StartController = Callable[..., Awaitable[Controller]]


@pytest.fixture
async def start_controller(tmp_path: Path) -> AsyncIterator[StartController]:
    """Starts controllers over the store of one directory; what still runs at the end is closed."""
    tasks = Tasks()
    started: list[Controller] = []

    async def start(seed: int = 0, **settings: str) -> Controller:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        controller = Controller(EmbeddedStore(tmp_path), BrokerSettings(given), SeededRng(seed), tasks)
        await controller.start(BrokerAddress(None, 9092))
        started.append(controller)
        return controller

    yield start
    await tasks.close()
    for controller in started:
        await controller.close()
