"""Offsets on their way into the checkpoint and out of it."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.options import OptionError
from pyspark_ottla.stream_offset import StreamOffset

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,8}", fullmatch=True)
offsets = st.dictionaries(st.builds(TopicPartition, topics, st.integers(0, 200)), st.integers(0, 2**63 - 1), max_size=8)


@given(offsets, st.dictionaries(topics, st.uuids(), max_size=3))
def test_what_was_stored_comes_back_through_json(some, ids):
    stored = json.dumps(StreamOffset(some, ids).to_json())
    assert StreamOffset.from_json(json.loads(stored)) == StreamOffset(some, ids)


@given(offsets)
def test_equal_offsets_are_equal_text_as_that_is_how_spark_sees_that_nothing_is_new(some):
    backwards = dict(reversed(some.items()))
    assert json.dumps(StreamOffset(some).to_json()) == json.dumps(StreamOffset(backwards).to_json())


def test_the_form_is_that_of_sparks_kafka_source_with_the_ids_beside_it():
    one = UUID(int=1)
    stored = StreamOffset({TopicPartition("b", 10): 2, TopicPartition("b", 9): 1}, {"b": one}).to_json()
    assert stored == {"b": {"9": 1, "10": 2}, "#topicIds": {"b": str(one)}}


@pytest.mark.parametrize("stored", [{"t": 5}, {"t": {"0": "5"}}, {"#topicIds": {"t": "x"}}, {"#topicIds": []}])
def test_a_checkpoint_of_another_source_is_refused(stored):
    with pytest.raises(OptionError, match="checkpoint"):
        StreamOffset.from_json(stored)
