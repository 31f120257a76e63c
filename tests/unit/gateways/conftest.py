from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ottla.broker.access import ALLOW_ALL, Authorizer
from tests.unit.gateways.admin_gateway import AdminGateway
from tests.unit.gateways.log_gateway import LogGateway

OpenGateway = Callable[..., Awaitable[AdminGateway]]


@pytest.fixture
async def open_gateway(tmp_path: Path) -> AsyncIterator[OpenGateway]:
    """Opens admin gateways with the settings given, each with its own data."""
    gateways: list[AdminGateway] = []

    async def open_one(settings: dict[str, str] | None = None, authorizer: Authorizer = ALLOW_ALL) -> AdminGateway:
        directory = tmp_path / str(len(gateways))
        directory.mkdir()
        gateways.append(await AdminGateway(directory, settings, authorizer).open())
        return gateways[-1]

    yield open_one
    for gateway in gateways:
        await gateway.close()


@pytest.fixture
async def gateway(open_gateway: OpenGateway) -> AdminGateway:
    """An admin gateway with the defaults."""
    return await open_gateway()


@pytest.fixture
async def log_gateway(tmp_path: Path) -> AsyncIterator[LogGateway]:
    """A gateway to partitions with real logs."""
    directory = tmp_path / "logs"
    directory.mkdir()
    gateway = await LogGateway(directory).open()
    yield gateway
    await gateway.close()
