"""Bytes from anybody: every cut, every changed byte and every lie is decoded or refused with a typed error."""

import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from ottla.native import (
    assign_offsets,
    assign_producer,
    build_batch,
    decode_arrow,
    decode_records,
    validate_batches,
    walk_batches,
)
from ottla.native.errors import CorruptRecordError, DecompressionLimitError, InvalidRecordError, KernelError
from tests.unit.native.independent_codec import (
    CODECS,
    GZIP,
    HEADER_BYTES,
    LZ4,
    SNAPPY,
    XERIAL,
    ZSTD,
    pack,
    with_crc,
    with_header,
    with_payload,
)

LIMIT = 100_000
ITEMS = [(1_000 + i, b"key %d" % i, b"value" * i, [("h", b"x" * i), ("n", None)]) for i in range(5)]


def use(data: bytes | bytearray) -> None:
    """Give `data` to everything that reads bytes; anything but a result or a KernelError escapes."""
    for work in (
        lambda: validate_batches(data),
        lambda: walk_batches(data, check_crc=True),
        lambda: assign_offsets(bytearray(data), 5, 5, 5),
        lambda: assign_producer(bytearray(data), 5, 5, 5),
        lambda: decode_records(data, max_decompressed_bytes=LIMIT),
        lambda: decode_arrow(
            data,
            max_decompressed_bytes=LIMIT,
            start_offset=0,
            end_offset=2**63 - 1,
            topic="t",
            partition=0,
            include_headers=True,
        ),
    ):
        try:
            work()
        except KernelError as error:
            assert str(error)  # noqa: PT017


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_of_a_batch(codec: int) -> None:
    batch = build_batch(ITEMS, codec=codec)
    for length in range(len(batch)):
        use(batch[:length])
        if length >= HEADER_BYTES:
            use(with_header(bytes(batch[:length])))


@pytest.mark.parametrize("codec", CODECS)
def test_every_changed_byte_of_a_batch_without_and_with_a_right_checksum(codec: int) -> None:
    batch = build_batch(ITEMS, codec=codec)
    for at in range(len(batch)):
        for change in (0x01, 0x80, 0xFF, 0x7F):
            changed = bytearray(batch)
            changed[at] ^= change
            use(changed)
            use(with_crc(changed))


def test_a_changed_byte_under_the_checksum_is_never_decoded() -> None:
    batch = build_batch(ITEMS)
    for at in range(17, len(batch)):
        changed = bytearray(batch)
        changed[at] ^= 0x10
        with pytest.raises(CorruptRecordError):
            decode_records(changed, max_decompressed_bytes=LIMIT)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 4, 6, 1000, 2**31 - 1, -1])
def test_a_lying_record_count_is_refused(codec: int, count: int) -> None:
    lie = with_header(bytes(build_batch(ITEMS, codec=codec)), count=count, last_offset_delta=2**31 - 1)
    with pytest.raises(CorruptRecordError):
        decode_records(lie, max_decompressed_bytes=LIMIT)


def test_bytes_after_the_last_record_are_refused() -> None:
    batch = build_batch(ITEMS)
    with pytest.raises(CorruptRecordError, match="bytes follow the last record"):
        decode_records(with_payload(batch, bytes(batch[HEADER_BYTES:]) + b"\0"), max_decompressed_bytes=LIMIT)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ("", "end inside a record"),
        ("01", "length is negative"),
        ("0d", "length is negative"),
        ("feffffff0f", "longer than what is left"),
        ("ffffffffff01", "varint is too large"),
        ("ffffffffffffffffffffff", "varint is too l"),
        ("0c 00 00 00 03 01 00", "key's length is negative"),
        ("0c 00 00 00 01 05 00", "value's length is negative"),
        ("0c 00 00 00 7e 01 00", "larger than what is left"),
        ("0c 00 00 00 01 01 01", "count of headers"),
        ("0c 00 00 00 01 01 7e", "count of headers"),
        ("10 00 00 00 01 01 02 01 01", "a header has no key"),
        ("10 00 00 00 01 01 02 03 01", "header's key length is negative"),
        ("10 00 00 00 01 01 02 00 05", "header's value length is negative"),
        ("0e 00 00 00 01 01 00 00", "not that of its fields"),
        ("0a 00 00 00 01 01 00", "not that of its fields"),
        ("0c 00 00 02 01 01 00", "offset is not between"),
        ("0c 00 00 01 01 01 00", "offset is not between"),
        ("1e 00 feffffffffffffffff01 00 01 01 00", "timestamp is out of range"),
    ],
)
def test_a_malformed_record_is_named_with_its_place(record: str, what: str) -> None:
    batch = build_batch([(1_000, None, None, [])], base_offset=55)
    assert bytes(batch[HEADER_BYTES:]).hex(" ") == "0c 00 00 00 01 01 00"
    bad = with_payload(batch, bytes.fromhex(record))
    with pytest.raises(CorruptRecordError, match=what) as caught:
        decode_records(build_batch(ITEMS) + bad, max_decompressed_bytes=LIMIT)
    assert (caught.value.batch_index, caught.value.base_offset) == (1, 55)
    assert "record 0" in str(caught.value)


def test_two_records_with_one_offset_are_refused() -> None:
    one = bytes.fromhex("0c 00 00 00 01 01 00")
    twice = with_payload(build_batch([(0, None, None, [])] * 2), one + one)
    with pytest.raises(CorruptRecordError, match="record 1: a record's offset"):
        decode_records(twice, max_decompressed_bytes=LIMIT)


def bare_snappy(data: bytes) -> bytes:
    """One block without the framing, as librdkafka packs it."""
    return pa.compress(data, codec="snappy", asbytes=True)


PACKERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, partial(pack, GZIP)),
    "framed snappy": (SNAPPY, partial(pack, SNAPPY)),
    "bare snappy": (SNAPPY, bare_snappy),
    "lz4": (LZ4, partial(pack, LZ4)),
    "zstd": (ZSTD, partial(pack, ZSTD)),
}


@pytest.mark.parametrize("packer", PACKERS)
def test_a_bomb_is_refused_at_the_limit_and_not_before(packer: str) -> None:
    zeros = build_batch([(0, None, bytes(8_000_000), [])])
    size = len(zeros) - HEADER_BYTES
    codec, packed_by = PACKERS[packer]
    bomb = with_payload(zeros, packed_by(bytes(zeros[HEADER_BYTES:])), attributes=codec)
    assert len(decode_records(bomb, max_decompressed_bytes=size)) == 1
    for limit in (size - 1, 1000, 1, 0):
        with pytest.raises(DecompressionLimitError):
            decode_records(bomb, max_decompressed_bytes=limit)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_the_limit_holds_for_all_batches_together_and_says_how_far_one_can_go(codec: int) -> None:
    batch = build_batch([(0, None, bytes(10_000), [])], codec=codec)
    plain = len(build_batch([(0, None, bytes(10_000), [])])) - HEADER_BYTES
    with pytest.raises(DecompressionLimitError) as caught:
        decode_records(batch * 5, max_decompressed_bytes=3 * plain)
    assert caught.value.position == 3 * len(batch)
    assert len(decode_records(bytes(batch * 5)[: caught.value.position], max_decompressed_bytes=3 * plain)) == 3


def lz4_frame(flags: int, block_code: int, extra: bytes = b"") -> bytes:
    return bytes.fromhex("04224d18") + bytes([flags, block_code]) + extra


LIES = {
    "snappy that claims 4 GiB": (SNAPPY, bytes.fromhex("ffffffff0f") + b"0123456789"),
    "a xerial block that claims 2 GiB": (SNAPPY, XERIAL + struct.pack(">i", 2**31 - 1) + b"abc"),
    "a xerial block of negative length": (SNAPPY, XERIAL + struct.pack(">i", -1) + b"abc"),
    "a xerial block whose snappy claims 4 GiB": (SNAPPY, XERIAL + struct.pack(">i", 7) + b"\xff\xff\xff\xff\x0f\0a"),
    "half a xerial header": (SNAPPY, XERIAL[:12]),
    "zstd that claims 5 GiB": (ZSTD, bytes.fromhex("28b52ffd e0") + struct.pack("<Q", 5 << 30) + b"\x01\0\0"),
    "zstd that wants a window of 2 GiB": (ZSTD, bytes.fromhex("28b52ffd 00 a8 09 00 00 41")),
    "zstd cut short": (ZSTD, pack(ZSTD, bytes(1000))[:-3]),
    "an lz4 frame with a wrong header checksum": (LZ4, lz4_frame(0x60, 0x40, b"\x83") + bytes(4)),
    "an lz4 frame that needs a dictionary": (LZ4, lz4_frame(0x61, 0x40, b"\0\0\0\0\0") + bytes(4)),
    "an lz4 block size that does not exist": (LZ4, lz4_frame(0x60, 0x30, b"\x73") + bytes(4)),
    "an lz4 block larger than its frame allows": (LZ4, lz4_frame(0x60, 0x40, b"\x82") + struct.pack("<I", 2**31 - 1)),
    "the legacy lz4 frame": (LZ4, bytes.fromhex("02214c18") + bytes(8)),
    "gzip cut short": (GZIP, pack(GZIP, bytes(1000))[:-3]),
    "gzip with rubbish behind": (GZIP, pack(GZIP, b"abc") + b"rubbish"),
    "nothing compressed by gzip": (GZIP, b"\x1f\x8b"),
}


@pytest.mark.parametrize("name", LIES)
def test_what_claims_more_than_it_is_is_corrupt(name: str) -> None:
    codec, payload = LIES[name]
    batch = with_payload(build_batch([(0, None, b"", [])]), payload, attributes=codec)
    with pytest.raises(CorruptRecordError, match="base offset 0"):
        decode_records(batch, max_decompressed_bytes=2**40)


@pytest.mark.slow
def test_no_lie_and_no_bomb_makes_the_process_allocate() -> None:
    zeros = bytes(build_batch([(0, None, bytes(64_000_000), [])])[HEADER_BYTES:])
    bombs = [(codec, packed_by(zeros)) for codec, packed_by in PACKERS.values()]
    window = bytes.fromhex("28b52ffd 00 88 09 00 00 41")  # a zstd frame of one byte that wants a window of 128 MiB
    batches = [
        bytes(with_payload(build_batch([(0, None, b"", [])]), payload, attributes=codec))
        for codec, payload in [*LIES.values(), *bombs, (ZSTD, window)]
    ]
    program = textwrap.dedent("""
        import resource, sys
        from ottla.native import decode_records
        from ottla.native.errors import KernelError
        batches = eval(sys.stdin.read())
        before = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (before + (48 << 20), resource.RLIM_INFINITY))
        for batch in batches:
            try:
                decode_records(batch, max_decompressed_bytes=4 << 20)
            except KernelError:
                continue
            sys.exit("not refused")
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], input=repr(batches), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def refused(batch: bytes | bytearray) -> str:
    """What a producer is told of a batch."""
    with pytest.raises(InvalidRecordError) as caught:
        validate_batches(batch)
    return str(caught.value)


@pytest.mark.parametrize("count", [1, 4, 6, 2**31 - 1])
def test_a_producer_may_not_lie_about_the_count_of_its_records(count: int) -> None:
    lie = with_header(bytes(build_batch(ITEMS)), count=count, last_offset_delta=count - 1)
    assert "record" in refused(lie)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_producer_may_not_promise_more_records_than_compressed_bytes_can_hold(codec: int) -> None:
    lie = with_header(bytes(build_batch(ITEMS, codec=codec)), count=2**31 - 1, last_offset_delta=2**31 - 2)
    assert "2147483647 records cannot be in" in refused(lie)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_a_producer_may_send_as_many_small_records_as_compress_well(codec: int) -> None:
    batch = build_batch([(0, None, None, [])] * 100_000)
    packed = with_payload(batch, pack(codec, bytes(batch[HEADER_BYTES:])), attributes=codec)
    assert validate_batches(packed)[0].record_count == 100_000


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_producer_may_not_send_something_else_than_its_codec_writes(codec: int) -> None:
    assert "not compressed with" in refused(with_payload(build_batch(ITEMS), b"anything else", attributes=codec))


@pytest.mark.parametrize("payload", [b"", b"\xff" * 50, b"\0" * 50])
def test_a_producer_may_not_send_what_no_reader_can_read(payload: bytes) -> None:
    assert refused(with_payload(build_batch(ITEMS), payload))


def test_a_producer_may_not_repeat_or_leave_out_offsets() -> None:
    first, second = bytes.fromhex("0c 00 00 00 01 01 00"), bytes.fromhex("0c 00 00 02 01 01 00")
    third = bytes.fromhex("0c 00 00 04 01 01 00")
    three = build_batch([(0, None, None, [])] * 3)
    assert bytes(three[HEADER_BYTES:]) == first + second + third
    for lie in (first + first + third, first + third + third, second + first + third, first + third + second):
        assert "a record's offset" in refused(with_payload(three, lie))


def test_a_producer_may_not_set_the_delete_horizon() -> None:
    assert "log cleaner" in refused(with_header(bytes(build_batch(ITEMS)), attributes=0x40))


def test_timestamps_that_leave_64_bits_are_refused() -> None:
    batch = build_batch([(0, None, None, []), (1, None, None, [])])
    assert "timestamp is out of range" in refused(with_header(bytes(batch), base_timestamp=2**63 - 1))
