"""A request whose answer fails ends its connection: the answers behind it never wait for ever."""

import asyncio
import gc
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.network.config import NetworkConfig
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.task_gate import TaskGate
from ottla.network.wire_protocol import WireProtocol
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.runtime.purgatory import DelayedOperation, Purgatory
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import Peer, until

UNSENDABLE: Any = ListGroupsResponse(throttle_time_ms="soon")  # type: ignore[arg-type]
"""An answer that cannot be encoded."""


class Delayed(DelayedOperation):
    """Waits until its key changes, then does what it was given."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self._then = then

    def try_complete(self) -> bool:
        return False

    def on_change(self, key: object) -> bool:
        del key
        return self.force_complete()

    def on_complete(self) -> None:
        self._then()


class House:
    """What handlers of the tests use: tasks, a purgatory, and a timer moved by hand."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.timer = ManualTimer()
        self.purgatory = Purgatory(self.timer)

    def when_it_changes(self, then: Callable[[], None]) -> None:
        self.purgatory.watch(Delayed(then), ("key",), 1_000)


def at_once(_house: House, _ctx: RequestContext) -> Any:
    return UNSENDABLE


def raised(_house: House, _ctx: RequestContext) -> Any:
    raise ZeroDivisionError


def in_a_later_turn(_house: House, ctx: RequestContext) -> None:
    asyncio.get_running_loop().call_soon(ctx.respond, UNSENDABLE)


def in_parts(_house: House, ctx: RequestContext) -> None:
    ctx.respond_parts(UNSENDABLE)


def in_a_purgatory(house: House, ctx: RequestContext) -> None:
    house.when_it_changes(lambda: ctx.respond(UNSENDABLE))


def raised_in_a_purgatory(house: House, ctx: RequestContext) -> None:
    def answer() -> None:
        ctx.respond(ListGroupsResponse(throttle_time_ms=1 // 0))

    house.when_it_changes(answer)


def in_a_timer(house: House, ctx: RequestContext) -> None:
    def answer() -> None:
        ctx.respond(ListGroupsResponse(throttle_time_ms=1 // 0))

    house.timer.schedule(0, answer)


def given_up(_house: House, ctx: RequestContext) -> None:
    del ctx


def given_up_in_a_cycle(house: House, ctx: RequestContext) -> None:
    def forgotten() -> Any:
        return ctx, forgotten

    def collect() -> None:
        gc.collect()

    house.timer.schedule(0, collect)


async def in_a_task(_house: House, _ctx: RequestContext) -> Any:
    await asyncio.sleep(0)
    return UNSENDABLE


async def raised_in_a_task(_house: House, _ctx: RequestContext) -> Any:
    await asyncio.sleep(0)
    raise ZeroDivisionError


def going_on_in_a_task(_house: House, ctx: RequestContext) -> None:
    async def answer() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    ctx.go_on(answer())


FAILURES = (
    at_once,
    raised,
    in_a_later_turn,
    in_parts,
    in_a_purgatory,
    raised_in_a_purgatory,
    in_a_timer,
    given_up,
    given_up_in_a_cycle,
    in_a_task,
    raised_in_a_task,
    going_on_in_a_task,
)
TASKS = (in_a_task, raised_in_a_task)


def request(message: Any, version: int) -> bytes:
    return encode_request(1, "client", message, version)


@pytest.mark.parametrize("failure", FAILURES)
async def test_answers_behind_one_that_fails_never_wait(failure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    _write_log_lines_to(lines, monkeypatch)
    house = House()
    apis = ApiTable.of(
        (
            Api(ApiKey.LIST_GROUPS, 0, 5, _failing(house, failure), is_async=failure in TASKS),
            Api(ApiKey.API_VERSIONS, 0, 4, lambda *_: ApiVersionsResponse()),
        )
    )
    broker: Any = SimpleNamespace(task_gate=TaskGate(), tasks=house.tasks)
    gateway = KafkaGateway(broker, apis, None)  # type: ignore[arg-type]
    protocol = WireProtocol("Kafka", gateway.connect, LengthPrefixReader)
    listener = Listener("127.0.0.1", 0, protocol, config=NetworkConfig(), clock=house.timer.clock, timer=house.timer)
    await listener.start()
    peer, neighbour = await Peer.connect(listener), await Peer.connect(listener)
    try:
        await until(lambda: len(listener.connections) == 2)
        fine, bad = request(ApiVersionsRequest(), 0), request(ListGroupsRequest(), 5)
        await peer.send(fine + bad + fine * 3)
        await peer.receive_frame()
        async with asyncio.timeout(60):
            while len(listener.connections) == 2:
                house.purgatory.check_and_complete("key")
                house.timer.advance(1)
                await asyncio.sleep(0)
        assert await peer.receive_end() == b""
        assert any("closed the connection from" in line or "the connection is closed" in line for line in lines)
        await neighbour.send(fine)
        await neighbour.receive_frame()
    finally:
        peer.close()
        neighbour.close()
        await listener.close()
        await house.tasks.close()


def _failing(house: House, failure: Callable[[House, RequestContext], Any]) -> Callable[..., Any]:
    return lambda ctx, _request: failure(house, ctx)


def _write_log_lines_to(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broker logs: what is logged is written at once, and kept by nobody."""

    class Written(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Written()
    logger = logging.getLogger("ottla")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [handler])
