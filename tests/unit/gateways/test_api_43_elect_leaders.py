"""ElectLeaders on one broker."""

import pytest

from ottla.gateways.kafka.api_43_elect_leaders import API
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


async def ask(door, topics, election=PREFERRED, version=API.max_version):
    request = ElectLeadersRequest(topic_partitions=topics, timeout_ms=1_000)
    if version >= 1:
        request = ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=1_000)
    answer = await door.ask(API, request, version)
    return answer.error_code, {
        (topic.topic, each.partition_id): (each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
@pytest.mark.parametrize("election", [PREFERRED, UNCLEAN])
async def test_the_only_broker_leads_already(door, version, election):
    await door.topics.create(ANONYMOUS, [NewTopic("a", num_partitions=2)])
    code, results = await ask(door, (TopicPartitions("a", (0, 1)),), election, version)
    assert code == ErrorCode.NONE
    assert {key: code for key, (code, _) in results.items()} == {
        ("a", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }


async def test_an_election_of_all_leaves_out_what_needs_none(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a", num_partitions=2)])
    assert await ask(door, None) == (ErrorCode.NONE, {})
    assert await ask(door, ()) == (ErrorCode.NONE, {})


async def test_what_is_not_there_is_told_beside_what_is(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a")])
    code, results = await ask(door, (TopicPartitions("a", (0, 9)), TopicPartitions("nope", (0,))))
    assert code == ErrorCode.NONE
    assert {key: code for key, (code, _) in results.items()} == {
        ("a", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert all(message for _, message in results.values())


async def test_an_election_of_no_known_type_is_refused(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a")])
    code, results = await ask(door, (TopicPartitions("a", (0,)),), election=7)
    assert code == ErrorCode.INVALID_REQUEST
    assert results["a", 0][0] == ErrorCode.INVALID_REQUEST
