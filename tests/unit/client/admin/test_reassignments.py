"""Reassignments and elections as clients ask for them."""

import pytest

from ottla.client.admin.reassignments import ElectionType, alter_reassignments, elect_leaders
from ottla.client.errors import BrokerError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from tests.unit.client.scripted_broker import ScriptedBroker

REASON = "the metadata store does not answer"


@pytest.fixture
def broker():
    with ScriptedBroker({"t": 1}) as scripted:
        yield scripted


@pytest.fixture
async def cluster(broker):
    connected = Cluster(ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2), AsyncioIo())
    await connected.connect()
    yield connected
    connected.close()


async def test_a_reassignment_is_not_repeated_when_it_is_not_known_whether_it_was_begun(broker, cluster):
    broker.handlers[AlterPartitionReassignmentsRequest] = lambda request, version: AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=REASON
    )
    with pytest.raises(BrokerError, match=f"the partitions may not be reassigned: {REASON}") as told:
        await alter_reassignments(cluster, {TopicPartition("t", 0): (1, 2)})
    assert told.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert len(broker.asked(AlterPartitionReassignmentsRequest)) == 1


async def test_an_election_is_not_repeated_when_it_is_not_known_whether_it_was_held(broker, cluster):
    broker.handlers[ElectLeadersRequest] = lambda request, version: ElectLeadersResponse(
        error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=REASON
    )
    with pytest.raises(BrokerError, match=f"leaders may not have been elected: {REASON}") as told:
        await elect_leaders(cluster, ElectionType.PREFERRED)
    assert told.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert len(broker.asked(ElectLeadersRequest)) == 1
