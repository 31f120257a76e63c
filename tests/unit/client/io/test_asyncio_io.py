"""Connections on the event loop, where nobody waits for them any more."""

import asyncio
import gc
import socket
from contextlib import suppress
from typing import Any

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
