from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.metadata.controller.controller import Controller
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.metadata.metadata_broker import MetadataBroker
from tests.unit.replication.conftest import new_partition

__all__ = ["new_partition"]

StartController = Callable[..., Awaitable[tuple[Controller, BrokerSettings]]]


@pytest.fixture
async def start_controller(tmp_path: Path) -> AsyncIterator[StartController]:
    """Starts the controller of a broker with some settings."""
    tasks = Tasks()
    started: list[MetadataBroker] = []

    async def start(settings: dict[str, str] | None = None) -> tuple[Controller, BrokerSettings]:
        given = BrokerSettings(settings or {})
        broker = MetadataBroker(tmp_path, given, SeededRng(0), tasks)
        await broker.start()
        started.append(broker)
        return broker.controller, given

    yield start
    await tasks.close()
    for broker in started:
        await broker.close()
