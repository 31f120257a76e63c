"""What the client of ZooKeeper makes of servers that say nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from kazoo.client import KazooState

from ottla.metadata.store.zookeeper_client import SILENCE, NotConnectedError, ZooKeeperClient
from ottla.metadata.store.zookeeper_sockets import ZooKeeperSockets
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer

pytestmark = pytest.mark.slow

SESSION_MS = 9_000


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
async def client(timer: ManualTimer) -> AsyncIterator[ZooKeeperClient]:
    """One that never connects by itself: the test says what kazoo sees."""
    tasks = Tasks()
    client = ZooKeeperClient("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "", SESSION_MS, tasks, timer=timer)
    yield client
    await client.close()
    await tasks.close()


async def test_who_waits_is_told_when_nobody_has_answered_for_as_long_as_a_session(
    client: ZooKeeperClient, timer: ManualTimer
) -> None:
    told: list[str] = []
    client.on_silence = lambda: told.append("silence")
    client._changed(KazooState.CONNECTED)
    client._changed(KazooState.SUSPENDED)
    waiting = asyncio.ensure_future(client.wait_until_connected())
    await asyncio.sleep(0)
    timer.advance(int(SESSION_MS * SILENCE) - 1)
    await asyncio.sleep(0)
    assert not waiting.done()
    timer.advance(1)
    with pytest.raises(NotConnectedError, match="no ZooKeeper server has answered for 9 s"):
        await waiting
    assert told == ["silence"]


async def test_while_it_is_silent_nobody_waits_and_afterwards_all_goes_on(
    client: ZooKeeperClient, timer: ManualTimer
) -> None:
    client._changed(KazooState.SUSPENDED)
    timer.advance(SESSION_MS)
    with pytest.raises(NotConnectedError):
        await client.wait_until_connected()
    client._changed(KazooState.CONNECTED)
    await client.wait_until_connected()
    client._changed(KazooState.SUSPENDED)
    waiting = asyncio.ensure_future(client.wait_until_connected())
    await asyncio.sleep(0)
    client._changed(KazooState.CONNECTED)
    await waiting


def test_a_server_whose_host_says_nothing_is_not_waited_for_as_long_as_a_session() -> None:
    """The session is to outlive it: there are other servers to be asked."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        taken = [socket.socket() for _ in range(3)]  # what a full listener is sent after them it does not answer
        try:
            for each in taken:
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            handler = ZooKeeperSockets(0.05)
            with pytest.raises((OSError, handler.timeout_exception)):
                handler.create_connection(full.getsockname(), timeout=3_600.0)
        finally:
            for each in taken:
                each.close()
