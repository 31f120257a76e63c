"""Every test of the network that runs on an event loop runs on both, over a reactor and with each socket for itself."""

import asyncio
import inspect
from collections.abc import Callable, Mapping

import pytest
import uvloop

from ottla.network.listener import HAS_EPOLL


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if inspect.iscoroutinefunction(metafunc.function):
        ways = ("reactor", "loop") if HAS_EPOLL else ("loop",)
        metafunc.parametrize("sockets", getattr(metafunc.module, "SOCKETS", ways), indirect=True)


@pytest.fixture(autouse=True)
def sockets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who watches the sockets of the listeners that the test opens."""
    way: str = getattr(request, "param", "loop")
    monkeypatch.setattr("ottla.network.listener.HAS_EPOLL", way == "reactor")
    return way
