import asyncio
import errno

import pytest

from ottla.network.address import Address
from ottla.network.listening_socket import ListenError
from ottla.runtime.tasks import Tasks
from ottla.server.listener_set import ListenerSet
from ottla.settings.endpoint import Endpoint, parse_endpoint

TAKEN = 13


class Listener:
    """Notes what happens to it; drains until it is let."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.listener
        self.address = Address(endpoint.host, endpoint.port)
        self.state = "made"
        self.may_close = asyncio.Event()
        self.failure: Exception | None = None

    async def bind(self) -> None:
        await asyncio.sleep(0)
        if self.address.port == TAKEN:
            raise ListenError(errno.EADDRINUSE, *self.address, "taken")
        self.state = "bound"

    async def start(self) -> None:
        self.state = "open"

    async def close(self, drain_ms: int = 0) -> None:
        self.state = "closing"
        if drain_ms:
            await self.may_close.wait()
        self.state = "closed"
        if self.failure is not None:
            raise self.failure


class House:
    def __init__(self, *texts: str) -> None:
        self.made: list[Listener] = []
        self.tasks = Tasks("test")
        self.listeners = ListenerSet(endpoints(*texts), self._make, self.tasks)

    def _make(self, endpoint: Endpoint) -> Listener:
        self.made.append(Listener(endpoint))
        return self.made[-1]

    async def change(self, *texts: str) -> None:
        await self.listeners.change(endpoints(*texts), 10)

    def states(self) -> list[str]:
        return [listener.state for listener in self.made]

    def ports(self) -> dict[str, int]:
        return {name: address.port for name, address in self.listeners.addresses.items()}


def endpoints(*texts: str) -> list[Endpoint]:
    return [parse_endpoint(text) for text in texts]


async def opened(*texts: str) -> House:
    house = House(*texts)
    await house.listeners.bind()
    await house.listeners.start()
    return house


async def test_what_stays_is_left_alone_what_is_new_is_opened_and_what_is_gone_is_closed() -> None:
    house = await opened("A://h:1", "B://h:2")
    await house.change("B://h:2", "C://h:3")
    await asyncio.sleep(0)
    assert house.ports() == {"B": 2, "C": 3}
    assert house.states() == ["closing", "open", "open"]


async def test_before_the_start_a_new_listener_takes_its_address_and_lets_nobody_in() -> None:
    house = House("A://h:1")
    await house.listeners.bind()
    await house.change("A://h:1", "B://h:2")
    assert house.states() == ["bound", "bound"]
    await house.listeners.start()
    assert house.states() == ["open", "open"]


async def test_another_address_is_opened_before_the_old_one_is_closed() -> None:
    house = await opened("A://h:1")
    await house.change("A://h:2")
    await asyncio.sleep(0)
    assert (house.ports(), house.states()) == ({"A": 2}, ["closing", "open"])


async def test_an_address_that_cannot_be_had_costs_nothing_but_itself(caplog: pytest.LogCaptureFixture) -> None:
    house = await opened("A://h:1", "B://h:2")
    await house.change(f"A://h:{TAKEN}", "C://h:3")
    await asyncio.sleep(0)
    assert (house.ports(), house.states()) == ({"A": 1, "C": 3}, ["open", "closing", "closed", "open"])
    assert f"could not open the listener A://h:{TAKEN}: cannot listen" in caplog.text


async def test_the_end_waits_for_listeners_that_are_being_closed_already() -> None:
    house = await opened("A://h:1", "B://h:2")
    await house.change("B://h:2")
    end = house.tasks.spawn(house.listeners.close(10), "end")
    await asyncio.sleep(0)
    gone, left = house.made
    left.may_close.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (house.states(), end.done()) == (["closing", "closed"], False)
    gone.may_close.set()
    await end
    assert house.states() == ["closed", "closed"]


async def test_a_listener_that_opens_while_the_broker_stops_is_closed() -> None:
    house = await opened("A://h:1")
    house.made[0].may_close.set()
    change = house.tasks.spawn(house.change("A://h:1", "B://h:2"), "change")
    await asyncio.sleep(0)
    await house.listeners.close(10)
    await change
    assert house.states() == ["closed", "closed"]


async def test_one_that_cannot_be_closed_stops_no_other() -> None:
    house = await opened("A://h:1", "B://h:2")
    for listener in house.made:
        listener.may_close.set()
    house.made[0].failure = OSError("stuck")
    with pytest.raises(OSError, match="stuck"):
        await house.listeners.close(10)
    assert house.states() == ["closed", "closed"]
