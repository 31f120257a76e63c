"""Requests of one connection under quotas: what was sent ahead waits, in order, and nothing is lost when it ends."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.quota_manager import ClientQuotaManager
from ottla.broker.request_quotas import RequestQuotas
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.gateway import KafkaConnection, KafkaGateway
from ottla.model.principal import broker_principal
from ottla.network.task_gate import TaskGate
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.runtime.clock import ManualClock
from ottla.runtime.sampled_rate import Windows
from ottla.runtime.tasks import Tasks
from tests.unit.gateways.test_gateway import Buffer, Slot
from tests.unit.network.peers import until

MS = 1_000_000
PERCENT = "request_percentage"


class Line:
    """A connection that can be muted, as far as its handler sees it."""

    def __init__(self) -> None:
        self.peer = "test"
        self.is_muted = False
        self.muted_ms: list[int] = []
        self.failures: list[str] = []
        self.resume: Callable[[], None] | None = None

    def mute(self, throttle_ms: int) -> None:
        self.is_muted = True
        self.muted_ms.append(throttle_ms)

    def when_unmuted(self, resume: Callable[[], None]) -> None:
        assert self.resume is None
        self.resume = resume

    def unmute(self) -> None:
        self.is_muted = False
        resume, self.resume = self.resume, None
        if resume is not None:
            resume()

    def fail(self, reason: str, slot: object) -> None:
        self.failures.append(reason)


class ServedGateway:
    """A gateway whose only API takes `work_ns` a step, under a quota of one percent of a thread for everybody."""

    def __init__(self, handle: Any, *, is_async: bool) -> None:
        self.clock = ManualClock(1_000_000)
        self.now_ns = 0
        self.tasks = Tasks()
        broker: Any = SimpleNamespace(task_gate=TaskGate(), tasks=self.tasks)
        apis = ApiTable.of([Api(ApiKey.LIST_GROUPS, 0, 5, handle, is_async)])
        self.gateway = KafkaGateway(broker, apis, None)  # type: ignore[arg-type]
        manager = ClientQuotaManager(self.clock, Windows(), Windows(), 10)
        manager.configure({(("client-id", None),): {PERCENT: 1.0}})
        self.gateway.quotas = RequestQuotas(manager, lambda: self.now_ns)
        self.line = Line()
        line: Any = self.line
        self.connection: KafkaConnection = self.gateway.connect(line)
        self.buffer = Buffer()

    def send(self) -> Slot:
        slot = Slot()
        frame = bytearray(encode_request(1, "client", ListGroupsRequest(), 5)[4:])
        self.connection.on_frame(memoryview(frame), self.buffer, slot)  # type: ignore[arg-type]
        return slot


def throttle_of(slot: Slot) -> int:
    assert slot.frame is not None
    response: Any = decode_response(ApiKey.LIST_GROUPS, 5, slot.frame[4:])[1]
    return int(response.throttle_time_ms)


async def test_the_time_of_a_handler_counts_and_its_answer_says_for_how_long_to_be_quiet() -> None:
    def handle(*_: Any) -> ListGroupsResponse:
        gateway.now_ns += 60 * MS
        return ListGroupsResponse()

    gateway = ServedGateway(handle, is_async=False)
    assert throttle_of(gateway.send()) == 0  # 6 percent over a window that counts as 10 s: 0.6 percent
    assert throttle_of(gateway.send()) == 1_000  # 2 s too much, of which one window is asked for
    assert gateway.line.muted_ms == [1_000]


async def test_of_a_task_its_steps_count_and_not_what_it_waits_for() -> None:
    gate = asyncio.Event()

    async def handle(*_: Any) -> ListGroupsResponse:
        gateway.now_ns += 30 * MS
        await gate.wait()
        gateway.now_ns += 30 * MS
        return ListGroupsResponse()

    gateway = ServedGateway(handle, is_async=True)
    first = gateway.send()
    await asyncio.sleep(0)
    gateway.now_ns += 10_000 * MS  # others work meanwhile
    gate.set()
    await until(lambda: first.frame)
    assert throttle_of(first) == 0
    second = gateway.send()
    await until(lambda: second.frame)
    assert throttle_of(second) == 1_000


def is_answered(slot: Slot) -> bool:
    return slot.frame is not None


async def test_requests_behind_a_task_wait_until_its_client_may_speak_again() -> None:
    async def handle(*_: Any) -> ListGroupsResponse:
        gateway.now_ns += 200 * MS
        return ListGroupsResponse()

    gateway = ServedGateway(handle, is_async=True)
    slots = [gateway.send() for _ in range(3)]
    for number in range(3):
        await until(partial(is_answered, slots[number]))
        await until(lambda: not gateway.tasks)
        assert [slot.frame is not None for slot in slots] == [index <= number for index in range(3)]
        assert gateway.line.is_muted
        gateway.line.unmute()
    assert gateway.buffer.held == 0


async def test_what_waits_is_let_go_of_when_the_connection_closes() -> None:
    async def handle(*_: Any) -> ListGroupsResponse:
        gateway.now_ns += 200 * MS
        return ListGroupsResponse()

    gateway = ServedGateway(handle, is_async=True)
    slots = [gateway.send() for _ in range(3)]
    await until(lambda: gateway.line.is_muted and not gateway.tasks)
    gateway.connection.on_close()
    assert gateway.buffer.held == 0
    assert [slot.frame is not None for slot in slots] == [True, False, False]


async def test_a_task_that_fails_closes_the_connection_under_quotas_too() -> None:
    async def handle(*_: Any) -> ListGroupsResponse:
        raise RuntimeError

    gateway = ServedGateway(handle, is_async=True)
    gateway.send()
    await until(lambda: gateway.line.failures)
    assert gateway.buffer.held == 0


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_broker_of_the_cluster_is_never_told_to_be_quiet(is_async: bool) -> None:
    def serve(*_: Any) -> ListGroupsResponse:
        gateway.now_ns += 60 * MS
        return ListGroupsResponse()

    async def serve_later(*_: Any) -> ListGroupsResponse:
        return serve()

    gateway = ServedGateway(serve_later if is_async else serve, is_async=is_async)
    gateway.connection.principal = broker_principal(2)
    for _ in range(5):
        slot = gateway.send()
        await until(partial(is_answered, slot))
        assert throttle_of(slot) == 0
    assert gateway.line.muted_ms == []
    await until(lambda: not gateway.tasks)
