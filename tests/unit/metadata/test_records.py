import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.records import (
    BrokerChangedRecord,
    BrokerDirectoriesRecord,
    BrokerRegisteredRecord,
    BrokerRemovedRecord,
    ConfigRecord,
    ControllerRecord,
    PartitionChangedRecord,
    PartitionsAddedRecord,
    PartitionsChangedRecord,
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
leaders = st.integers(-1, 2**31 - 1)
states = st.builds(PartitionState, leaders, numbers, brokers, brokers, numbers) | st.builds(
    PartitionState, leaders, numbers, brokers, brokers, numbers, brokers, brokers, brokers, leaders
)
records = st.one_of(
    st.builds(TopicRecord, st.text(), st.uuids(), st.lists(states, max_size=4).map(tuple)),
    st.builds(PartitionsAddedRecord, st.uuids(), st.lists(states, max_size=4).map(tuple)),
    st.builds(PartitionChangedRecord, st.uuids(), numbers, states),
    st.builds(TopicRemovedRecord, st.uuids()),
    st.builds(ConfigRecord, numbers, st.text(), st.text(), st.none() | st.text()),
    st.builds(BrokerRegisteredRecord, numbers, numbers, st.none() | st.text(), numbers, st.none() | st.text()),
    st.builds(
        BrokerRegisteredRecord,
        numbers,
        numbers,
        st.none() | st.text(),
        numbers,
        st.none() | st.text(),
        st.dictionaries(st.text(), st.tuples(st.text(), numbers), max_size=3),
        st.text(),
        st.lists(st.text(), max_size=3).map(tuple),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(BrokerChangedRecord, numbers, numbers, st.booleans(), st.booleans()),
    st.builds(PartitionsChangedRecord, st.uuids(), st.lists(st.tuples(numbers, states), max_size=3).map(tuple)),
    st.builds(BrokerDirectoriesRecord, numbers, numbers, st.lists(st.uuids(), max_size=3).map(tuple)),
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


def test_what_only_a_cluster_says_is_written_in_the_next_version():
    topic_id = UUID("876e509a-8be7-4c78-a54f-094c0e6c8f61")
    state = PartitionState(2, 5, (1, 2), (2,), 9, elr=(1,))
    assert encode_record(PartitionChangedRecord(topic_id, 0, state)) == (
        b'["partition-changed",1,"h25QmovnTHilTwlMDmyPYQ",0,[2,5,[1,2],[2],9,[],[],[1],-1]]'
    )
    alone = BrokerRegisteredRecord(1, 7, None, 9092, "r")
    assert encode_record(alone) == b'["broker",0,1,7,null,9092,"r"]'
    member = BrokerRegisteredRecord(1, 7, "h", 9092, None, {"PLAINTEXT": ("h", 9092)}, "i", ("d",), True, True)
    assert encode_record(member) == (
        b'["broker",1,1,7,"h",9092,null,{"PLAINTEXT":["h",9092]},"i",["d"],true,true,false,[]]'
    )
    failed = BrokerDirectoriesRecord(1, 7, (topic_id,))
    assert encode_record(failed) == b'["broker-directories",1,1,7,["h25QmovnTHilTwlMDmyPYQ"]]'
    assert decode_record(encode_record(failed)) == failed


def test_partitions_of_one_record_may_say_more_or_less():
    plain, eligible = PartitionState(1, 0, (1,), (1,), 0), PartitionState(-1, 1, (1,), (), 1, elr=(1,))
    record = TopicRecord("a", UUID(int=0), (plain, eligible))
    assert encode_record(record).startswith(b'["topic",1,"a",')
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'["topic"]',
        b'["unheard-of",0]',
        b'["topic-removed",1,"AAAAAAAAAAAAAAAAAAAAAA"]',
        b'["broker",1,1,7,null,9092,null]',
        b'["broker",1,1,7,null,9092,null,[],"",[],true,false,false]',
        b'["broker",2,1,7,null,9092,null]',
        b'["partition-changed",1,"AAAAAAAAAAAAAAAAAAAAAA",0,[1,0,[1],[1],0,[]]]',
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
