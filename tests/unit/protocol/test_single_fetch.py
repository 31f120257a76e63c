"""A Fetch of one partition as the kernel reads and answers it, beside the general codec."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import RequestHeader, SingleFetchRequest
from ottla.native.errors import MessageError
from ottla.protocol.frame import decode_request, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from ottla.protocol.messages.header import RequestHeader as Header
from tests.fuzz.targets import single_fetch
from tests.fuzz.targets.single_produce import RAW
from tests.unit.protocol.message_strategy import messages

pytestmark = pytest.mark.slow

VERSIONS = range(FetchRequest.MIN_VERSION, FetchRequest.MAX_VERSION + 1)
TOPIC_ID = UUID(int=7)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=5) | st.sampled_from(["", "é" * 64, "t" * 249, "t" * 32767])


def request_of(version: int, topic: str = "t", wanted: FetchPartition | None = None, **fields: object) -> FetchRequest:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": topic}
    topics = (FetchTopic(**named, partitions=(wanted or FetchPartition(),)),)
    return FetchRequest(**{"topics": topics, **fields})  # type: ignore[arg-type]


def frame_of(version: int, request: FetchRequest, client_id: str | None = "c", correlation_id: int = 1) -> bytes:
    return encode_request(correlation_id, client_id, request, version)[4:]


def is_read_alike(frame: bytes) -> bool:
    """Whether the kernel reads a frame by itself; if it does, as the general codec does."""
    single_fetch.check(bytes([RAW]) + frame)
    return isinstance(decode_request(frame), SingleFetchRequest)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_one_partition_has_what_the_general_codec_reads_and_the_answer_it_writes(version: int) -> None:
    @given(
        st.none() | names,
        int32,
        names,
        st.tuples(int32, int32, int32),
        st.integers(0, 1),
        st.tuples(int32, int32, int64, int32, int64, int32),
        st.tuples(int64, int64, int64),
        st.lists(st.binary(min_size=1, max_size=400), max_size=3),
    )
    def check(
        client_id: str | None,
        correlation_id: int,
        topic: str,
        limits: tuple[int, int, int],
        isolation_level: int,
        partition: tuple[int, int, int, int, int, int],
        offsets: tuple[int, int, int],
        slices: list[bytes],
    ) -> None:
        index, leader_epoch, offset, last_epoch, log_start, max_bytes = partition
        wanted = FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch if version >= 9 else -1,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch if version >= 12 else -1,
            log_start_offset=log_start if version >= 5 else -1,
            partition_max_bytes=max_bytes,
        )
        wait, least, most = limits
        request = request_of(
            version,
            topic,
            wanted,
            max_wait_ms=wait,
            min_bytes=least,
            max_bytes=most,
            isolation_level=isolation_level,
        )
        frame = frame_of(version, request, client_id, correlation_id)
        assert is_read_alike(frame)
        found = decode_request(frame)
        assert isinstance(found, SingleFetchRequest)
        single_fetch.assert_answered_alike(found, correlation_id, request, offsets, tuple(slices))

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_any_request_is_read_alike_or_left_to_the_general_codec(version: int) -> None:
    rare = {
        ("FetchRequest", "IsolationLevel"): st.sampled_from([0, 1, 2]),
        ("FetchRequest", "ReplicaId"): st.sampled_from([-1, 3]),
        ("FetchRequest", "SessionId"): st.sampled_from([0, 5]),
        ("FetchRequest", "SessionEpoch"): st.sampled_from([-1, 0, 1]),
        ("FetchRequest", "RackId"): st.sampled_from(["", "r"]),
    }

    @given(messages(FetchRequest, version, rare))
    def check(request: FetchRequest) -> None:
        assert is_read_alike(frame_of(version, request)) == single_fetch.is_of_one_partition(request)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_was_changed_or_cut_is_read_alike_or_left_to_the_general_codec(version: int) -> None:
    frame = frame_of(version, request_of(version))

    @given(st.integers(0, len(frame) - 1), st.integers(0, 255), st.integers(0, len(frame)), st.binary(max_size=2))
    def check(at: int, byte: int, end: int, more: bytes) -> None:
        changed = bytearray(frame)
        changed[at] = byte
        for each in (bytes(changed), frame[:end] + more):
            single_fetch.check(bytes([RAW]) + each)

    check()


@pytest.mark.parametrize(
    ("since", "fields"),
    [
        (4, {"isolation_level": 2}),
        (4, {"topics": ()}),
        (4, {"topics": (FetchTopic(topic="t"),)}),
        (7, {"session_epoch": 0}),
        (7, {"session_id": 5, "session_epoch": 1}),
        (7, {"forgotten_topics_data": (ForgottenTopic(topic="t", partitions=(1,)),)}),
        (11, {"rack_id": "r"}),
        (12, {"cluster_id": "c"}),
        (15, {"replica_state": ReplicaState(replica_id=2)}),
    ],
)
def test_what_is_out_of_the_common_is_left_to_the_general_codec(since: int, fields: dict[str, object]) -> None:
    for version in VERSIONS:
        if version < since or (version >= 13 and {"topics", "forgotten_topics_data"} & fields.keys()):
            continue
        assert is_read_alike(frame_of(version, request_of(version)))
        assert not is_read_alike(frame_of(version, request_of(version, **fields)))  # type: ignore[arg-type]


def test_a_replica_is_left_to_the_general_codec() -> None:
    assert not is_read_alike(frame_of(11, request_of(11, replica_id=2)))


@pytest.mark.parametrize("version", [12, 13, 18])
@pytest.mark.parametrize("position", ["header", "partition", "topic", "request"])
def test_tagged_fields_are_left_to_the_general_codec(version: int, position: str) -> None:
    frame = frame_of(version, request_of(version))
    head = len(Header(request_api_key=1, request_api_version=version, correlation_id=1, client_id="c").encode(2))
    # Behind the topics: forgotten topics and the rack, a byte each.
    at = {"header": head - 1, "partition": -5, "topic": -4, "request": -1}[position] % len(frame)
    assert frame[at] == 0
    tagged = frame[:at] + b"\x01\x63\x02ab" + frame[at + 1 :]
    assert is_read_alike(frame)
    assert not is_read_alike(tagged)


def test_an_answer_that_no_frame_can_hold_is_an_error_as_that_of_the_general_codec() -> None:
    found = decode_request(frame_of(11, request_of(11)))
    assert isinstance(found, SingleFetchRequest)
    with pytest.raises(MessageError, match="the frame is larger than 2 GiB"):
        found.answer(1, 1, 0, 2**31 - 1, ())


def test_a_request_with_a_header_that_is_none_is_refused_in_the_same_words() -> None:
    single_fetch.check(bytes([RAW]) + b"\0\1\0")
    assert isinstance(decode_request(frame_of(12, FetchRequest())), RequestHeader)
