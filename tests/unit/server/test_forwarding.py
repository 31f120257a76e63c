"""What only the controller decides, asked of a broker that is not the controller: the client does not notice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.network.address import Address
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.unit.server.whole_cluster import WholeBroker, cluster

TIMEOUT_MS = 60_000


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[list[WholeBroker]]:
    async with cluster(tmp_path, 2) as brokers:
        yield brokers


async def connected(address: Address) -> AsyncioConnection:
    return await AsyncioIo().connect(address, ClientOptions((address,)))  # type: ignore[arg-type]


@pytest.fixture
async def other(brokers: list[WholeBroker]) -> AsyncIterator[AsyncioConnection]:
    """A client of the broker that is not the controller."""
    assert [each.is_controller for each in brokers] == [True, False]
    connection = await connected(brokers[1].address)
    yield connection
    connection.close()


def new_topics(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(tuple(CreatableTopic(name, partitions, 1) for name in names))


async def test_a_topic_is_created_by_the_controller_and_there_when_the_client_hears_of_it(
    brokers: list[WholeBroker], other: AsyncioConnection
) -> None:
    answer = await other.request(new_topics("a", "a-b"), CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert [(each.name, each.error_code, each.num_partitions) for each in answer.topics] == [("a", 0, 1), ("a-b", 0, 1)]
    assert answer.topics[0].configs, "the whole answer comes back"
    topic = brokers[1].image.topic("a")
    assert topic is not None
    assert topic.topic_id == answer.topics[0].topic_id
    again = await other.request(new_topics("a"), CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    await other.request(DeleteTopicsRequest(topic_names=("a",)), DeleteTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert brokers[1].image.topic("a") is None


async def test_a_topic_that_is_asked_for_is_created_by_way_of_the_controller(
    brokers: list[WholeBroker], other: AsyncioConnection
) -> None:
    wanted = MetadataRequest(topics=(MetadataRequestTopic(name="auto"),), allow_auto_topic_creation=True)
    answer = await other.request(wanted, MetadataResponse, timeout_ms=TIMEOUT_MS)
    assert [(each.name, each.error_code) for each in answer.topics] == [("auto", 0)]
    assert brokers[0].image.topic("auto") is not None


async def test_a_controller_whose_disk_has_failed_creates_topics_for_others(
    brokers: list[WholeBroker], other: AsyncioConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline() -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the data directory is offline")

    monkeypatch.setattr(brokers[0].server._logs, "require_online", offline)
    there = CreatableTopic("there", -1, -1, (CreatableReplicaAssignment(0, (2,)),))
    answer = await other.request(CreateTopicsRequest((there,)), CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert answer.topics[0].error_code == ErrorCode.NONE


async def test_no_two_brokers_give_out_a_producer_id(brokers: list[WholeBroker], other: AsyncioConnection) -> None:
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1)
    first = await connected(brokers[0].address)
    ids = [
        (await each.request(asked, InitProducerIdResponse, timeout_ms=TIMEOUT_MS)).producer_id
        for each in (first, other, first, other)
    ]
    first.close()
    assert len(set(ids)) == 4
    assert all(each >= 0 for each in ids)


async def test_the_quota_of_a_client_holds_at_whichever_broker_it_asks(other: AsyncioConnection) -> None:
    everybody = (EntityData("client-id", None),)
    entry = RequestEntryData(everybody, (OpData("controller_mutation_rate", 1.0),))
    answer = await other.request(AlterClientQuotasRequest((entry,)), AlterClientQuotasResponse, timeout_ms=TIMEOUT_MS)
    assert answer.entries[0].error_code == ErrorCode.NONE
    first = await other.request(new_topics("many", partitions=50), CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert first.topics[0].error_code == ErrorCode.NONE
    second = await other.request(new_topics("more"), CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert second.throttle_time_ms > 0


async def test_a_stranger_cannot_send_an_envelope_or_ask_in_the_name_of_a_broker(brokers: list[WholeBroker]) -> None:
    stranger = await connected(brokers[0].address)
    epoch = brokers[0].image.brokers[2].broker_epoch
    stranger._versions._ranges.update(
        {56: (3, 3), 58: (0, 0), 63: (0, 2), 67: (0, 0)}
    )  # as if it had been told of them
    inside = encode_request(1, None, new_topics("evil"), 7)[4:]
    principal = b"\x00\x00" + b"\x05User\x06admin\x00\x00"
    for data in (inside, b"not even a request"):
        answer = await stranger.request(EnvelopeRequest(data, principal, b""), EnvelopeResponse, timeout_ms=TIMEOUT_MS)
        assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    ids = await stranger.request(AllocateProducerIdsRequest(2, 1), AllocateProducerIdsResponse, timeout_ms=TIMEOUT_MS)
    assert (ids.error_code, ids.producer_id_len) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0)
    beat = await stranger.request(
        BrokerHeartbeatRequest(2, epoch, 0, want_shut_down=True), BrokerHeartbeatResponse, timeout_ms=TIMEOUT_MS
    )
    assert (beat.error_code, beat.should_shut_down) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, False)
    isr = await stranger.request(AlterPartitionRequest(2, epoch), AlterPartitionResponse, timeout_ms=TIMEOUT_MS)
    assert isr.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert brokers[0].image.brokers[2].is_active
    stranger.close()
    assert brokers[0].image.topic("evil") is None
