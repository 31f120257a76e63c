"""The kernel's reader of records beside a plain one in Python, kafka-python's on what both accept, and a consumer's.

how, 1 byte: bit 0 lengths, magic and checksums are made right, bit 3 the payload is compressed by another library | run
"""

import struct
from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatch

from ottla.client.consuming.consumer_record import records_of
from ottla.client.consuming.fetch import AbortedTransaction, FetchedBatches
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_records, walk_batches
from ottla.native.errors import DecompressionLimitError, KernelError
from tests.fuzz.plain_batches import OpaqueError, PlainRecord, RefusedError, read_run
from tests.unit.native.independent_codec import HEADER, HEADER_BYTES, pack, read_by, with_crc

BUDGET_BYTES = 1 << 20
EXPANSION_MAX = (1, 1032, 22, 256, 32 * 1024)
"""What a byte can stand for at most, by codec. A block of zstd that repeats one byte takes four bytes for 128 KiB."""


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    run = data[1:]
    if data[0] & 8:
        run = compressed(run)
    elif data[0] & 1:
        run = sealed(run)
    try:
        expected: list[PlainRecord] | None = read_run(run)
    except RefusedError:
        expected = None
    except OpaqueError:
        # The libraries differ in what they accept around a compressed payload; then only a crash would be a finding.
        decodes(run)
        return
    found = decodes(run)
    if found is None or expected is None:
        assert (found is None) == (expected is None), f"the kernel {'accepts' if expected is None else 'refuses'} it"
        return
    assert [as_read(record) for record in expected] == found
    others_agree(run)
    consumers_agree(run, found)


def decodes(run: bytes) -> Sequence[tuple[object, ...]] | None:
    """What the kernel finds, None when it refuses."""
    try:
        return decode_records(run, max_decompressed_bytes=BUDGET_BYTES)
    except DecompressionLimitError:
        batches, _, _ = walk_batches(run, check_crc=False)
        holds = sum(batch.size * EXPANSION_MAX[batch.codec] for batch in batches)
        assert holds > BUDGET_BYTES, "so few bytes cannot hold so much"
        return None
    except KernelError:
        return None


def as_read(record: PlainRecord) -> tuple[object, ...]:
    """The record as the kernel gives it."""
    headers = [(key.decode(errors="replace"), value) for key, value in record.headers]
    return record.offset, record.timestamp, record.key, record.value, headers


def others_agree(run: bytes) -> None:
    """kafka-python reads the same from each uncompressed batch of data, but for what it takes for something else."""
    batches, _, _ = walk_batches(run, check_crc=True)
    for batch in batches:
        if batch.codec or batch.is_control:
            continue
        one = run[batch.position : batch.position + batch.size]
        ours = decode_records(one, max_decompressed_bytes=0)
        # It wants header keys to be text, and reads the attributes of a record, one byte, as a varint.
        is_text = all("\ufffd" not in key for record in ours for key, _ in record[4])
        if is_text and all(record.attributes < 0x80 for record in read_run(one)):
            assert read_by(DefaultRecordBatch, one) == ours


def consumers_agree(run: bytes, found: list[tuple[object, ...]]) -> None:
    """A consumer gets all of it, or, where transactions were aborted, some of it in the same order.

    It also looks at the headers of batches that decoding passes over: markers, and batches below the first offset.
    """
    batches, _, error = walk_batches(run, check_crc=False)
    if error is not None:
        return
    for aborted in ((), tuple(AbortedTransaction(batch.producer_id, 0) for batch in batches)):
        fetched = FetchedBatches(TopicPartition("orders", 0), 0, memoryview(run), 0, 0, 0, aborted)
        seen = [record[2:] for record in records_of(fetched, decompressed_bytes_max=BUDGET_BYTES)]
        rest = iter(found)
        assert all(any(record == other for other in rest) for record in seen)
        assert aborted or seen == found


def sealed(run: bytes) -> bytes:
    """Every batch with its length, magic and checksum right."""
    out, position = bytearray(), 0
    while len(run) - position >= HEADER_BYTES:
        (length,) = struct.unpack_from(">i", run, position + 8)
        size = length + 12 if HEADER_BYTES <= length + 12 <= len(run) - position else len(run) - position
        batch = bytearray(run[position : position + size])
        struct.pack_into(">i", batch, 8, size - 12)
        batch[16] = 2
        out += with_crc(batch)
        position += size
    return bytes(out) + run[position:]


def compressed(run: bytes) -> bytes:
    """One batch whose payload is compressed as its attributes say."""
    if len(run) < HEADER_BYTES:
        return run
    codec = HEADER.unpack_from(run)[5] & 7
    return sealed_whole(run[:HEADER_BYTES] + (pack(codec, run[HEADER_BYTES:]) if codec <= 4 else run[HEADER_BYTES:]))


def sealed_whole(run: bytes) -> bytes:
    """All of it as one batch."""
    return sealed(run[:8] + (len(run) - 12).to_bytes(4, "big") + run[12:])
