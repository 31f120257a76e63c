"""What a message may hold, and how fields that a version does not carry are treated."""

import sys
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.native import MessageCodec
from ottla.native.errors import MessageError
from ottla.protocol.codec import FieldPlan, StructPlan, codec_for
from ottla.protocol.message import ZERO_UUID, Message
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntryData
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest


def produce(records: bytes | bytearray | memoryview | None) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    return ProduceRequest(topic_data=(TopicProduceData(name="flights", partition_data=(partition,)),))


def test_a_version_that_the_message_does_not_have_is_refused() -> None:
    for version in (-1, 2, 14):
        with pytest.raises(MessageError, match=f"ProduceRequest has the versions 3-13, not {version}"):
            ProduceRequest().encode(version)
        with pytest.raises(MessageError):
            ProduceRequest.decode(version, b"")


def wrong(value: Any) -> Any:
    """A value of another type than the field's."""
    return value


def test_messages_cannot_be_changed_however_they_were_made() -> None:
    for message in (HeartbeatRequest(), HeartbeatRequest.decode(0, HeartbeatRequest().encode(0))):
        with pytest.raises(AttributeError):
            message.group_id = "another"  # type: ignore[misc]
        assert replace(message, group_id="another").group_id == "another"


def test_a_field_that_the_version_cannot_carry_must_be_at_its_default() -> None:
    request = ListGroupsRequest(states_filter=("Stable",))
    assert ListGroupsRequest.decode(4, request.encode(4)) == request
    with pytest.raises(MessageError, match="ListGroupsRequest v3: states_filter: the version cannot carry this field"):
        request.encode(3)


def test_an_empty_list_is_the_default_of_an_array() -> None:
    ListGroupsRequest(states_filter=wrong([])).encode(3)


def test_an_ignorable_field_that_the_version_cannot_carry_is_dropped() -> None:
    response = HeartbeatResponse(throttle_time_ms=5, error_code=27)
    assert HeartbeatResponse.decode(0, response.encode(0)) == HeartbeatResponse(error_code=27)


def test_a_field_inside_an_array_is_named_in_the_refusal() -> None:
    partition = FetchPartition(last_fetched_epoch=3)
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(), partition)),))
    with pytest.raises(MessageError, match=r"FetchRequest v11: topics\[0\].partitions\[1\].last_fetched_epoch"):
        request.encode(11)


def test_null_is_refused_in_versions_that_do_not_allow_it() -> None:
    request = MetadataRequest(topics=None)
    assert MetadataRequest.decode(1, request.encode(1)) == request
    with pytest.raises(MessageError, match="topics: None is not allowed in this version"):
        request.encode(0)


def test_tagged_fields_are_written_only_when_they_differ_from_their_defaults() -> None:
    plain = ApiVersionsResponse().encode(3)
    assert plain.endswith(b"\0")
    assert ApiVersionsResponse(finalized_features_epoch=-1, zk_migration_ready=False).encode(3) == plain
    assert len(ApiVersionsResponse(finalized_features_epoch=7).encode(3)) == len(plain) + 10


def test_a_struct_that_equals_the_default_is_the_default() -> None:
    def response(diverging: EpochEndOffset) -> bytes:
        partition = PartitionData(diverging_epoch=diverging)
        return FetchResponse(responses=(FetchableTopicResponse(partitions=(partition,)),)).encode(13)

    assert response(EpochEndOffset(epoch=-1, end_offset=-1)) == response(PartitionData().diverging_epoch)
    assert response(EpochEndOffset(epoch=3, end_offset=9)) != response(PartitionData().diverging_epoch)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(HeartbeatRequest(generation_id=1 << 31), "generation_id: 2147483648 does not fit int32", id="int"),
        pytest.param(HeartbeatRequest(generation_id=1 << 63), "generation_id: .*too (big|large)", id="huge int"),
        pytest.param(HeartbeatRequest(generation_id=wrong(1.5)), "generation_id: ", id="float for int"),
        pytest.param(HeartbeatRequest(generation_id=wrong(None)), "generation_id: None", id="None for int"),
        pytest.param(HeartbeatRequest(group_id=wrong(b"g")), "group_id: ", id="bytes for string"),
        pytest.param(HeartbeatRequest(group_id="\ud800"), "group_id: .*surrogates", id="lone surrogate"),
        pytest.param(HeartbeatRequest(group_id="a" * 32768), "group_id: a string of 32768 bytes", id="long string"),
        pytest.param(
            SaslAuthenticateRequest(auth_bytes=wrong("s")), "auth_bytes: str has no bytes", id="string for bytes"
        ),
        pytest.param(ListGroupsRequest(states_filter=wrong("St")), "states_filter: str is not an array", id="no array"),
        pytest.param(
            ListGroupsRequest(states_filter=wrong(3)), "states_filter: int is not an array", id="int for array"
        ),
        pytest.param(
            CreateTopicsRequest(validate_only=wrong(1)), "validate_only: int is not a bool", id="int for bool"
        ),
        pytest.param(CreateTopicsRequest(topics=wrong((None,))), r"topics\[0\]", id="None for struct"),
        pytest.param(CreateTopicsRequest(topics=wrong((MetadataRequestTopic(),))), r"topics\[0\]", id="another struct"),
        pytest.param(
            MetadataRequest(topics=(MetadataRequestTopic(topic_id=wrong("not a uuid")),)),
            r"topics\[0\].topic_id: ",
            id="string for uuid",
        ),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(message: Message, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        message.encode(message.MAX_VERSION)


def encode_highest(message: Message) -> Message:
    return type(message).decode(message.MAX_VERSION, message.encode(message.MAX_VERSION))


def test_any_sequence_is_an_array() -> None:
    class Names(Sequence[str]):
        def __getitem__(self, index):
            return ("a", "b")[index]

        def __len__(self) -> int:
            return 2

    expected = ListGroupsRequest(states_filter=("a", "b"))
    for names in (["a", "b"], Names()):
        assert encode_highest(ListGroupsRequest(states_filter=wrong(names))) == expected


def test_an_enum_of_integers_is_an_integer() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert encode_highest(response) == HeartbeatResponse(error_code=27)


def test_a_float_is_read_back_exactly() -> None:
    request = AlterClientQuotasRequest(entries=(RequestEntryData(ops=(OpData(key="rate", value=0.1),)),))
    assert encode_highest(request) == request


@pytest.mark.parametrize("integer", [1, (1 << 64) - 1, 1 << 64, 1 << 127, (1 << 128) - 1])
def test_a_uuid_is_read_back_as_one(integer: int) -> None:
    topic_id = UUID(int=integer)
    decoded = encode_highest(MetadataRequest(topics=(MetadataRequestTopic(topic_id=topic_id),)))
    assert isinstance(decoded, MetadataRequest)
    assert decoded.topics is not None
    read = decoded.topics[0].topic_id
    assert (read, hash(read), str(read), read.is_safe) == (topic_id, hash(topic_id), str(topic_id), topic_id.is_safe)


def test_the_id_of_zeros_is_the_constant() -> None:
    decoded = FetchRequest.decode(13, FetchRequest(topics=(FetchTopic(),)).encode(13))
    assert decoded.topics[0].topic_id is ZERO_UUID


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_records_are_a_view_of_what_was_decoded(buffer_type: type) -> None:
    data = bytearray(b"head" + produce(b"a batch").encode(9))
    buffer = buffer_type(data)
    records = ProduceRequest.decode(9, buffer, 4).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"a batch"
    assert records.obj is (data if buffer_type is memoryview else buffer)
    assert records.readonly == (buffer_type is bytes)


def test_a_view_of_records_can_be_written_through() -> None:
    data = bytearray(produce(b"a batch").encode(9))
    records = ProduceRequest.decode(9, data).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[:1] = b"A"
    assert b"A batch" in data


@pytest.mark.parametrize("records", [None, b"", b"batch", bytearray(b"batch"), memoryview(b"a batch")[2:]])
def test_records_may_be_any_bytes_or_none(records: bytes | bytearray | memoryview | None) -> None:
    decoded = ProduceRequest.decode(9, produce(records).encode(9)).topic_data[0].partition_data[0].records
    assert decoded == records


def test_bytes_that_are_not_contiguous_are_refused() -> None:
    with pytest.raises(MessageError, match="records"):
        produce(memoryview(bytes(8))[::2]).encode(9)
    with pytest.raises(BufferError):
        ProduceRequest.decode(9, memoryview(bytes(8))[::2])


def test_what_is_no_buffer_cannot_be_decoded() -> None:
    with pytest.raises(TypeError):
        ProduceRequest.decode(9, wrong("text"))


def test_a_message_of_another_class_is_refused() -> None:
    with pytest.raises(MessageError):
        codec_for(HeartbeatRequest, 0).encode(HeartbeatResponse())


def test_a_plan_for_a_class_without_slots_is_refused() -> None:
    class Open:
        group_id = ""

    field = FieldPlan("group_id", "string", None, False, True, False, None, False, False, "")
    with pytest.raises(TypeError, match="group_id is not a slot"):
        MessageCodec("Open v0", False, StructPlan(Open, (field,)))


def test_encoding_leaves_the_references_of_values_as_they_were() -> None:
    topic = CreatableTopic(name="a topic of its own")
    request = CreateTopicsRequest(topics=(topic,))
    before = sys.getrefcount(topic), sys.getrefcount(topic.name)
    for _ in range(1000):
        request.encode(7)
        CreateTopicsRequest.decode(7, request.encode(7))
    assert (sys.getrefcount(topic), sys.getrefcount(topic.name)) == before
