"""A slow and plain reader of record batches, by the description of the format, beside which the kernel is held.

It knows nothing of the kernel; compressed payloads are opened by other libraries. Source:
https://kafka.apache.org/documentation/#recordbatch.
"""

from dataclasses import dataclass, replace

from tests.unit.native.independent_codec import HEADER, HEADER_BYTES, unpack, with_crc

LOG_APPEND_TIME = 0x08
CONTROL = 0x20
OLDEST_HEADER_BYTES = 17
"""Up to the magic, which says how to read on."""


class RefusedError(Exception):
    """The bytes are not what the format allows."""


class OpaqueError(Exception):
    """The payload cannot be opened by the other libraries; they do not all accept the same."""


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record, its header keys not yet text."""

    attributes: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class _Bytes:
    """Takes parts from the front of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise RefusedError("beyond the end")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, width: int) -> int:
        raw = 0
        for index in range((width + 6) // 7):
            (byte,) = self.take(1)
            raw |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if raw >> width:
                    break
                return -(raw >> 1) - 1 if raw & 1 else raw >> 1
        raise RefusedError("a varint that is too large")

    def nullable(self) -> bytes | None:
        size = self.varint(32)
        return None if size == -1 else self.take(size)


def read_run(data: bytes) -> list[PlainRecord]:
    """The records of the data batches at the start of `data`, up to a batch that is not whole.

    Raises RefusedError at the first thing that is not right, OpaqueError at a payload that cannot be judged.
    """
    found: list[PlainRecord] = []
    position = 0
    while len(data) - position >= OLDEST_HEADER_BYTES:
        length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if data[position + 16] != 2 or length < HEADER_BYTES - 12:
            raise RefusedError("no batch")
        if position + 12 + length > len(data):
            return found
        found += _read_batch(data[position : position + 12 + length])
        position += 12 + length
    if len(data) - position >= 12 and int.from_bytes(data[position + 8 : position + 12], "big", signed=True) < 14:
        raise RefusedError("no batch of any format is so short")
    return found


def _read_batch(batch: bytes) -> list[PlainRecord]:
    base_offset, _, _, _, _, attributes, last_delta, base_time, max_time, _, _, _, count = HEADER.unpack_from(batch)
    if attributes & CONTROL or min(base_offset + last_delta, (1 << 63) - 1) < 0:
        return []
    if bytes(with_crc(batch)) != batch:
        raise RefusedError("a wrong checksum")
    if last_delta < 0 or not 0 <= count <= last_delta + 1 or base_offset < 0 or base_offset + last_delta >= 1 << 63:
        raise RefusedError("counts and offsets that do not go together")
    codec = attributes & 7
    if codec > 4:
        raise RefusedError("no such codec")
    payload = batch[HEADER_BYTES:]
    if codec and payload:
        try:
            payload = unpack(codec, payload)
        except Exception as error:
            raise OpaqueError(str(error)) from error
    rest = _Bytes(payload)
    records: list[PlainRecord] = []
    least = 0
    for _ in range(count):
        delta, record = _read_record(rest, base_offset, base_time)
        if not least <= delta <= last_delta:
            raise RefusedError("offsets that do not increase")
        least = delta + 1
        time = max_time if attributes & LOG_APPEND_TIME else record.timestamp
        if not -(1 << 63) <= time < 1 << 63:
            raise RefusedError("a time out of range")
        records.append(replace(record, timestamp=time))
    if rest.at != len(payload):
        raise RefusedError("bytes after the last record")
    return records


def _read_record(rest: _Bytes, base_offset: int, base_time: int) -> tuple[int, PlainRecord]:
    size = rest.varint(32)
    end = rest.at + size
    (attributes,) = rest.take(1)
    time_delta, offset_delta = rest.varint(64), rest.varint(32)
    key, value = rest.nullable(), rest.nullable()
    count = rest.varint(32)
    if count < 0:
        raise RefusedError("a negative count of headers")
    headers = []
    for _ in range(count):
        name = rest.nullable()
        if name is None:
            raise RefusedError("a header without a key")
        headers.append((name, rest.nullable()))
    if rest.at != end:
        raise RefusedError("a record of another length")
    record = PlainRecord(attributes, base_offset + offset_delta, base_time + time_delta, key, value, tuple(headers))
    return offset_delta, record
