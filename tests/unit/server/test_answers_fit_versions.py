"""Whatever is answered, the version of the request can carry it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.broker.fetch import DivergingEpoch, PartitionRead
from ottla.gateways.kafka import api_00_produce, fetch_response
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.apis import APIS
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.fetch_session import SessionPartition
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import APIS as PROTOCOL_APIS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_response
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch import FetchPartition
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.header import RequestHeader
from ottla.protocol.messages.produce import PartitionProduceData, TopicProduceData
from ottla.replication.acknowledgement import AppendAck
from tests.fuzz.make_seeds import filled
from tests.fuzz.targets.requests import TOPIC, TOPIC_ID
from tests.unit.server.socketless_broker import Peer, Slot, SocketlessBroker, decoded, until

NO_SUCH_TOPIC = "flightz"
THIS_BROKER, ANOTHER_BROKER = 1, 2
MOVED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}


def bodies(api: Api, version: int, topic_id: bytes) -> dict[str, bytes]:
    """Requests with something in every field: of what is there, of what is not, and with nothing at all."""
    whole = filled(api.request_type, version).encode(version)
    return {
        "there": whole.replace(TOPIC_ID.bytes, topic_id),
        "not there": whole.replace(TOPIC.encode(), NO_SUCH_TOPIC.encode()),
        "empty": api.request_type().encode(version),
    }


NO_TIME: Any = {(("client-id", "test"),): {"request_percentage": 1e-9}}
"""A quota that every request of these tests exceeds: its answer says for how long to be quiet, where it can."""


@pytest.mark.slow
@pytest.mark.parametrize("quotas", [{}, NO_TIME], ids=["", "over its quota"])
@pytest.mark.parametrize("key", APIS, ids=lambda key: ApiKey(key).name)
async def test_every_version_of_every_api_answers_what_is_there_and_what_is_not(
    socketless_broker: SocketlessBroker, key: ApiKey, quotas: Any
) -> None:
    api = APIS[key]
    await socketless_broker.connect().ask(FindCoordinatorRequest(key="g"), 0)
    await until(lambda: not socketless_broker.server.services.groups.is_loading)
    server = socketless_broker.server
    server.gateways.client_quotas.apply(replace(server.metadata.current_image(), client_quotas=quotas))
    for version in range(api.min_version, api.max_version + 1):
        if socketless_broker.server.metadata.current_image().topic(TOPIC) is None:
            await socketless_broker.create_topic(TOPIC, 2)
        for name, body in bodies(api, version, socketless_broker.topic_id(TOPIC).bytes).items():
            peer = socketless_broker.connect()
            head = header(api, version)
            slot = peer.send_frame(head + body)
            await answered(socketless_broker, slot, peer)
            assert peer.closed_because is None, (version, name, peer.closed_because)
            if slot.frame or (key, name) != (ApiKey.PRODUCE, "empty"):  # which asks for no answer
                answer = decoded(slot, api.key, version)
                if version == api.max_version:
                    assert getattr(answer, "throttle_time_ms", None) in (None, max(peer.muted_ms, default=0))
            assert bool(peer.muted_ms) is bool(quotas)
            peer.close()


async def answered(broker: SocketlessBroker, slot: Slot, peer: Peer) -> None:
    """Wait for the answer; who joins a group waits for others, and time passes."""

    def is_over() -> bool:
        return slot.frame is not None or peer.is_closed

    for _ in range(3):
        await until(lambda: is_over() or not broker.tasks)
        if not is_over():
            broker.timer.advance(600_000)
    await until(is_over)


def header(api: Api, version: int) -> bytes:
    head = RequestHeader(request_api_key=api.key, request_api_version=version, correlation_id=7, client_id="test")
    return head.encode(PROTOCOL_APIS[api.key].request_header_version(version))


class Answering:
    """A request of one version in a cluster of two, whose partition `t-0` another broker leads at epoch 5."""

    def __init__(self, version: int, leader: int = ANOTHER_BROKER) -> None:
        partition = PartitionImage(0, leader, 5, (leader,), (leader,), 0)
        topic = TopicImage("t", TOPIC_ID, (partition,))
        image = MetadataImage("cluster", topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})
        node = SimpleNamespace(node_id=leader, host="there", port=9092, rack=None)
        cluster = SimpleNamespace(node_id=THIS_BROKER, node=lambda node_id, _: node if node_id == leader else None)
        self.slot = Slot()
        connection: Any = SimpleNamespace(
            gateway=SimpleNamespace(broker=SimpleNamespace(image=image, cluster=cluster)),
            connection=SimpleNamespace(complain=lambda _: None),
        )
        self.ctx = RequestContext(connection, self.slot, version, 7, "test", None)  # type: ignore[arg-type]

    def answer(self, key: ApiKey) -> Any:
        assert self.slot.frame is not None
        return decode_response(key, self.ctx.api_version, self.slot.frame[4:])[1]


def named_leaders(answer: Any, partition: Any) -> tuple[int, int, list[tuple[int, str]]]:
    leader = partition.current_leader
    return leader.leader_id, leader.leader_epoch, [(node.node_id, node.host) for node in answer.node_endpoints]


def expected_leaders(error: ErrorCode, *, is_carried: bool) -> tuple[int, int, list[tuple[int, str]]]:
    return (ANOTHER_BROKER, 5, [(ANOTHER_BROKER, "there")]) if is_carried and error in MOVED else (-1, -1, [])


@pytest.mark.parametrize("version", range(3, 14))
def test_every_error_of_a_produce_fits_its_version_and_names_the_leader_where_it_can(version: int) -> None:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "t"}
    topic = TopicProduceData(**named, partition_data=(PartitionProduceData(index=0),))
    for error in ErrorCode:
        answering = Answering(version)
        answering.ctx.respond(api_00_produce._response(answering.ctx, (topic,), [AppendAck(error, "why")]))
        answer = answering.answer(ApiKey.PRODUCE)
        [partition] = answer.responses[0].partition_responses
        assert partition.error_code == error
        assert named_leaders(answer, partition) == expected_leaders(error, is_carried=version >= 10), error


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("diverging", [None, DivergingEpoch(3, 7)])
def test_every_error_of_a_fetch_fits_its_version_and_names_the_leader_where_it_can(
    version: int, diverging: DivergingEpoch | None
) -> None:
    key = ("", TOPIC_ID, 0) if version >= 13 else ("t", ZERO_UUID, 0)
    for error in ErrorCode:
        answering = Answering(version)
        read = PartitionRead(error, diverging_epoch=diverging)
        partitions = [(key, SessionPartition(FetchPartition()))]
        response = fetch_response.response_of(answering.ctx, None, partitions, [read], incremental=False)
        answering.ctx.respond_parts(response)
        answer = answering.answer(ApiKey.FETCH)
        [partition] = answer.responses[0].partitions
        if error is ErrorCode.KAFKA_STORAGE_ERROR and version <= 5:  # not known to such readers (KIP-112)
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            assert partition.error_code == error
        assert named_leaders(answer, partition) == expected_leaders(error, is_carried=version >= 16), error
        is_told_where = diverging is not None and version >= 12
        assert partition.diverging_epoch.epoch == (3 if is_told_where else -1)


def test_a_partition_that_this_broker_is_giving_up_names_no_leader() -> None:
    answering = Answering(18, leader=THIS_BROKER)
    read = PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partitions = [(("", TOPIC_ID, 0), SessionPartition(FetchPartition()))]
    answer = fetch_response.response_of(answering.ctx, None, partitions, [read], incremental=False)
    assert named_leaders(answer, answer.responses[0].partitions[0]) == (-1, -1, [])
