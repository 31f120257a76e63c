"""Record batches as others see them: Arrow's and Python's codecs, the header by `struct`, records by other clients.

aiokafka and kafka-python read and write uncompressed batches here without optional packages, so a compressed batch is
turned into an uncompressed one, and the other way round, by codecs that are not the kernel's.
"""

import gzip
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import zstandard
from aiokafka.record._crecords.cutil import crc32c_cython
from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder
from hypothesis import strategies as st

HEADER = struct.Struct(">qiibIhiqqqhii")
FIELDS = (
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta", "base_timestamp"),
    *("max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count"),
)
HEADER_BYTES = 61
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

blobs = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=20), blobs), max_size=4)
timestamps = st.integers(min_value=0, max_value=2**42)
records = st.lists(st.tuples(timestamps, blobs, blobs, headers), min_size=1, max_size=40)


def pack(codec: int, data: bytes) -> bytes:
    """`data` compressed by another library, in the framing Kafka uses."""
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        blocks = [data[at : at + 32768] for at in range(0, len(data), 32768)]
        packed = [pa.compress(block, codec="snappy", asbytes=True) for block in blocks]
        return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in packed)
    if codec in {LZ4, ZSTD}:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, {LZ4: "lz4", ZSTD: "zstd"}[codec]) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return data


def unpack(codec: int, data: bytes) -> bytes:
    """What another library finds in `data`."""
    if codec == GZIP:
        return gzip.decompress(data)
    if codec == SNAPPY:
        assert data.startswith(XERIAL)
        out, at = [], len(XERIAL)
        while at < len(data):
            (length,) = struct.unpack_from(">i", data, at)
            block = data[at + 4 : at + 4 + length]
            out.append(pa.decompress(block, uvarint(block), codec="snappy", asbytes=True))
            at += 4 + length
        return b"".join(out)
    if codec == LZ4:
        with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
            return stream.read()
    if codec == ZSTD:
        return unpack_zstd(data)
    return data


def unpack_zstd(data: bytes) -> bytes:
    """All frames of `data`. Not by Arrow, which forgets to free a quarter of a megabyte for each that is corrupt."""
    out = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        out.append(frame.decompress(data))
        if not frame.eof:
            raise ValueError("the frame is cut short")
        data = frame.unused_data
    return b"".join(out)


def uvarint(data: bytes) -> int:
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    return value


def with_header(batch: bytes | bytearray, **changes: int) -> bytearray:
    """The batch with some header fields changed, the length and the CRC made right (unless they are among them)."""
    fields = dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True))
    fields["length"] = len(batch) - 12
    fields.update(changes)
    out = bytearray(HEADER.pack(*fields.values()) + bytes(batch[HEADER_BYTES:]))
    return out if "crc" in changes else with_crc(out)


def with_crc(batch: bytes | bytearray) -> bytearray:
    out = bytearray(batch)
    struct.pack_into(">I", out, 17, crc32c_cython(memoryview(bytes(out[21:]))))
    return out


def with_payload(batch: bytes | bytearray, payload: bytes, **changes: int) -> bytearray:
    return with_header(bytes(batch[:HEADER_BYTES]) + payload, **changes)


def recompressed(batch: bytes | bytearray, codec: int) -> bytes:
    """The same batch in another codec, by the other libraries."""
    attributes = HEADER.unpack_from(batch)[5]
    plain = unpack(attributes & 7, bytes(batch[HEADER_BYTES:]))
    return bytes(with_payload(batch, pack(codec, plain), attributes=attributes & ~7 | codec))


def aiokafka_batch(items: Sequence[Record], codec: int = NONE, base_offset: int = 0, **producer: int) -> bytes:
    """A batch that aiokafka's C codec writes."""
    state = {"is_transactional": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | producer
    builder = DefaultRecordBatchBuilder(magic=2, compression_type=0, batch_size=1 << 30, **state)
    for offset, (timestamp, key, value, record_headers) in enumerate(items):
        assert builder.append(offset, timestamp, key, value, record_headers) is not None
    return recompressed(bytes(with_header(bytes(builder.build()), base_offset=base_offset)), codec)


def read_by(batch_class: Any, batch: bytes | bytearray) -> list[tuple[int, int, bytes | None, bytes | None, list[Any]]]:
    """The records that another client's class finds in an uncompressed batch."""
    other = batch_class(bytes(batch))
    assert other.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in other]
