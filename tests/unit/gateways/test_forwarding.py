"""A request that is sent on: what travels, and what becomes of the answer."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.gateways.kafka.api_table import Route
from ottla.gateways.kafka.apis import APIS
from ottla.gateways.kafka.forwarding import FORWARD_MS_MAX, FORWARD_MS_MIN, Forwarding, address_bytes
from ottla.metadata.store.outage import OUTAGE_MS, PATIENCE_MS, StoreOutage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError
from ottla.model.principal import ANONYMOUS
from ottla.network.address import Address
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_request_header, encode_request, encode_response
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.gateways.test_gateway import Slot
from tests.unit.network.peers import until


class Controller:
    """In place of `ControllerChannel`: answers what the test says."""

    def __init__(self) -> None:
        self.is_here = False
        self.sent: list[tuple[Any, ...]] = []
        self.answer: memoryview | ApiError | asyncio.Future[memoryview] | None = None

    def deadline(self, timeout_ms: int) -> int:
        return timeout_ms

    async def forward(self, *sent: Any) -> memoryview | None:
        self.sent.append(sent)
        if isinstance(self.answer, ApiError):
            raise self.answer
        if isinstance(self.answer, asyncio.Future):
            return await self.answer
        return self.answer


class ServedGateway:
    """One connection of a client, and its request in some version."""

    def __init__(self) -> None:
        self.controller = Controller()
        channel: Any = self.controller
        self.timer, self.tasks = ManualTimer(), Tasks()
        outage = StoreOutage(self._trouble, clock=self.timer.clock, timer=self.timer, tasks=self.tasks)
        self.forwarding = Forwarding(channel, outage)
        self.muted_ms: list[int] = []
        self.slot = Slot()
        line = SimpleNamespace(peer=Address("10.0.0.9", 50_000), mute=self.muted_ms.append)
        self.connection: Any = SimpleNamespace(principal=ANONYMOUS, connection=line)

    async def _trouble(self) -> str:
        return "the metadata store does not answer"

    async def send(self, version: int, timeout_ms: int = 10_000, extra: bytes = b"") -> bool:
        request = CreateTopicsRequest(timeout_ms=timeout_ms)
        frame = memoryview(encode_request(7, "client", request, version)[4:] + extra)
        route = APIS.route(ApiKey.CREATE_TOPICS, version)
        assert isinstance(route, Route)
        slot: Any = self.slot
        return await self.forwarding.send_on(self.connection, route, decode_request_header(frame), frame, slot)


@pytest.mark.parametrize("version", range(2, 8))
async def test_the_answer_goes_to_the_client_as_it_came_and_has_it_be_quiet(version: int) -> None:
    gateway = ServedGateway()
    response = encode_response(7, CreateTopicsResponse(throttle_time_ms=700), version)
    gateway.controller.answer = memoryview(response[4:])
    assert await gateway.send(version)
    assert gateway.slot.frame == response
    assert gateway.muted_ms == [700]
    ((frame, principal, address, _),) = gateway.controller.sent
    assert bytes(frame) == encode_request(7, "client", CreateTopicsRequest(timeout_ms=10_000), version)[4:]
    assert (principal, address) == (ANONYMOUS, b"\x0a\x00\x00\x09")


async def test_what_is_decided_here_or_by_nobody_is_left_to_the_handler() -> None:
    gateway = ServedGateway()
    assert not await gateway.send(7)
    gateway.controller.answer = ApiError(ErrorCode.NOT_CONTROLLER)
    assert not await gateway.send(7)
    gateway.controller.is_here = True
    assert not await gateway.send(7)
    assert len(gateway.controller.sent) == 2
    assert (gateway.slot.frame, gateway.muted_ms) == (None, [])


async def test_what_waits_for_a_store_that_does_not_answer_is_left_to_the_handler() -> None:
    gateway = ServedGateway()
    gateway.controller.answer = asyncio.get_running_loop().create_future()
    sent = asyncio.ensure_future(gateway.send(7))
    for _ in range(OUTAGE_MS // PATIENCE_MS):
        await until(lambda: len(gateway.timer))
        gateway.timer.advance(PATIENCE_MS)
    assert not await sent
    assert gateway.controller.answer.cancelled()
    await gateway.tasks.close()


async def test_what_is_no_request_goes_nowhere() -> None:
    gateway = ServedGateway()
    with pytest.raises(InvalidInputError):
        await gateway.send(7, extra=b"more")
    assert gateway.controller.sent == []


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(0, FORWARD_MS_MIN), (-5, FORWARD_MS_MIN), (9_000, 9_000), (1 << 30, FORWARD_MS_MAX)]
)
async def test_a_request_has_the_time_its_client_gives_it_within_bounds(asked_ms: int, given_ms: int) -> None:
    gateway = ServedGateway()
    await gateway.send(7, timeout_ms=asked_ms)
    assert gateway.controller.sent[0][-1] == given_ms


def test_addresses_travel_as_bytes() -> None:
    assert address_bytes("127.0.0.1") == b"\x7f\x00\x00\x01"
    assert address_bytes("fe80::1%eth0") == bytes.fromhex("fe800000000000000000000000000001")
    assert address_bytes("a name") == b""
