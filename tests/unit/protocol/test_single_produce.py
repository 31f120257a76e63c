"""A Produce to one partition as the kernel reads and answers it, beside the general codec."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import RequestHeader, SingleFetchRequest, SingleProduceRequest, build_batch
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_request, decode_request_header, encode_request
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.header import RequestHeader as Header
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.fuzz.targets import single_produce
from tests.unit.protocol.message_strategy import messages

pytestmark = pytest.mark.slow

VERSIONS = range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1)
TOPIC_ID = UUID(int=7)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=5) | st.sampled_from(["", "é" * 64, "t" * 249, "t" * 32767])


def plain_batch(filler: bytes, codec: int = 0) -> bytes:
    """Bytes that begin as a batch does, whatever else they are."""
    batch = bytearray(filler.ljust(61, b"\xff"))
    batch[16], batch[21:23] = 2, bytes([0xFF, (batch[22] & 0xE8) | codec])
    return bytes(batch)


batches = st.builds(plain_batch, st.binary(max_size=90), st.integers(0, 3))


def request_of(
    version: int, topic: str, records: bytes | None, *, index: int = 0, acks: int = -1, timeout_ms: int = 30_000
) -> ProduceRequest:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": topic}
    data = (PartitionProduceData(index=index, records=records),)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=(TopicProduceData(**named, partition_data=data),)
    )


def frame_of(version: int, request: ProduceRequest, client_id: str | None = "c", correlation_id: int = 1) -> bytes:
    return encode_request(correlation_id, client_id, request, version)[4:]


def is_read_alike(frame: bytes) -> SingleProduceRequest | SingleFetchRequest | RequestHeader:
    """What the kernel makes of a frame, which is what the general codec makes of it."""
    single_produce.check(bytes([single_produce.RAW]) + frame)
    return decode_request(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_to_one_partition_has_what_the_general_codec_reads_and_the_answer_it_writes(version: int) -> None:
    @given(
        st.none() | names,
        int32,
        st.sampled_from([-1, 0, 1]),
        int32,
        names,
        int32,
        batches,
        st.tuples(int64, int64, int64),
    )
    def check(
        client_id: str | None,
        correlation_id: int,
        acks: int,
        timeout_ms: int,
        topic: str,
        index: int,
        records: bytes,
        numbers: tuple[int, int, int],
    ) -> None:
        request = request_of(version, topic, records, index=index, acks=acks, timeout_ms=timeout_ms)
        found = is_read_alike(frame_of(version, request, client_id, correlation_id))
        assert isinstance(found, SingleProduceRequest)
        assert found.answer(*numbers) == single_produce.answer(correlation_id, version, request, *numbers)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_any_request_is_read_alike_or_left_to_the_general_codec(version: int) -> None:
    rare = {
        ("ProduceRequest", "Acks"): st.sampled_from([-1, 0, 1, 2]),
        ("PartitionProduceData", "Records"): batches | st.builds(plain_batch, st.binary(), st.just(4)) | st.binary(),
    }

    @given(messages(ProduceRequest, version, rare))
    def check(request: ProduceRequest) -> None:
        found = is_read_alike(frame_of(version, request))
        is_single = isinstance(found, SingleProduceRequest)
        assert is_single == single_produce.is_for_one_partition(request, version)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_was_changed_or_cut_is_read_alike_or_left_to_the_general_codec(version: int) -> None:
    frame = frame_of(version, request_of(version, "t", plain_batch(b"")))

    @given(st.integers(0, len(frame) - 1), st.integers(0, 255), st.integers(0, len(frame)), st.binary(max_size=2))
    def check(at: int, byte: int, end: int, more: bytes) -> None:
        changed = bytearray(frame)
        changed[at] = byte
        for each in (bytes(changed), frame[:end] + more):
            single_produce.check(bytes([single_produce.RAW]) + each)

    check()


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("position", ["header", "partition", "topic", "request"])
def test_tagged_fields_are_left_to_the_general_codec(version: int, position: str) -> None:
    frame = frame_of(version, request_of(version, "t", plain_batch(b"")))
    head = len(Header(request_api_key=0, request_api_version=version, correlation_id=1, client_id="c").encode(2))
    at = {"header": head - 1, "partition": -3, "topic": -2, "request": -1}[position] % len(frame)
    assert frame[at] == 0
    tagged = frame[:at] + b"\x01\x63\x02ab" + frame[at + 1 :]
    assert isinstance(is_read_alike(frame), SingleProduceRequest)
    assert isinstance(is_read_alike(tagged), RequestHeader)


def test_the_batches_of_clients_are_plain_but_for_transactions_and_zstd_that_comes_too_early() -> None:
    records = [(0, None, b"x", ())]
    for version in VERSIONS:
        for codec in range(5):
            idempotent = build_batch(records, codec=codec, producer_id=5, producer_epoch=0, base_sequence=9)
            found = is_read_alike(frame_of(version, request_of(version, "t", bytes(idempotent))))
            assert isinstance(found, SingleProduceRequest) == (codec != 4 or version >= 7)
        transactional = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=9, is_transactional=True)
        found = is_read_alike(frame_of(version, request_of(version, "t", bytes(transactional))))
        assert isinstance(found, RequestHeader)


def test_records_are_a_view_of_the_frame_that_may_be_written_to() -> None:
    frame = bytearray(frame_of(9, request_of(9, "t", plain_batch(b""))))
    found = decode_request(memoryview(frame))
    assert isinstance(found, SingleProduceRequest)
    found.records[:8] = b"\1" * 8
    assert bytes(frame).count(b"\1" * 8) == 1


def test_a_request_of_another_api_is_its_header() -> None:
    frame = encode_request(5, "me", FetchRequest(), 12)[4:]
    assert repr(decode_request(frame)) == repr(decode_request_header(frame))
    assert decode_request(frame).api_key == ApiKey.FETCH
