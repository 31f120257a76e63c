"""ListPartitionReassignments on one broker."""

import pytest

from ottla.gateways.kafka.api_46_list_partition_reassignments import API
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


@pytest.mark.parametrize("topics", [None, (), (ListPartitionReassignmentsTopics("a", (0, 9)),)])
async def test_nothing_is_being_reassigned(gateway, topics):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    answer = await gateway.ask(API, ListPartitionReassignmentsRequest(topics=topics))
    assert (answer.error_code, answer.error_message, answer.topics) == (ErrorCode.NONE, None, ())
