import asyncio
import sys
from pathlib import Path

import pytest

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.apis import APIS
from ottla.runtime import garbage
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server import server as server_module
from ottla.server.doors import Doors
from ottla.server.server import READ_APIS_AFTER_MS, READ_LATER
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager
from tests.unit.server.new_server import new_server


class NoticedReads(ApiTable):
    """A table of which nothing was read yet; notes what is."""

    def __init__(self) -> None:
        super().__init__(APIS.rows.values())
        self.read: list[int] = []

    def find(self, key: int) -> Api | None:
        self.read.append(key)
        return super().find(key)


async def turns() -> None:
    """Let tasks that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_apis_nobody_asked_for_are_read_one_at_a_time_when_the_first_clients_were_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, settled, tasks, timer = NoticedReads(), list[bool](), Tasks(), ManualTimer()
    monkeypatch.setattr(server_module, "APIS", table)
    monkeypatch.setattr(garbage, "settle", lambda: settled.append(True))
    logs = LogManager(tmp_path, disk=OsDisk(), clock=timer.clock, timer=timer, tasks=tasks)
    server = new_server(
        BrokerSettings({}), logs, Doors(timer.clock, SeededRng(0), timer, tasks, asyncio.get_running_loop())
    )
    table.read.clear()
    server.read_apis_later()
    timer.advance(READ_APIS_AFTER_MS - 1)
    await turns()
    assert table.read == []
    timer.advance(1)
    keys = list(table.rows)
    for count in range(1, len(keys) + 1):
        await turns()
        assert (table.read, settled) == (keys[:count], [])
        timer.advance(1)
    for _ in READ_LATER:
        await turns()
        assert settled == []
        timer.advance(1)
    await turns()
    assert all(module in sys.modules for module in READ_LATER)
    assert (len(tasks), len(timer), settled) == (0, 0, [True])
    await tasks.close()


async def test_a_broker_that_stops_meanwhile_reads_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, tasks, timer = NoticedReads(), Tasks(), ManualTimer()
    monkeypatch.setattr(server_module, "APIS", table)
    logs = LogManager(tmp_path, disk=OsDisk(), clock=timer.clock, timer=timer, tasks=tasks)
    server = new_server(
        BrokerSettings({}), logs, Doors(timer.clock, SeededRng(0), timer, tasks, asyncio.get_running_loop())
    )
    server.read_apis_later()
    timer.advance(READ_APIS_AFTER_MS)
    await turns()
    await tasks.close()
    table.read.clear()
    timer.advance(1_000)
    await turns()
    assert (table.read, len(tasks), len(timer)) == ([], 0, 0)
