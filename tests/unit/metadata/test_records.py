import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.records import (
    BrokerRegisteredRecord,
    BrokerRemovedRecord,
    ConfigRecord,
    ControllerRecord,
    PartitionChangedRecord,
    PartitionsAddedRecord,
    PartitionState,
    ProducerIdsRecord,
    TopicRecord,
    TopicRemovedRecord,
    decode_record,
    encode_record,
    parse_topic_id,
    topic_id_text,
)
from ottla.model.errors import InvalidInputError

numbers = st.integers(0, 2**63 - 1)
brokers = st.lists(numbers, max_size=4).map(tuple)
states = st.builds(PartitionState, st.integers(-1, 2**31 - 1), numbers, brokers, brokers, numbers)
records = st.one_of(
    st.builds(TopicRecord, st.text(), st.uuids(), st.lists(states, max_size=4).map(tuple)),
    st.builds(PartitionsAddedRecord, st.uuids(), st.lists(states, max_size=4).map(tuple)),
    st.builds(PartitionChangedRecord, st.uuids(), numbers, states),
    st.builds(TopicRemovedRecord, st.uuids()),
    st.builds(ConfigRecord, numbers, st.text(), st.text(), st.none() | st.text()),
    st.builds(BrokerRegisteredRecord, numbers, numbers, st.none() | st.text(), numbers, st.none() | st.text()),
    st.builds(BrokerRemovedRecord, numbers),
    st.builds(ControllerRecord, numbers, numbers),
    st.builds(ProducerIdsRecord, numbers),
)


@given(records)
def test_a_record_is_read_as_it_was_written(record):
    assert decode_record(encode_record(record)) == record


def test_the_layout_on_disk_stays():
    topic_id = UUID("876e509a-8be7-4c78-a54f-094c0e6c8f61")
    record = TopicRecord("orders", topic_id, (PartitionState(1, 0, (1, 2), (1,), 3),))
    assert encode_record(record) == b'["topic",0,"orders","h25QmovnTHilTwlMDmyPYQ",[[1,0,[1,2],[1],3]]]'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'["topic"]',
        b'["unheard-of",0]',
        b'["topic-removed",1,"AAAAAAAAAAAAAAAAAAAAAA"]',
        b'["topic-removed",0]',
        b'["topic-removed",0,"short"]',
        b'["topic-removed",0,7]',
        b'["topic",0,"a","AAAAAAAAAAAAAAAAAAAAAA",[[1,0]]]',
        b"\xff",
    ],
)
def test_a_broken_or_unknown_record_is_refused(data):
    with pytest.raises(InvalidInputError):
        decode_record(data)


def test_a_topic_id_is_written_as_kafka_prints_it():
    assert topic_id_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert parse_topic_id("AAAAAAAAAAAAAAAAAAAAAQ") == UUID(int=1)


def test_records_are_json_that_people_can_read():
    assert json.loads(encode_record(ConfigRecord(2, "ü", "k", None))) == ["config", 0, 2, "ü", "k", None]
