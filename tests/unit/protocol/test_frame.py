"""Frames and headers, by their bytes and against kio."""

import io
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeaderV2
from kio.serial import entity_writer

from ottla.native.errors import MessageError
from ottla.protocol import frame
from ottla.protocol.api_keys import APIS, ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = bytes.fromhex("000c")


@dataclass(frozen=True)
class RecordsInFiles:
    """Records that are not in memory, as the log hands them out."""

    total_bytes: int
    slices: tuple[object, ...]


def fetched(*records: Any) -> FetchResponse:
    partitions = tuple(PartitionData(partition_index=n, records=each) for n, each in enumerate(records))
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=partitions),))


def bytes_of(part: object) -> bytes:
    """A part that lies in memory."""
    assert isinstance(part, bytes | bytearray | memoryview)
    return bytes(part)


def test_a_request_is_its_length_its_header_and_its_message() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert frame.encode_request(7, "me", request, 0) == bytes.fromhex(
        "00000016000c00000000000700026d650001670000000100016d"
    )
    assert frame.encode_request(7, None, request, 4) == bytes.fromhex(
        "00000015000c000400000007ffff00026700000001026d0000"
    )


def test_a_response_is_its_length_the_correlation_id_and_its_message() -> None:
    response = HeartbeatResponse(throttle_time_ms=1, error_code=27)
    assert frame.encode_response(7, response, 0) == bytes.fromhex("0000000600000007001b")
    assert frame.encode_response(7, response, 4) == bytes.fromhex("0000000c000000070000000001001b00")


def test_the_header_of_an_api_versions_response_has_no_tagged_fields_in_any_version() -> None:
    assert frame.encode_response(7, ApiVersionsResponse(), 3) == bytes.fromhex("0000000c000000070000010000000000")


@pytest.mark.parametrize(("kio_class", "version"), [(KioRequestHeaderV1, 0), (KioRequestHeaderV2, 4)])
def test_headers_that_kio_writes_are_read(kio_class: type, version: int) -> None:
    @settings(max_examples=30, deadline=None, database=None, derandomize=True)
    @given(st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=20))
    def check(correlation_id: int, client_id: str | None) -> None:
        buffer = io.BytesIO()
        entity_writer(kio_class)(
            buffer,
            kio_class(
                request_api_key=12, request_api_version=version, correlation_id=correlation_id, client_id=client_id
            ),
        )
        header = frame.decode_request_header(buffer.getvalue() + b"the message")
        assert (header.api_key, header.api_version) == (12, version)
        assert (header.correlation_id, header.client_id) == (correlation_id, client_id)
        assert header.body_offset == len(buffer.getvalue())

    check()


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header = frame.decode_request_header(
        HEARTBEAT + bytes.fromhex("0004 00000007 ffff 02 05 03 616263 06 00") + b"rest"
    )
    assert header.body_offset == 18


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("0012 0063 00000007 0002 6d65", id="a later version of ApiVersions"),
        pytest.param("0012 ffff 00000007 0002 6d65", id="a negative version"),
        pytest.param("4e20 0000 00000007 0002 6d65", id="an API that does not exist"),
    ],
)
def test_a_request_that_is_not_known_can_be_answered(head: str) -> None:
    header = frame.decode_request_header(bytes.fromhex(head) + b"\xff\xff\xff\xff\xff\xff\xff")
    assert (header.correlation_id, header.client_id) == (7, "me")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        pytest.param("", "byte 0: 2 bytes expected, 0 there", id="nothing"),
        pytest.param("000c 0000 000000", "byte 4: 4 bytes expected, 3 there", id="no correlation id"),
        pytest.param("000c 0000 00000007 0005 6d65", "client_id: byte 10: 5 bytes expected, 2 there", id="cut"),
        pytest.param("000c 0000 00000007 fffe 6d65", "client_id: byte 8: a length of -2", id="negative length"),
        pytest.param("000c 0000 00000007 0001 ff", "client_id: byte 10: the string is not UTF-8", id="no UTF-8"),
        pytest.param("000c 0004 00000007 ffff", "byte 10: 1 bytes expected, 0 there", id="no tagged fields"),
        pytest.param(
            "000c 0004 00000007 ffff ffffffff0f 0000", "byte 15: 4294967295 tagged fields cannot", id="giant count"
        ),
        pytest.param(
            "000c 0004 00000007 ffff 01 05 7f", "byte 13: 127 bytes expected, 0 there", id="giant tagged field"
        ),
    ],
)
def test_a_header_that_is_none_is_refused(head: str, reason: str) -> None:
    with pytest.raises(MessageError, match=f"RequestHeader: {reason}"):
        frame.decode_request_header(bytes.fromhex(head))


def test_a_response_is_read_back_with_its_correlation_id() -> None:
    for version in range(HeartbeatResponse.MIN_VERSION, HeartbeatResponse.MAX_VERSION + 1):
        data = frame.encode_response(-7, HeartbeatResponse(error_code=27), version)
        assert frame.decode_response(ApiKey.HEARTBEAT, version, data[4:]) == (-7, HeartbeatResponse(error_code=27))
    data = frame.encode_response(7, ApiVersionsResponse(error_code=35), 0)
    assert frame.decode_response(ApiKey.API_VERSIONS, 0, data[4:]) == (7, ApiVersionsResponse(error_code=35))


def test_a_response_cut_short_is_refused() -> None:
    data = frame.encode_response(7, HeartbeatResponse(), 4)[4:]
    for end in range(len(data)):
        with pytest.raises(MessageError):
            frame.decode_response(ApiKey.HEARTBEAT, 4, data[:end])


def test_a_request_is_read_back_through_its_header() -> None:
    for version in range(ApiVersionsRequest.MIN_VERSION, ApiVersionsRequest.MAX_VERSION + 1):
        request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        data = memoryview(frame.encode_request(7, "me", request, version))[4:]
        header = frame.decode_request_header(data)
        expected = request if version >= 3 else ApiVersionsRequest()
        assert ApiVersionsRequest.decode(version, data, header.body_offset) == expected


@pytest.mark.parametrize("version", [4, 12, 18])
def test_records_in_files_stand_between_the_parts(version: int) -> None:
    first, second, third = object(), object(), object()
    response = fetched(RecordsInFiles(5, (first, second)), b"in memory", RecordsInFiles(6, (third,)), None)
    parts = frame.encode_response_parts(7, response, version)
    assert [part for part in parts if not isinstance(part, bytes)] == [first, second, third]

    contents = {first: b"12", second: b"345", third: b"abcdef"}
    whole = b"".join(part if isinstance(part, bytes) else contents[part] for part in parts)
    in_memory = fetched(b"12345", b"in memory", b"abcdef", None)
    assert whole == frame.encode_response(7, in_memory, version)


def test_records_without_bytes_are_no_part() -> None:
    parts = frame.encode_response_parts(7, fetched(RecordsInFiles(0, ())), 4)
    assert b"".join(map(bytes_of, parts)) == frame.encode_response(7, fetched(b""), 4)


def test_large_records_in_memory_are_a_part_and_small_ones_are_copied() -> None:
    large, small = bytearray(4096), bytes(4095)
    parts = frame.encode_response_parts(7, fetched(large, small), 4)
    assert [part for part in parts if part is large] == [large]
    assert not any(part is small for part in parts)
    assert b"".join(map(bytes_of, parts)) == frame.encode_response(7, fetched(large, small), 4)


def test_records_in_files_are_refused_where_one_run_of_bytes_is_asked_for() -> None:
    response = fetched(RecordsInFiles(1, (object(),)))
    with pytest.raises(MessageError, match=r"responses\[0\].partitions\[0\].records: these records are not in memory"):
        frame.encode_response(7, response, 4)


def test_a_frame_that_its_length_cannot_say_is_refused() -> None:
    response = fetched(RecordsInFiles(1 << 30, ()), RecordsInFiles(1 << 30, ()))
    with pytest.raises(MessageError, match="larger than 2 GiB"):
        frame.encode_response_parts(7, response, 4)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_header_decoder_knows_the_header_version_of_every_api(api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        data = frame.encode_request(7, "me", api.request_class(), version)[4:]
        header = frame.decode_request_header(data)
        assert api.request_class.decode(version, data, header.body_offset) == api.request_class()
