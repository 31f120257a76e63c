"""What the event loop does beside each other: connections that nobody waits for any more, and several requests."""

import asyncio
import gc
import socket
from contextlib import suppress
from typing import Any

import pytest

from ottla.client.address import Address
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.options import ClientOptions
from ottla.runtime.tasks import run_main

NOBODY = Address("broker.invalid", 9092)


def test_nothing_is_said_of_a_name_that_is_not_found_once_nobody_waits_for_it() -> None:
    complaints: list[dict[str, Any]] = []

    async def give_up() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        connecting = loop.create_task(AsyncioIo().connect(NOBODY, ClientOptions.of("h:1")))
        await asyncio.sleep(0)
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting
        for _ in range(2):  # by then the other one has ended as well
            with suppress(socket.gaierror):
                await loop.getaddrinfo(*NOBODY)
        gc.collect()

    run_main(give_up())
    assert complaints == []


class Beside:
    """Coroutines that run beside each other, and what becomes of them."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def fails(self) -> None:
        raise ValueError("no")

    async def waits(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("waits")

    async def gives(self, value: int) -> int:
        await asyncio.sleep(0)
        return value


async def test_results_come_in_their_order() -> None:
    beside = Beside()
    assert await AsyncioIo().together([beside.gives(1), beside.gives(2)]) == [1, 2]
    assert await AsyncioIo().together([]) == []


async def test_one_that_fails_ends_the_others_and_leaves_nobody_cancelled() -> None:
    beside, task = Beside(), asyncio.current_task()
    assert task is not None
    with pytest.raises(ValueError, match="no"):
        await AsyncioIo().together([beside.waits(), beside.fails()])
    assert beside.ended == ["waits"]
    assert task.cancelling() == 0


async def test_who_is_cancelled_ends_what_runs_beside_each_other() -> None:
    beside = Beside()
    waiting = asyncio.create_task(AsyncioIo().together([beside.waits(), beside.waits()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert beside.ended == ["waits"] * 2
