from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.broker.access import ALLOW_ALL, Authorizer
from tests.unit.gateways.admin_door import AdminDoor
from tests.unit.gateways.log_door import LogDoor

OpenDoor = Callable[..., Awaitable[AdminDoor]]


@pytest.fixture
async def open_door(tmp_path: Path) -> AsyncIterator[OpenDoor]:
    """Opens admin doors with the settings given, each with its own data."""
    doors: list[AdminDoor] = []

    async def open_one(settings: dict[str, str] | None = None, authorizer: Authorizer = ALLOW_ALL) -> AdminDoor:
        directory = tmp_path / str(len(doors))
        directory.mkdir()
        doors.append(await AdminDoor(directory, settings, authorizer).open())
        return doors[-1]

    yield open_one
    for door in doors:
        await door.close()


@pytest.fixture
async def door(open_door: OpenDoor) -> AdminDoor:
    """An admin door with the defaults."""
    return await open_door()


@pytest.fixture
async def log_door(tmp_path: Path) -> AsyncIterator[LogDoor]:
    """A door to partitions with real logs."""
    directory = tmp_path / "logs"
    directory.mkdir()
    door = await LogDoor(directory).open()
    yield door
    await door.close()
