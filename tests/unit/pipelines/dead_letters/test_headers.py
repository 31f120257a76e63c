"""What the headers of a dead letter say is read as it was written, and what is not ours is left as it was."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.dead_letters.headers import (
    Header,
    Letter,
    headers_of,
    is_letter,
    letter_of,
    own_headers,
    sent_back,
)

_TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NUMBER = st.none() | st.integers(-1, (1 << 63) - 1)
_LETTERS = st.builds(
    Letter,
    topic=_TEXT,
    partition=_NUMBER,
    offset=_NUMBER,
    timestamp_ms=_NUMBER,
    pipeline=_TEXT,
    step=_TEXT,
    error_class=_TEXT,
    reason=_TEXT,
    attempt=_NUMBER,
    batch=_NUMBER,
    replays=st.integers(0, 1_000),
    cut=_TEXT,
)
_OWN = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4)


@given(_LETTERS, _OWN)
def test_what_was_written_is_read_again_and_the_records_headers_stay(letter: Letter, own: list[Header]):
    headers = [*own, *headers_of(letter)]
    assert letter_of(headers) == letter
    assert own_headers(headers) == own


@given(
    st.lists(
        st.tuples(
            st.sampled_from([name for name, _ in headers_of(Letter("t", 0, 0, 0, "", "", "", "", 0, 0))]),
            st.none() | st.binary(max_size=30),
        ),
        max_size=12,
    )
)
def test_whatever_stands_in_the_headers_is_read_without_an_error(headers: list[Header]):
    letter = letter_of(headers)
    assert letter_of(headers_of(letter)) == letter


def test_the_names_and_the_text_of_the_values():
    letter = Letter("events", 3, 41, 1_700_000_000_000, "flights", "sane", "delay", "9999 is too late", 1, 7, 2)
    assert headers_of(letter) == [
        ("__ottla.errors.topic", b"events"),
        ("__ottla.errors.partition", b"3"),
        ("__ottla.errors.offset", b"41"),
        ("__ottla.errors.timestamp", b"1700000000000"),
        ("__ottla.errors.pipeline", b"flights"),
        ("__ottla.errors.step", b"sane"),
        ("__ottla.errors.exception", b"delay"),
        ("__ottla.errors.message", b"9999 is too late"),
        ("__ottla.errors.attempt", b"1"),
        ("__ottla.errors.batch", b"7"),
        ("__ottla.errors.replays", b"2"),
    ]
    assert letter.origin == "events-3@41"


def test_letters_of_kafka_streams_and_of_connect_are_read():
    streams: list[Header] = [
        ("trace", b"1"),
        ("__streams.errors.exception", b"java.lang.RuntimeException"),
        ("__streams.errors.stacktrace", b"at ..."),
        ("__streams.errors.message", b"broken"),
        ("__streams.errors.topic", b"in"),
        ("__streams.errors.partition", b"1"),
        ("__streams.errors.offset", b"5"),
    ]
    assert letter_of(streams) == Letter("in", 1, 5, error_class="java.lang.RuntimeException", reason="broken")
    assert own_headers(streams) == [("trace", b"1")]
    connect: list[Header] = [
        ("__connect.errors.topic", b"in"),
        ("__connect.errors.partition", b"0"),
        ("__connect.errors.offset", b"9"),
        ("__connect.errors.connector.name", b"lake"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.message", b"not JSON"),
    ]
    assert letter_of(connect) == Letter("in", 0, 9, pipeline="lake", step="VALUE_CONVERTER", reason="not JSON")


def test_a_letter_of_connect_that_was_refused_again_says_who_refused_it_last():
    ours = headers_of(Letter("dead", 2, 4, pipeline="repair", reason="still broken"))
    letter = letter_of([("__connect.errors.topic", b"in"), ("__connect.errors.stage", b"TASK_PUT"), *ours])
    assert (letter.topic, letter.step, letter.reason) == ("dead", None, "still broken")


def test_a_letter_of_a_pipeline_that_a_share_group_rejected_is_of_that_group():
    ours = headers_of(Letter("in", 0, 9, pipeline="lake", step="sane", reason="not JSON", batch=4, replays=2))
    share: list[Header] = [
        ("__dlq.errors.topic", b"dead"),
        ("__dlq.errors.partition", b"1"),
        ("__dlq.errors.offset", b"5"),
        ("__dlq.errors.group", b"repair"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]
    refused = Letter("dead", 1, 5, pipeline="repair", reason="Offset rejected by client.", attempt=3, replays=2)
    assert letter_of([*ours, *share]) == refused
    connect: list[Header] = [("__connect.errors.topic", b"in"), ("__connect.errors.stage", b"TASK_PUT")]
    assert letter_of([*connect, *share]).step is None


def test_a_record_that_was_sent_back_is_no_letter_and_counts():
    headers = [("trace", b"1"), *headers_of(Letter("events", 0, 1, reason="no"))]
    back = sent_back(headers, 1)
    assert back == [("trace", b"1"), ("__ottla.errors.replays", b"1")]
    assert not is_letter(letter_of(back))
    assert letter_of(back).replays == 1
    assert is_letter(letter_of(headers))


def test_a_number_that_is_none_is_left_out():
    assert letter_of([("__ottla.errors.offset", b"9" * 30), ("__ottla.errors.partition", b"one")]) == Letter()
