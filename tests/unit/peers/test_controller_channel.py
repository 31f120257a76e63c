"""What is asked of the controller while it is elsewhere, moves, comes here, or is nowhere."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from msgspec import structs

from ottla.client.address import Address
from ottla.metadata.controller.topic_creation import CreatedTopic, NewTopic
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.broker_channels import BrokerChannels
from ottla.peers.cluster_secret import BrokerIdentity
from ottla.peers.controller_channel import (
    CATCH_UP_MS_MAX,
    LOOK_AFTER,
    OFFSET_BYTES,
    ControllerChannel,
    decode_principal,
    encode_principal,
)
from ottla.protocol.frame import decode_request_header, encode_response
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import until
from tests.unit.peers.fake_brokers import FakeBroker, FakeNetwork

SECRET, CLUSTER = b"what the brokers know", "abc"
ADDRESSES = {2: Address("10.0.0.2", 9092), 3: Address("10.0.0.3", 9092)}
ALICE = Principal("User", "alice")
CLIENT = b"\x0a\x00\x00\x09"


class HereOrNot:
    """The controller of this broker."""

    is_active = False

    async def create_topics(self, topics: Any, *, validate_only: bool = False) -> dict[str, Any]:
        return dict.fromkeys((each.name for each in topics), "here")

    async def allocate_producer_ids(self) -> range:
        return range(7, 8)

    async def for_client(self, deciding: Coroutine[Any, Any, Any]) -> Any:
        return await deciding


class World:
    """Broker 1; brokers 2 and 3 as they answer."""

    def __init__(self) -> None:
        self.timer, self.tasks, rng = ManualTimer(), Tasks(), SeededRng(1)
        self.others = {
            each: FakeBroker(BrokerIdentity(each, CLUSTER, SECRET), address) for each, address in ADDRESSES.items()
        }
        channels = BrokerChannels(
            1,
            "PLAINTEXT",
            FakeNetwork({each.address: each for each in self.others.values()}),
            clock=self.timer.clock,
            rng=rng,
            timer=self.timer,
            tasks=self.tasks,
            authentication=BrokerAuthentication(lambda: BrokerIdentity(1, CLUSTER, SECRET), rng, self.tasks),
        )
        self.here = HereOrNot()
        self.publisher = MetadataPublisher(self.image(2))
        channels.on_image(self.publisher.image)
        self.channel = ControllerChannel(
            self.here,  # type: ignore[arg-type]
            self.publisher,
            channels,
            lambda: 4,
            clock=self.timer.clock,
            timer=self.timer,
        )

    def image(self, controller: int, end_offset: int = 0) -> MetadataImage:
        brokers = {each: BrokerImage(each, 5, *address, None) for each, address in ADDRESSES.items()}
        brokers[1] = BrokerImage(1, 4, "10.0.0.1", 9092, None)
        return MetadataImage(CLUSTER, end_offset, controller, brokers=brokers)

    async def publish(self, controller: int, end_offset: int) -> None:
        image = self.image(controller, end_offset)
        await self.publisher.publish(image, MetadataDelta(self.publisher.image))

    def forward(self, timeout_ms: int = 5_000) -> "asyncio.Future[memoryview | None]":
        deadline = self.channel.deadline(timeout_ms)
        return asyncio.ensure_future(self.channel.forward(b"a request", ALICE, CLIENT, deadline))

    async def waits(self) -> None:
        """Return when there is nothing to do but to let time pass: somebody waits for the timer."""
        await until(lambda: len(self.timer))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.tasks.close()


def decided(offset: int) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=offset.to_bytes(OFFSET_BYTES, "big") + b"an answer")


async def test_a_request_goes_as_it_stands_with_who_asked_and_from_where(world: World) -> None:
    world.others[2].answer = lambda _: decided(0)
    answer = await world.forward()
    assert answer is not None
    assert bytes(answer) == b"an answer"
    ((who, sent),) = world.others[2].requests
    assert who == "1"
    assert isinstance(sent, EnvelopeRequest)
    assert (bytes(sent.request_data), bytes(sent.client_host_address)) == (b"a request", CLIENT)
    assert decode_principal(sent.request_principal or b"") == ALICE


async def test_an_answer_waits_until_the_metadata_here_has_what_was_decided(world: World) -> None:
    world.others[2].answer = lambda _: decided(9)
    forwarding = world.forward()
    await world.waits()
    await world.publish(2, 8)
    assert not forwarding.done()
    await world.publish(2, 9)
    assert await forwarding is not None


async def test_an_answer_does_not_wait_forever_for_metadata_that_does_not_come(world: World) -> None:
    world.others[2].answer = lambda _: decided(9)
    forwarding = world.forward()
    await world.waits()
    world.timer.advance(CATCH_UP_MS_MAX)
    assert await forwarding is not None


async def test_a_request_follows_the_controller_when_it_moves(world: World) -> None:
    world.others[2].answer = lambda _: EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    world.others[3].answer = lambda _: decided(0)
    forwarding = world.forward()
    await world.waits()
    assert not forwarding.done()
    await world.publish(3, 1)
    assert await forwarding is not None
    assert len(world.others[3].requests) == 1


async def test_a_request_waits_for_a_controller_that_is_gone(world: World) -> None:
    world.others[2].is_up = False
    world.others[3].answer = lambda _: decided(0)
    forwarding = world.forward()
    await world.waits()
    assert not forwarding.done()
    await world.publish(3, 1)
    assert await forwarding is not None


async def test_a_request_is_handled_here_when_the_controller_comes_here(world: World) -> None:
    world.others[2].is_up = False
    forwarding = world.forward()
    await world.waits()
    world.here.is_active = True
    await world.publish(1, 1)
    assert await forwarding is None


async def test_who_was_the_controller_and_is_cut_off_from_the_store_asks_the_others(world: World) -> None:
    """Its image stays as it was: it names this broker, which has resigned."""

    def answer(broker_id: int) -> Callable[[ApiMessage], ApiMessage]:
        def answer(message: ApiMessage) -> ApiMessage:
            if isinstance(message, MetadataRequest):
                return MetadataResponse(controller_id=3)
            return decided(0) if broker_id == 3 else EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

        return answer

    await world.publish(1, 1)
    for broker_id, other in world.others.items():
        other.answer = answer(broker_id)
    forwarding = world.forward()
    while not forwarding.done():
        await until(lambda: len(world.timer) or forwarding.done())
        world.timer.advance(50)
    assert await forwarding is not None
    assert await world.forward() is not None
    kinds = [type(request) for other in world.others.values() for _, request in other.requests]
    assert kinds == [MetadataRequest, EnvelopeRequest, EnvelopeRequest]
    # The next image knows better.
    world.others[2].answer = lambda _: decided(0)
    newer = structs.replace(world.image(2, 2), controller_epoch=1)
    await world.publisher.publish(newer, MetadataDelta(world.publisher.image))
    assert await world.forward() is not None
    assert isinstance(world.others[2].requests[-1][1], EnvelopeRequest)


async def test_when_the_time_is_up_there_is_no_controller(world: World) -> None:
    await world.publish(-1, 1)
    begun_ms = world.timer.clock.monotonic_ms()
    forwarding = world.forward(timeout_ms=200)
    while not forwarding.done():
        await until(lambda: len(world.timer) or forwarding.done())
        world.timer.advance(50)
    assert world.timer.clock.monotonic_ms() - begun_ms <= 250
    with pytest.raises(ApiError) as caught:
        await forwarding
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_refusal_is_not_tried_again(world: World) -> None:
    world.others[2].answer = lambda _: EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ApiError) as caught:
        await world.forward()
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(world.others[2].requests) == 1


async def test_topics_are_created_in_the_name_of_this_broker(world: World) -> None:
    def answer(message: ApiMessage) -> ApiMessage:
        assert isinstance(message, EnvelopeRequest)
        header = decode_request_header(memoryview(message.request_data))
        request = CreateTopicsRequest.decode(7, message.request_data, header.body_offset)
        assert [each.name for each in request.topics] == ["a", "b"]
        assert decode_principal(message.request_principal or b"") == Principal("Broker", "1")
        results = (
            CreatableTopicResult(name="a", num_partitions=3, replication_factor=2, error_message=None),
            CreatableTopicResult(name="b", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="there"),
        )
        frame = encode_response(header.correlation_id, CreateTopicsResponse(topics=results), 7)
        return EnvelopeResponse(response_data=bytes(OFFSET_BYTES) + frame[4:])

    world.others[2].answer = answer
    outcomes = await world.channel.create_topics([NewTopic("a", 3), NewTopic("b")])
    created, refused = outcomes["a"], outcomes["b"]
    assert isinstance(created, CreatedTopic)
    assert (created.num_partitions, created.replication_factor) == (3, 2)
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_producer_ids_are_asked_for_until_there_are_some(world: World) -> None:
    world.others[2].answer = lambda _: AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    world.others[3].answer = lambda _: AllocateProducerIdsResponse(producer_id_start=4000, producer_id_len=1000)
    asking = asyncio.ensure_future(world.channel.allocate_producer_ids())
    await world.waits()
    await world.publish(3, 1)
    assert await asking == range(4000, 5000)
    assert world.others[3].requests == [("1", AllocateProducerIdsRequest(broker_id=1, broker_epoch=4))]


async def test_here_nothing_is_sent(world: World) -> None:
    world.here.is_active = True
    assert await world.channel.create_topics([NewTopic("a")]) == {"a": "here"}
    assert await world.channel.allocate_producer_ids() == range(7, 8)
    assert not world.others[2].requests


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    data = encode_principal(Principal("User", "alice"))
    assert data == b"\x00\x00" + b"\x05User" + b"\x06alice" + b"\x00" + b"\x00"
    assert decode_principal(data) == ALICE


async def test_heartbeats_find_the_controller_that_took_over_from_one_cut_off_from_the_store(world: World) -> None:
    def answer(broker_id: int) -> Callable[[ApiMessage], ApiMessage]:
        def answer(message: ApiMessage) -> ApiMessage:
            if isinstance(message, MetadataRequest):
                return MetadataResponse(controller_id=3)
            assert isinstance(message, BrokerHeartbeatRequest)
            assert broker_id == 3
            return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True)

        return answer

    await world.publish(1, 1)
    for broker_id, other in world.others.items():
        other.answer = answer(broker_id)
    for _ in range(LOOK_AFTER):
        with pytest.raises(ApiError) as refused:
            await world.channel.heartbeat(want_shutdown=False, timeout_ms=4_500)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
    answered = await world.channel.heartbeat(want_shutdown=False, timeout_ms=4_500)
    assert answered.is_fenced
