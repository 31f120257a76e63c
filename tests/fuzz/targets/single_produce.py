"""A frame of Produce, read by the kernel at once and by the general codec: the same request and answer, or the header.

version, 1 byte, from the first one (255: the rest is a frame as it is) | the frame from the correlation id on
"""

import struct

from ottla.native import ProduceRun, RequestHeader, SingleProduceRequest
from ottla.native.errors import MessageError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_request, decode_request_header, encode_request, encode_response
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

FIRST_VERSION, LAST_VERSION = ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION
RAW = 255
ZSTD, ZSTD_VERSION = 4, 7
TRANSACTIONAL = 0x10


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    frame = data[1:]
    if data[0] != RAW:
        frame = struct.pack(">hh", ApiKey.PRODUCE, version_of(data[0])) + frame
    try:
        header = decode_request_header(frame)
    except MessageError as error:
        is_refused_as(frame, str(error))
        return
    found = decode_request(memoryview(frame))
    if isinstance(found, SingleProduceRequest):
        agrees(frame, found, header, ProduceRequest.decode(header.api_version, frame, header.body_offset))
    else:
        assert repr(found) == repr(header)
        assert not is_plain(header, frame), "left to the general codec without need"


def version_of(byte: int) -> int:
    """The version that the first byte of an input stands for."""
    return FIRST_VERSION + byte % (LAST_VERSION - FIRST_VERSION + 1)


def is_refused_as(frame: bytes, message: str) -> None:
    """What has no header is refused in the same words."""
    said = None
    try:
        decode_request(frame)
    except MessageError as error:
        said = str(error)
    assert said == message


def is_plain(header: RequestHeader, frame: bytes) -> bool:
    """Whether a frame is a plain request to one partition, written as the codec writes it."""
    version = header.api_version
    if header.api_key != ApiKey.PRODUCE or not FIRST_VERSION <= version <= LAST_VERSION:
        return False
    try:
        request = ProduceRequest.decode(version, frame, header.body_offset)
    except MessageError:
        return False
    written = encode_request(header.correlation_id, header.client_id, request, version)
    return is_for_one_partition(request, version) and written[4:] == frame


def is_for_one_partition(request: ProduceRequest, version: int) -> bool:
    """Whether it has nothing that is out of the common."""
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1 or request.transactional_id is not None:
        return False
    records = topics[0].partition_data[0].records
    if not isinstance(records, bytes | bytearray | memoryview) or len(records) < 61 or records[16] != 2:
        return False
    attributes = int.from_bytes(records[21:23], "big")
    is_served = version >= ZSTD_VERSION or attributes & 7 != ZSTD
    return request.acks in {-1, 0, 1} and not attributes & TRANSACTIONAL and is_served


def agrees(frame: bytes, found: SingleProduceRequest, header: RequestHeader, request: ProduceRequest) -> None:
    """Each field is what the general codec reads, and the answer what it writes."""
    version = header.api_version
    assert is_for_one_partition(request, version)
    assert (found.api_key, found.api_version) == (header.api_key, version)
    assert (found.correlation_id, found.client_id) == (header.correlation_id, header.client_id)
    assert (found.acks, found.timeout_ms) == (request.acks, max(0, request.timeout_ms))
    [topic] = request.topic_data
    [data] = topic.partition_data
    assert (found.topic_name, found.topic_id, found.partition) == (topic.name, topic.topic_id, data.index)
    assert found.key == (topic.topic_id.bytes if version >= 13 else topic.name, data.index)
    assert isinstance(data.records, memoryview)
    assert found.records == data.records
    numbers = header.correlation_id << 32 | 7, data.index - 1, -header.correlation_id
    assert found.answer(*numbers) == answer(header.correlation_id, version, request, *numbers)
    agrees_together(frame, found)


def agrees_together(frame: bytes, found: SingleProduceRequest) -> None:
    """Of two such requests, of two connections or of one, there is a run unless they are large or want no answer."""
    framed = struct.pack(">i", len(frame)) + frame
    size, buffer = len(framed), memoryview(framed * 2)
    runs, left = ProduceRun.gather(buffer, [("a", 0, size), ("b", size, 2 * size)], len(frame))
    leading = ProduceRun.leading(buffer, 0, 2 * size, len(frame), 2)
    both, alone = (ProduceRun.whole(buffer, 0, end, len(frame), 2) for end in (2 * size, size))
    if not found.acks or len(found.records) > 4_096:
        assert (runs, leading, both, alone, len(left)) == ([], None, None, None, 2)
        return
    [run] = runs
    assert (left, run.owners, run.arrivals) == ([], ["a", "b"], [("a", 0, size), ("b", size, 2 * size)])
    for each in (run, leading, both):
        assert each is not None
        assert (len(each), each.end, each.size) == (2, 2 * size, 2 * len(found.records))
        assert (each.key, each.acks, each.timeout_ms) == (found.key, found.acks, found.timeout_ms)
        assert each.answers(7, -1, 3)[0] == found.answer(7, -1, 3)
        assert each.answer(7, -1, 3) == b"".join(each.answers(7, -1, 3))
        assert each.request(1).client_id == found.client_id
    assert alone is not None
    assert (len(alone), alone.end, alone.answer(7, -1, 3)) == (1, size, found.answer(7, -1, 3))
    assert ProduceRun.whole(buffer, 0, 2 * size, len(frame), 1) is None
    assert ProduceRun.whole(buffer, 0, 2 * size - 1, len(frame), 2) is None
    assert ProduceRun.whole(buffer, 0, size, len(frame) - 1, 1) is None
    assert ProduceRun.gather(buffer, [("a", 0, size), ("b", size, 2 * size)], len(frame) - 1)[0] == []
    assert ProduceRun.gather(buffer, [("a", 0, size - 1), ("b", size, 2 * size)], len(frame))[0] == []
    assert ProduceRun.leading(buffer, 0, 2 * size - 1, len(frame), 2) is None


def answer(
    correlation_id: int,
    version: int,
    request: ProduceRequest,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The frame that the general codec gives for a request that went well."""
    [topic] = request.topic_data
    partition = PartitionProduceResponse(
        index=topic.partition_data[0].index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    responses = (TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=(partition,)),)
    return encode_response(correlation_id, ProduceResponse(responses=responses), version)
