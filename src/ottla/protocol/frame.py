"""Requests and responses as they travel: a length, a header, a message.

Every frame starts with the size of what follows, as a big-endian int32. Then come::

    request    api_key int16, api_version int16, correlation_id int32, client_id string?, [tagged fields], message
    response   correlation_id int32, [tagged fields], message

The tagged fields are there when the version of the message is flexible (KIP-482), except in the response of
ApiVersions, which a client reads before it knows the broker. Source: https://kafka.apache.org/protocol.
"""

import struct
from typing import cast

from ottla.native import (
    RequestHeader,
    RequestHeaderDecoder,
    SingleFetchRequest,
    SingleProduceRequest,
    decode_response_header,
)
from ottla.protocol.api_keys import APIS
from ottla.protocol.codec import codec_for
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages import header

__all__ = [
    "RequestHeader",
    "SingleFetchRequest",
    "SingleProduceRequest",
    "client_id_of",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "decode_response_header",
    "encode_request",
    "encode_request_parts",
    "encode_response",
    "encode_response_parts",
    "raw_client_id",
]

_CORRELATION_ID = struct.Struct(">i")
_CLIENT_ID_POSITION = 12
"""Behind the length, the API key, the version and the correlation id."""
_CLIENT_ID_LENGTH_BYTES = 2
_NO_TAGGED_FIELDS = b"\0"
_request_headers = RequestHeaderDecoder(
    {
        int(api.key): (api.first_flexible_version, api.max_version)
        for api in APIS.values()
        if api.first_flexible_version is not None
    }
)


decode_request_header = _request_headers.decode
"""Reads the header of a request frame without its length; the message starts at `body_offset`.

The header of an API or a version that is not known is read as far as the client id, so that the request can be
answered. Raises MessageError when the bytes are no header.
"""

decode_request = _request_headers.decode_request
"""Reads a request frame without its length: the header, but of a plain Produce to one partition, or Fetch of one, all
there is to it.

Raises MessageError when the bytes are no header. What is malformed behind its header comes as a header.
"""


def raw_client_id(data: memoryview, begin: int) -> bytes:
    """The client id of the request that begins with its 4-byte length at `begin`, as it lies there: its own length, of
    two bytes, and the name. Of what is no request, any bytes.
    """
    start = begin + _CLIENT_ID_POSITION
    end = start + _CLIENT_ID_LENGTH_BYTES
    size = int.from_bytes(data[start:end], "big", signed=True)
    return data[start : end + size if size > 0 else end].tobytes()


def client_id_of(raw: bytes) -> str:
    """The name in what `raw_client_id` gives; empty for none."""
    return raw[_CLIENT_ID_LENGTH_BYTES:].decode("utf-8", "replace")


def encode_request(correlation_id: int, client_id: str | None, message: ApiMessage, version: int) -> bytes:
    """A request frame with its length."""
    head = _request_head(correlation_id, client_id, message, version)
    return codec_for(type(message), version).encode_frame(message, head)


def encode_request_parts(
    correlation_id: int, client_id: str | None, message: ApiMessage, version: int
) -> list[bytes | bytearray | memoryview]:
    """The same, in parts to be sent one after the other: large records are parts of their own, not copied."""
    head = _request_head(correlation_id, client_id, message, version)
    parts = codec_for(type(message), version).encode_frame_parts(message, head)
    return cast("list[bytes | bytearray | memoryview]", parts)


def encode_response(correlation_id: int, message: ApiMessage, version: int) -> bytes:
    """A response frame with its length. Raises MessageError when it holds records that are not in memory."""
    return codec_for(type(message), version).encode_frame(message, _response_head(correlation_id, message, version))


def encode_response_parts(correlation_id: int, message: ApiMessage, version: int) -> list[object]:
    """A response frame with its length, in parts to be sent one after the other.

    Records that have `slices` and `total_bytes` are not read: their slices stand among the parts, and the length of the
    frame counts their bytes. Large records in memory are parts of their own as well, not copied.
    """
    head = _response_head(correlation_id, message, version)
    return codec_for(type(message), version).encode_frame_parts(message, head)


def decode_response(api_key: int, version: int, frame: bytes | bytearray | memoryview) -> tuple[int, ApiMessage]:
    """The correlation id and the message of a response frame without its length.

    Raises MessageError when the bytes are no such response.
    """
    api = APIS[api_key]
    correlation_id, body_offset = decode_response_header(frame, api.response_header_version(version) == 1)
    return correlation_id, api.response_class.decode(version, frame, body_offset)


def _request_head(correlation_id: int, client_id: str | None, message: ApiMessage, version: int) -> bytes:
    head = header.RequestHeader(
        request_api_key=message.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return head.encode(APIS[message.API_KEY].request_header_version(version))


def _response_head(correlation_id: int, message: ApiMessage, version: int) -> bytes:
    head = _CORRELATION_ID.pack(correlation_id)
    return head + _NO_TAGGED_FIELDS if APIS[message.API_KEY].response_header_version(version) else head
