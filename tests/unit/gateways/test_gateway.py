import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.gateway import KafkaConnection, KafkaGateway
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.network.response_queue import ResponseQueue, ResponseSlot
from ottla.network.task_gate import TaskGate
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.runtime.purgatory import DelayedOperation
from ottla.runtime.tasks import Tasks
from tests.unit.network.peers import until


class Buffer:
    """Counts who holds the buffer of a request."""

    def __init__(self) -> None:
        self.held = 0

    def retain(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class Slot:
    """What was answered to one request."""

    is_void = False

    def __init__(self) -> None:
        self.frame: bytes | None = None

    def send(self, parts: Any) -> None:
        assert self.frame is None, "a request is answered once"
        self.frame = b"".join(parts)

    def skip(self) -> None:
        self.frame = b""


class ServedGateway:
    """A gateway with APIs of the test, and one connection to it."""

    def __init__(self, *apis: Api) -> None:
        self.tasks = Tasks()
        self.closed_because: str | None = None
        broker: Any = SimpleNamespace(task_gate=TaskGate(), tasks=self.tasks)
        self.gateway = KafkaGateway(broker, ApiTable.of(apis), None)  # type: ignore[arg-type]
        self.slots: list[Slot] = []
        self.connection = self.connect()
        self.buffer = Buffer()

    def connect(self) -> KafkaConnection:
        """One more connection."""
        connection: Any = SimpleNamespace(peer="test", fail=self._close, is_muted=False)
        return self.gateway.connect(connection)

    def _close(self, reason: str, slot: object) -> None:
        del slot
        self.closed_because = reason
        self.close()

    def close(self) -> None:
        for slot in self.slots:
            slot.is_void = True
        self.connection.on_close()

    def send(self, message: Any, version: int) -> Slot:
        return self.send_bytes(bytearray(encode_request(1, "client", message, version)[4:]))

    def send_bytes(self, frame: bytearray) -> Slot:
        slot = Slot()
        self.slots.append(slot)
        self.connection.on_frame(memoryview(frame), self.buffer, slot)  # type: ignore[arg-type]
        return slot


def answer(key: ApiKey, version: int, slot: Slot) -> Any:
    assert slot.frame is not None
    return decode_response(key, version, slot.frame[4:])[1]


VERSIONS = Api(ApiKey.API_VERSIONS, 0, 4, lambda ctx, _: ApiVersionsResponse(api_keys=served(ctx)))


def served(ctx: RequestContext) -> Any:
    return ctx.kafka_connection.gateway.served_versions


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_what_is_served() -> None:
    gateway = ServedGateway(VERSIONS)
    request = bytearray(encode_request(1, "client", ApiVersionsRequest(), 4)[4:])
    request[2:4] = (99).to_bytes(2, "big")
    response = answer(ApiKey.API_VERSIONS, 0, gateway.send_bytes(request))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [(18, 0, 4)]


async def test_a_version_that_is_not_served_closes_the_connection_and_says_which_are() -> None:
    gateway = ServedGateway(Api(ApiKey.LIST_GROUPS, 0, 3, lambda *_: ListGroupsResponse()))
    with pytest.raises(InvalidInputError, match=r"LIST_GROUPS version 5; .* 0 to 3"):
        gateway.send(ListGroupsRequest(), 5)


async def test_an_api_that_is_not_served_closes_the_connection() -> None:
    with pytest.raises(InvalidInputError, match="API key 16"):
        ServedGateway(VERSIONS).send(ListGroupsRequest(), 5)


async def test_bytes_that_are_no_request_close_the_connection() -> None:
    with pytest.raises(InvalidInputError):
        ServedGateway(VERSIONS).send_bytes(bytearray(b"\x00"))


async def test_produce_is_advertised_from_a_version_that_is_not_served() -> None:
    produce = Api(ApiKey.PRODUCE, 3, 13, lambda *_: None, advertised_min_version=0)
    response = answer(ApiKey.API_VERSIONS, 0, ServedGateway(VERSIONS, produce).send(ApiVersionsRequest(), 0))
    assert [(each.api_key, each.min_version) for each in response.api_keys] == [(0, 0), (18, 0)]


class Slow:
    """A handler that waits until it is told, or raises what it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.error: Exception | None = None
        self.started = 0

    def api(self) -> Api:
        async def handle(_ctx: RequestContext, _request: CreateTopicsRequest) -> CreateTopicsResponse:
            self.started += 1
            await self.go_on.wait()
            if self.error is not None:
                raise self.error
            return CreateTopicsResponse()

        return Api(ApiKey.CREATE_TOPICS, 2, 7, handle, is_async=True)


async def finished(gateway: ServedGateway) -> None:
    """Wait until the handlers that run as tasks are done."""
    assert len(gateway.tasks) == 1
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})


async def test_a_request_behind_one_that_waits_is_started_when_that_one_is_answered() -> None:
    slow = Slow()
    gateway = ServedGateway(VERSIONS, slow.api())
    first = gateway.send(CreateTopicsRequest(), 7)
    second = gateway.send(ApiVersionsRequest(), 0)
    assert (first.frame, second.frame) == (None, None)
    slow.go_on.set()
    await finished(gateway)
    assert answer(ApiKey.CREATE_TOPICS, 7, first).topics == ()
    assert answer(ApiKey.API_VERSIONS, 0, second).error_code == ErrorCode.NONE
    assert gateway.buffer.held == 0


async def test_a_handler_that_crashes_closes_its_connection_and_drops_what_waits_behind() -> None:
    slow = Slow()
    slow.error = ZeroDivisionError()
    gateway = ServedGateway(VERSIONS, slow.api())
    gateway.send(CreateTopicsRequest(), 7)
    second = gateway.send(ApiVersionsRequest(), 0)
    slow.go_on.set()
    await finished(gateway)
    assert gateway.closed_because == "a request failed inside the broker"
    assert second.frame is None
    assert gateway.buffer.held == 0


async def test_a_bad_request_that_was_held_back_closes_the_connection_when_its_turn_comes() -> None:
    slow = Slow()
    gateway = ServedGateway(VERSIONS, slow.api())
    gateway.send(CreateTopicsRequest(), 7)
    gateway.send(ListGroupsRequest(), 5)
    assert gateway.closed_because is None
    slow.go_on.set()
    await finished(gateway)
    assert gateway.closed_because is not None
    assert "API key 16" in gateway.closed_because
    assert gateway.buffer.held == 0


async def test_a_request_that_was_held_back_and_crashes_closes_the_connection() -> None:
    def crash(_ctx: RequestContext, _request: ListGroupsRequest) -> None:
        raise ZeroDivisionError

    slow = Slow()
    gateway = ServedGateway(slow.api(), Api(ApiKey.LIST_GROUPS, 0, 5, crash))
    gateway.send(CreateTopicsRequest(), 7)
    gateway.send(ListGroupsRequest(), 5)
    slow.go_on.set()
    await finished(gateway)
    assert gateway.closed_because == "a request failed inside the broker"
    assert gateway.buffer.held == 0


class Pipelined:
    """A connection that sends ListGroups, which is answered when the test says so, and CreateTopics, which follows."""

    def __init__(self, slow: Slow) -> None:
        self.waiting: list[RequestContext] = []
        self.sent: list[bytes] = []
        list_groups = Api(ApiKey.LIST_GROUPS, 0, 5, lambda ctx, _: self.waiting.append(ctx))
        self.gateway = ServedGateway(VERSIONS, list_groups, replace(slow.api(), after_responses=True))
        self.queue = ResponseQueue(self)
        for message, version in ((ListGroupsRequest(), 5), (CreateTopicsRequest(), 7), (ApiVersionsRequest(), 0)):
            frame = memoryview(bytearray(encode_request(1, "client", message, version)[4:]))
            self.gateway.connection.on_frame(frame, self.gateway.buffer, ResponseSlot(self.queue))  # type: ignore[arg-type]

    def on_response(self, parts: Any) -> None:
        self.sent.append(b"".join(parts))

    def on_answer(self, answer: bytes) -> None:
        self.sent.append(answer)

    def on_held(self, by: int) -> None: ...

    def on_abandoned(self, number: int) -> None: ...


async def test_a_request_that_follows_answers_begins_when_those_before_it_are_answered() -> None:
    slow = Slow()
    slow.go_on.set()
    pipelined = Pipelined(slow)
    assert (len(pipelined.sent), len(pipelined.gateway.tasks)) == (0, 0)  # and nothing runs but tasks
    pipelined.waiting[0].respond(ListGroupsResponse())
    await finished(pipelined.gateway)
    keys = ((ApiKey.LIST_GROUPS, 5), (ApiKey.CREATE_TOPICS, 7), (ApiKey.API_VERSIONS, 0))
    for (key, version), sent in zip(keys, pipelined.sent, strict=True):
        decode_response(key, version, sent[4:])
    assert (slow.started, pipelined.gateway.buffer.held, pipelined.gateway.gateway.task_gate.bytes_inside) == (1, 0, 0)


async def test_a_request_that_follows_answers_goes_with_its_connection() -> None:
    slow = Slow()
    pipelined = Pipelined(slow)
    pipelined.queue.clear()
    pipelined.gateway.connection.on_close()
    pipelined.waiting[0].respond(ListGroupsResponse())
    assert (slow.started, pipelined.sent, len(pipelined.gateway.tasks)) == (0, [], 0)
    assert (pipelined.gateway.buffer.held, pipelined.gateway.gateway.task_gate.bytes_inside) == (0, 0)


async def test_a_handler_that_goes_on_in_a_task_holds_nothing_back() -> None:
    go_on = asyncio.Event()

    def handle(ctx: RequestContext, _request: ListGroupsRequest) -> None:
        async def answer() -> None:
            await go_on.wait()
            ctx.respond(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))

        ctx.go_on(answer())

    gateway = ServedGateway(VERSIONS, Api(ApiKey.LIST_GROUPS, 0, 5, handle))
    first, second = gateway.send(ListGroupsRequest(), 5), gateway.send(ApiVersionsRequest(), 0)
    assert first.frame is None
    assert answer(ApiKey.API_VERSIONS, 0, second).error_code == ErrorCode.NONE
    go_on.set()
    await finished(gateway)
    assert answer(ApiKey.LIST_GROUPS, 5, first).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_request_that_waits_to_be_admitted_is_not_decoded_and_its_handler_is_started_once() -> None:
    slow = Slow()
    decoded: list[int] = []

    def decode(version: int, frame: memoryview, offset: int) -> CreateTopicsRequest:
        decoded.append(len(frame))
        return CreateTopicsRequest.decode(version, frame, offset)

    gateway = ServedGateway(replace(slow.api(), decode=decode))
    gateway.gateway.task_gate = TaskGate(bytes_max=1)
    other, slot = gateway.connect(), Slot()
    first = gateway.send(CreateTopicsRequest(), 7)
    request = bytearray(encode_request(1, "client", CreateTopicsRequest(), 7)[4:])
    other.on_frame(memoryview(request), gateway.buffer, slot)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert (len(decoded), slow.started) == (1, 1)
    slow.go_on.set()
    while slot.frame is None:
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert first.frame is not None
    assert (len(decoded), slow.started) == (2, 2)


async def test_of_those_held_back_each_task_holds_back_the_next_and_all_are_answered_in_order() -> None:
    slow = Slow()
    slow.go_on.set()
    done: list[str] = []

    def list_groups(_ctx: RequestContext, _request: ListGroupsRequest) -> ListGroupsResponse:
        done.append("list")
        return ListGroupsResponse()

    async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        await asyncio.sleep(0)
        done.append("create")
        return CreateTopicsResponse()

    gateway = ServedGateway(
        Api(ApiKey.CREATE_TOPICS, 2, 7, create_topics, is_async=True), Api(ApiKey.LIST_GROUPS, 0, 5, list_groups)
    )
    slots = []
    for _ in range(3):
        slots += [gateway.send(CreateTopicsRequest(), 7), gateway.send(ListGroupsRequest(), 5)]
    await until(lambda: slots[-1].frame is not None)
    assert done == ["create", "list"] * 3
    assert all(slot.frame for slot in slots)
    assert (gateway.buffer.held, gateway.gateway.task_gate.bytes_inside) == (0, 0)


class Waiting(DelayedOperation):
    """A fetch that waits for records."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: RequestContext) -> None:
        super().__init__()
        self._ctx = ctx

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self._ctx.kafka_connection.waiting_fetches.discard(self)
        self._ctx.respond(FetchResponse())


async def test_a_client_that_sends_nothing_more_is_answered_without_waiting_for_records() -> None:
    def handle(ctx: RequestContext, _request: FetchRequest) -> None:
        ctx.kafka_connection.waiting_fetches.add(Waiting(ctx))

    gateway = ServedGateway(Api(ApiKey.FETCH, 4, 18, handle))
    slots = [gateway.send(FetchRequest(), 17) for _ in range(3)]
    assert not any(slot.frame for slot in slots)
    gateway.connection.on_end_of_input()
    assert all(slot.frame for slot in slots)


async def test_who_asks_for_something_else_behind_a_fetch_does_not_wait_for_its_records() -> None:
    def handle(ctx: RequestContext, _request: FetchRequest) -> None:
        ctx.kafka_connection.waiting_fetches.add(Waiting(ctx))

    gateway = ServedGateway(VERSIONS, Api(ApiKey.FETCH, 4, 18, handle))
    fetches = [gateway.send(FetchRequest(), 17) for _ in range(2)]
    assert not any(slot.frame for slot in fetches)
    assert gateway.send(ApiVersionsRequest(), 0).frame
    assert all(slot.frame for slot in fetches)
    assert not gateway.connection.waiting_fetches


async def test_metadata_is_asked_for_behind_a_fetch_that_goes_on_waiting_for_its_records() -> None:
    def wait(ctx: RequestContext, _request: FetchRequest) -> None:
        ctx.kafka_connection.waiting_fetches.add(Waiting(ctx))

    def tell(_ctx: RequestContext, _request: MetadataRequest) -> MetadataResponse:
        return MetadataResponse()

    gateway = ServedGateway(VERSIONS, Api(ApiKey.FETCH, 4, 18, wait), Api(ApiKey.METADATA, 0, 13, tell))
    fetch = gateway.send(FetchRequest(), 17)
    assert gateway.send(MetadataRequest(), 12).frame
    assert not fetch.frame
    assert gateway.send(ApiVersionsRequest(), 0).frame
    assert fetch.frame


async def test_a_task_that_has_not_to_wait_is_answered_before_the_next_request_is_looked_at() -> None:
    go_on = asyncio.Event()

    async def handle(_ctx: RequestContext, _request: ListGroupsRequest) -> ListGroupsResponse:
        await go_on.wait()
        return ListGroupsResponse()

    gateway = ServedGateway(VERSIONS, Api(ApiKey.LIST_GROUPS, 0, 5, handle, is_async=True, starts_eagerly=True))
    go_on.set()
    for _ in range(3):
        assert gateway.send(ListGroupsRequest(), 5).frame
    assert (len(gateway.tasks), gateway.buffer.held, gateway.gateway.task_gate.bytes_inside) == (0, 0, 0)
    go_on.clear()
    slots = [
        gateway.send(ListGroupsRequest(), 5),
        gateway.send(ApiVersionsRequest(), 0),
        gateway.send(ListGroupsRequest(), 5),
    ]
    assert [slot.frame for slot in slots] == [None] * 3
    go_on.set()
    await finished(gateway)
    assert all(slot.frame for slot in slots)
    assert (gateway.buffer.held, gateway.gateway.task_gate.bytes_inside) == (0, 0)


async def test_a_task_that_fails_at_once_closes_its_connection() -> None:
    async def handle(_ctx: RequestContext, _request: ListGroupsRequest) -> ListGroupsResponse:
        raise ZeroDivisionError

    gateway = ServedGateway(VERSIONS, Api(ApiKey.LIST_GROUPS, 0, 5, handle, is_async=True, starts_eagerly=True))
    gateway.send(ListGroupsRequest(), 5)
    assert gateway.closed_because == "a request failed inside the broker"
    assert (gateway.buffer.held, gateway.gateway.task_gate.bytes_inside) == (0, 0)


async def test_tasks_of_all_connections_together_work_on_a_limited_number_of_bytes() -> None:
    slow = Slow()
    gateway = ServedGateway(slow.api())
    frame = bytearray(encode_request(1, "client", CreateTopicsRequest(), 7)[4:])
    gateway.gateway.task_gate = TaskGate(bytes_max=8 * len(frame) // 3)
    slots = []
    for _ in range(5):
        slot = Slot()
        gateway.connect().on_frame(memoryview(bytearray(frame)), gateway.buffer, slot)  # type: ignore[arg-type]
        slots.append(slot)
    assert (len(gateway.tasks), gateway.gateway.task_gate.waiting_count) == (2, 3)
    slow.go_on.set()
    while gateway.gateway.task_gate.bytes_inside:
        assert len(gateway.tasks) <= 2
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, return_when=asyncio.FIRST_COMPLETED)
    assert all(slot.frame for slot in slots)
    assert gateway.buffer.held == 0


async def test_a_request_larger_than_the_limit_is_worked_on_alone() -> None:
    gate = TaskGate(bytes_max=40)
    admitted: list[int] = []
    sizes = (100_000, 5_000, 200_000)
    for size in sizes:
        gate.admit(size, lambda size=size: admitted.append(size))  # type: ignore[misc]
    for count, size in enumerate(sizes, 1):
        assert admitted == list(sizes[:count])
        gate.leave(size)
    assert gate.bytes_inside == 0


async def test_small_requests_do_not_wait_behind_large_ones() -> None:
    gate = TaskGate(bytes_max=1_000)
    admitted: list[int] = []
    for size in (100_000, 200_000, 500, 250, 1):
        gate.admit(size, lambda size=size: admitted.append(size))  # type: ignore[misc]
    assert admitted == [100_000, 500, 250]
    gate.leave(250)
    assert admitted == [100_000, 500, 250, 1]


async def test_a_request_that_waits_for_its_turn_goes_with_its_connection() -> None:
    slow = Slow()
    gateway = ServedGateway(slow.api())
    gateway.gateway.task_gate = TaskGate(bytes_max=1)
    gateway.send(CreateTopicsRequest(), 7)
    other, slot = gateway.connect(), Slot()
    request = bytearray(encode_request(1, "client", CreateTopicsRequest(), 7)[4:])
    other.on_frame(memoryview(request), gateway.buffer, slot)  # type: ignore[arg-type]
    slot.is_void = True
    other.on_close()
    slow.go_on.set()
    await finished(gateway)
    assert slot.frame is None
    assert (gateway.buffer.held, gateway.gateway.task_gate.bytes_inside) == (0, 0)
