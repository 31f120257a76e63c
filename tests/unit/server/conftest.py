from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.server.socketless_broker import SocketlessBroker


@pytest.fixture
async def socketless_broker(tmp_path: Path) -> AsyncIterator[SocketlessBroker]:
    """A broker with all its parts, without sockets."""
    broker = await SocketlessBroker(tmp_path / "data").open()
    yield broker
    await broker.close()
