"""Bytes that are not what they claim to be: each is refused with a MessageError, whatever they say."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.native.errors import MessageError
from ottla.protocol.codec import ELEMENTS_MAX, REQUEST_ELEMENTS_MAX
from ottla.protocol.message import Message
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.unit.protocol.message_strategy import all_messages

pytestmark = pytest.mark.slow

GIANT_LENGTH = (0x7FFFFFFF).to_bytes(4, "big")
GIANT_VARINT = b"\xff\xff\xff\xff\x0f"
FULL_MESSAGES = [
    (
        ProduceRequest(
            transactional_id="t",
            acks=-1,
            topic_data=(
                TopicProduceData(name="flights", partition_data=(PartitionProduceData(index=1, records=b"batch"),)),
            ),
        ),
        (3, 9),
    ),
    (FetchRequest(topics=(FetchTopic(topic="flights", partitions=(FetchPartition(partition=1),)),)), (4, 12)),
    (FetchRequest(cluster_id="c", topics=(FetchTopic(partitions=(FetchPartition(high_watermark=1),)),)), (18,)),
    (JoinGroupRequest(group_id="g", protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),)), (0, 9)),
]


@pytest.mark.parametrize(
    ("message", "version"),
    [
        pytest.param(message, version, id=f"{type(message).__name__}-{version}")
        for message, versions in FULL_MESSAGES
        for version in versions
    ],
)
def test_a_message_cut_at_any_byte_is_refused(message: Message, version: int) -> None:
    data = message.encode(version)
    for end in range(len(data)):
        with pytest.raises(MessageError):
            type(message).decode(version, data[:end])


@pytest.mark.parametrize("version", [0, 4])
def test_bytes_after_the_message_are_refused(version: int) -> None:
    data = HeartbeatRequest(group_id="g").encode(version)
    with pytest.raises(MessageError, match="1 bytes after the end"):
        HeartbeatRequest.decode(version, data + b"\0")


def test_an_offset_behind_the_end_is_refused() -> None:
    with pytest.raises(MessageError):
        HeartbeatRequest.decode(0, b"abc", 4)
    with pytest.raises(MessageError):
        HeartbeatRequest.decode(0, b"abc", (1 << 63) - 1)


@pytest.mark.parametrize(
    ("message_class", "version", "data"),
    [
        pytest.param(MetadataRequest, 0, GIANT_LENGTH, id="array"),
        pytest.param(MetadataRequest, 9, GIANT_VARINT, id="compact array"),
        pytest.param(SaslAuthenticateRequest, 0, GIANT_LENGTH, id="bytes"),
        pytest.param(SaslAuthenticateRequest, 2, GIANT_VARINT, id="compact bytes"),
        pytest.param(ApiVersionsRequest, 3, GIANT_VARINT, id="compact string"),
        pytest.param(ApiVersionsRequest, 3, b"\1\1" + GIANT_VARINT, id="tagged fields"),
        pytest.param(ApiVersionsRequest, 3, b"\1\1\1\0" + GIANT_VARINT, id="a tagged field"),
        pytest.param(ApiVersionsRequest, 3, b"\1\1\1" + GIANT_VARINT, id="a tag without a size"),
    ],
)
def test_a_giant_length_is_refused_before_memory_is_taken_for_it(
    message_class: type[Message], version: int, data: bytes
) -> None:
    message_class.decode(version, message_class().encode(version))
    tracemalloc.start()
    try:
        with pytest.raises(MessageError):
            message_class.decode(version, data + bytes(64))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


def test_the_elements_of_one_request_are_limited() -> None:
    topics = REQUEST_ELEMENTS_MAX + 1
    with pytest.raises(MessageError, match=f"more than {REQUEST_ELEMENTS_MAX} elements"):
        MetadataRequest.decode(0, topics.to_bytes(4, "big") + b"\0\0" * topics)


@pytest.mark.slow
def test_a_response_may_have_more_elements_than_a_request_but_not_any_number() -> None:
    no_error = bytes(2)
    partitions = REQUEST_ELEMENTS_MAX + 1
    topic = (1).to_bytes(4, "big") + bytes(2) + partitions.to_bytes(4, "big") + bytes(6) * partitions
    response = OffsetDeleteResponse.decode(0, no_error + bytes(4) + topic)
    assert len(response.topics[0].partitions) == partitions
    with pytest.raises(MessageError, match=f"more than {ELEMENTS_MAX} elements"):
        OffsetDeleteResponse.decode(
            0, no_error + bytes(4) + (ELEMENTS_MAX + 1).to_bytes(4, "big") + bytes(6) * (ELEMENTS_MAX + 1)
        )


@pytest.mark.slow
def test_a_request_may_name_every_partition_of_a_full_broker() -> None:
    full = tuple(FetchTopic(topic=f"t{topic}", partitions=(FetchPartition(),)) for topic in range(50_000))
    request = FetchRequest(topics=full)
    assert FetchRequest.decode(12, request.encode(12)) == request


@pytest.mark.parametrize(
    ("message_class", "version", "data"),
    [
        pytest.param(MetadataRequest, 1, (-2).to_bytes(4, "big", signed=True), id="array"),
        pytest.param(HeartbeatRequest, 0, (-2).to_bytes(2, "big", signed=True), id="string"),
        pytest.param(SaslAuthenticateRequest, 0, (-2).to_bytes(4, "big", signed=True), id="bytes"),
    ],
)
def test_a_length_below_minus_one_is_refused(message_class: type[Message], version: int, data: bytes) -> None:
    with pytest.raises(MessageError, match="byte 0: a length of -2"):
        message_class.decode(version, data)


@pytest.mark.parametrize(
    ("message_class", "version", "data"),
    [
        pytest.param(MetadataRequest, 0, b"\xff\xff\xff\xff", id="array"),
        pytest.param(OffsetDeleteRequest, 0, b"\xff\xff\0\0\0\0", id="string"),
        pytest.param(SaslAuthenticateRequest, 0, b"\xff\xff\xff\xff", id="bytes"),
        pytest.param(ApiVersionsRequest, 3, b"\0\1\0", id="compact string"),
        pytest.param(ApiVersionsResponse, 3, b"\0\0\0\0\0\0\0\0", id="compact array"),
    ],
)
def test_null_is_refused_where_it_is_not_allowed(message_class: type[Message], version: int, data: bytes) -> None:
    with pytest.raises(MessageError, match="null is not allowed"):
        message_class.decode(version, data)


def test_null_is_read_where_it_is_allowed() -> None:
    assert MetadataRequest.decode(1, b"\xff\xff\xff\xff").topics is None
    assert DescribeTopicPartitionsRequest.decode(0, b"\1\0\0\0\0\xff\0").cursor is None


def test_a_struct_that_is_neither_there_nor_null_is_refused() -> None:
    with pytest.raises(MessageError, match="cursor: byte 5: 2 is neither a struct nor null"):
        DescribeTopicPartitionsRequest.decode(0, b"\1\0\0\0\0\2\0")


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_a_string_that_is_not_utf8_is_refused(text: bytes) -> None:
    data = len(text).to_bytes(2, "big") + text + bytes(6)
    with pytest.raises(MessageError, match="group_id: byte 2: the string is not UTF-8"):
        HeartbeatRequest.decode(0, data)


def test_a_string_beyond_32767_bytes_is_refused_as_kafka_refuses_it() -> None:
    with pytest.raises(MessageError, match="a string of 32768 bytes"):
        ApiVersionsRequest.decode(3, b"\x81\x80\x02" + b"a" * 32768 + b"\1\0")


def test_a_varint_that_never_ends_is_refused() -> None:
    with pytest.raises(MessageError, match="longer than five bytes"):
        ApiVersionsRequest.decode(3, b"\x80" * 10)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    data = request.encode(3)
    assert data.endswith(b"\0")
    assert ApiVersionsRequest.decode(3, data[:-1] + b"\2\x05\3xyz\x63\0") == request


def test_a_tagged_field_that_is_longer_than_its_value_is_refused() -> None:
    data = ApiVersionsResponse(finalized_features_epoch=5).encode(3)
    assert data.endswith(b"\1\1\x08" + (5).to_bytes(8, "big"))
    with pytest.raises(MessageError, match="finalized_features_epoch: byte 10: 9 bytes announced, 8 read"):
        ApiVersionsResponse.decode(3, data[:-9] + b"\x09" + data[-8:] + b"\0")


def test_an_error_says_the_message_the_field_and_the_byte() -> None:
    resource = DescribeConfigsResource(resource_name="t", configuration_keys=("a", "b"))
    data = DescribeConfigsRequest(resources=(resource,)).encode(1)
    with pytest.raises(MessageError) as caught:
        DescribeConfigsRequest.decode(1, data.replace(b"b", b"\xff"))
    assert str(caught.value) == (
        "DescribeConfigsRequest v1: resources[0].configuration_keys[1]: byte 17: the string is not UTF-8"
    )


@pytest.mark.parametrize("message_class", all_messages())
def test_random_bytes_give_a_message_or_an_error(message_class: type[Message]) -> None:
    versions = st.integers(message_class.MIN_VERSION, message_class.MAX_VERSION)
    small = st.lists(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]), max_size=40).map(bytes)

    @settings(max_examples=12, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(versions, small | st.binary(max_size=80))
    def check(version: int, data: bytes) -> None:
        try:
            message = message_class.decode(version, data)
        except MessageError:
            return
        written = message.encode(version)
        assert message_class.decode(version, written).encode(version) == written

    check()
