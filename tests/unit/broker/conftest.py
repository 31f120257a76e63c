from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.metadata.controller.controller import BrokerAddress, Controller
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.replication.conftest import new_partition

__all__ = ["new_partition"]

StartController = Callable[..., Awaitable[tuple[Controller, BrokerSettings]]]


@pytest.fixture
async def start_controller(tmp_path: Path) -> AsyncIterator[StartController]:
    """Starts the controller of a broker with some settings."""
    tasks = Tasks()
    started: list[Controller] = []

    async def start(settings: dict[str, str] | None = None) -> tuple[Controller, BrokerSettings]:
        given = BrokerSettings(settings or {})
        controller = Controller(EmbeddedStore(tmp_path), given, SeededRng(0), tasks)
        await controller.start(BrokerAddress(None, 9092))
        started.append(controller)
        return controller, given

    yield start
    await tasks.close()
    for controller in started:
        await controller.close()
