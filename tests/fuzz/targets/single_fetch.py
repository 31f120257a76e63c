"""A frame of Fetch, read by the kernel at once and by the general codec: the same request and answer, or the header.

version, 1 byte, from the first one (255: the rest is a frame as it is) | the frame from the correlation id on
"""

import struct

from msgspec.structs import replace

from ottla.native import RequestHeader, SingleFetchRequest
from ottla.native.errors import MessageError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_request, decode_request_header, encode_request, encode_response_parts
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.fuzz.targets.single_produce import RAW, is_refused_as

FIRST_VERSION, LAST_VERSION = FetchRequest.MIN_VERSION, FetchRequest.MAX_VERSION


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    frame = data[1:]
    if data[0] != RAW:
        frame = struct.pack(">hh", ApiKey.FETCH, version_of(data[0])) + frame
    try:
        header = decode_request_header(frame)
    except MessageError as error:
        is_refused_as(frame, str(error))
        return
    if header.api_key != ApiKey.FETCH:
        return
    found = decode_request(memoryview(frame))
    if isinstance(found, SingleFetchRequest):
        agrees(found, header, FetchRequest.decode(header.api_version, frame, header.body_offset))
    else:
        assert repr(found) == repr(header)
        assert not is_plain(header, frame), "left to the general codec without need"


def version_of(byte: int) -> int:
    """The version that the first byte of an input stands for."""
    return FIRST_VERSION + byte % (LAST_VERSION - FIRST_VERSION + 1)


def is_plain(header: RequestHeader, frame: bytes) -> bool:
    """Whether a frame is a plain request of one partition, written as the codec writes it."""
    version = header.api_version
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return False
    try:
        request = FetchRequest.decode(version, frame, header.body_offset)
    except MessageError:
        return False
    written = encode_request(header.correlation_id, header.client_id, request, version)
    return is_of_one_partition(request) and written[4:] == frame


def is_of_one_partition(request: FetchRequest) -> bool:
    """Whether it has nothing that is out of the common."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1 or request.isolation_level not in {0, 1}:
        return False
    [wanted] = request.topics[0].partitions
    common = replace(
        request, max_wait_ms=0, min_bytes=0, max_bytes=FetchRequest().max_bytes, isolation_level=0, topics=()
    )
    plain = FetchPartition()
    return common == FetchRequest() and (wanted.replica_directory_id, wanted.high_watermark) == (
        plain.replica_directory_id,
        plain.high_watermark,
    )


def agrees(found: SingleFetchRequest, header: RequestHeader, request: FetchRequest) -> None:
    """Each field is what the general codec reads, and the answer what it writes."""
    version = header.api_version
    assert is_of_one_partition(request)
    assert (found.api_key, found.api_version) == (header.api_key, version)
    assert (found.correlation_id, found.client_id) == (header.correlation_id, header.client_id)
    assert (found.max_wait_ms, found.min_bytes, found.max_bytes) == (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
    )
    assert found.read_committed == (request.isolation_level == 1)
    [topic] = request.topics
    [wanted] = topic.partitions
    assert (found.topic_name, found.topic_id, found.partition) == (topic.topic, topic.topic_id, wanted.partition)
    assert found.key == (topic.topic_id.bytes if version >= 13 else topic.topic, wanted.partition)
    assert found.fetch_offset == wanted.fetch_offset
    assert (found.current_leader_epoch, found.last_fetched_epoch, found.log_start_offset) == (
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
        wanted.log_start_offset,
    )
    assert found.partition_max_bytes == max(0, wanted.partition_max_bytes)
    offsets = header.correlation_id << 32 | 7, wanted.partition - 1, -header.correlation_id
    for slices in ((), (b"ab",), (b"a" * 300, b"bc")):
        assert_answered_alike(found, header.correlation_id, request, offsets, slices)


class Slices:
    """Records as pieces of a file."""

    def __init__(self, slices: tuple[bytes, ...]) -> None:
        self.slices = slices
        self.total_bytes = sum(map(len, slices))


def assert_answered_alike(
    found: SingleFetchRequest,
    correlation_id: int,
    request: FetchRequest,
    offsets: tuple[int, int, int],
    slices: tuple[bytes, ...],
) -> None:
    """The answer has the bytes that the general codec gives, and the slices are among its parts as they are."""
    [topic] = request.topics
    high_watermark, last_stable_offset, log_start_offset = offsets
    records = Slices(slices)
    partition = PartitionData(
        partition_index=topic.partitions[0].partition,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=() if request.isolation_level else None,
        records=records,
    )
    responses = (FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=(partition,)),)
    parts = encode_response_parts(correlation_id, FetchResponse(responses=responses), found.api_version)
    answer = found.answer(*offsets, records.total_bytes, slices)
    assert b"".join(answer) == b"".join(parts)  # type: ignore[arg-type]
    assert [each for each in answer if any(each is piece for piece in slices)] == list(slices)
