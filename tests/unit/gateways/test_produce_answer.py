"""The answer of a produce request made from a template is the one that encoding gives."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.kafka import produce_answer
from ottla.gateways.kafka.produce_answer import ProduceAnswers
from ottla.protocol.frame import encode_response
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
topics = st.one_of(st.just(("t" * 249, UUID(int=7))), st.tuples(st.text("ab.", min_size=1, max_size=5), st.uuids()))


def encoded(
    correlation_id: int, version: int, topic: tuple[str, UUID], index: int, numbers: tuple[int, int, int]
) -> bytes:
    """The same answer by the long way."""
    partition = PartitionProduceResponse(
        index=index, base_offset=numbers[0], log_append_time_ms=numbers[1], log_start_offset=numbers[2]
    )
    name, topic_id = topic
    response = ProduceResponse(
        responses=(TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=(partition,)),)
    )
    return encode_response(correlation_id, response, version)


def key(version: int, topic: tuple[str, UUID], index: int) -> tuple[int, str | UUID, int]:
    """What names the partition."""
    return version, topic[0] or topic[1], index


@given(st.lists(st.tuples(int32, st.integers(3, 13), topics, st.integers(0, 3), st.tuples(int64, int64, int64))))
def test_an_answer_is_the_encoded_response_whatever_was_answered_before(requests):
    answers = ProduceAnswers()
    for correlation_id, version, topic, index, numbers in requests:
        topic = (topic[0], UUID(int=0)) if version < 13 else ("", topic[1])
        made = answers.frame(correlation_id, key(version, topic, index), *numbers)
        assert made == encoded(correlation_id, version, topic, index, numbers)


def test_the_marks_in_a_topics_name_do_no_harm():
    topic = ("\x0f" * 200 + "".join(map(chr, (0x13, 0x57))), UUID(int=0))
    assert ProduceAnswers().frame(1, key(9, topic, 0), 1, 2, 3) == encoded(1, 9, topic, 0, (1, 2, 3))


def test_templates_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(produce_answer, "_TEMPLATES_MAX", 3)
    answers = ProduceAnswers()
    for index in range(10):
        topic = ("t", UUID(int=0))
        assert answers.frame(1, key(9, topic, index), 1, 2, 3) == encoded(1, 9, topic, index, (1, 2, 3))
        assert len(answers._templates) <= 3
