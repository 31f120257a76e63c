"""ElectLeaders on one broker."""

import pytest

from ottla.gateways.kafka.api_43_elect_leaders import API
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


async def ask(gateway, topics, election=PREFERRED, version=API.max_version):
    request = ElectLeadersRequest(topic_partitions=topics, timeout_ms=1_000)
    if version >= 1:
        request = ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=1_000)
    answer = await gateway.ask(API, request, version)
    return answer.error_code, {
        (topic.topic, each.partition_id): (each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
@pytest.mark.parametrize("election", [PREFERRED, UNCLEAN])
async def test_the_only_broker_leads_already(gateway, version, election):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", num_partitions=2)])
    code, results = await ask(gateway, (TopicPartitions("a", (0, 1)),), election, version)
    assert code == ErrorCode.NONE
    assert {key: code for key, (code, _) in results.items()} == {
        ("a", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }


async def test_an_election_of_all_leaves_out_what_needs_none(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", num_partitions=2)])
    assert await ask(gateway, None) == (ErrorCode.NONE, {})
    assert await ask(gateway, ()) == (ErrorCode.NONE, {})


async def test_what_is_not_there_is_told_beside_what_is(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    code, results = await ask(gateway, (TopicPartitions("a", (0, 9)), TopicPartitions("nope", (0,))))
    assert code == ErrorCode.NONE
    assert {key: code for key, (code, _) in results.items()} == {
        ("a", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert all(message for _, message in results.values())


async def test_an_election_of_no_known_type_is_refused(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    code, results = await ask(gateway, (TopicPartitions("a", (0,)),), election=7)
    assert code == ErrorCode.INVALID_REQUEST
    assert results["a", 0][0] == ErrorCode.INVALID_REQUEST


async def test_an_election_of_all_that_fails_says_why(gateway, monkeypatch):
    """The answer has no partition that could carry the reason."""

    async def time_out(*_):
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the metadata store does not answer")

    monkeypatch.setattr(Controller, "elect_leaders", time_out)
    answer = await gateway.ask(API, ElectLeadersRequest(topic_partitions=None), API.max_version)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "the metadata store does not answer",
    )
