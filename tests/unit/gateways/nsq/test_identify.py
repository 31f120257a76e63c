"""IDENTIFY of NSQ clients: what is taken, what is refused, what is answered by nsqd 1.3.0."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.identify import ClientOptions, negotiated, options_before_identify, options_of
from ottla.gateways.nsq.limits import NsqLimits

LIMITS = NsqLimits(is_deflate_enabled=True, is_snappy_enabled=True)
BEFORE = options_before_identify(LIMITS)


def options(body: bytes | dict[str, Any], *, has_tls: bool = False) -> ClientOptions:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return options_of(data, LIMITS, BEFORE, has_tls=has_tls)


def test_the_answer_to_a_client_that_negotiates_is_that_of_nsqd() -> None:
    told = negotiated(options({"feature_negotiation": True}), LIMITS, auth_required=False)
    assert told == (
        b'{"max_rdy_count":2500,"version":"1.3.0","max_msg_timeout":900000,"msg_timeout":60000,"tls_v1":false,'
        b'"deflate":false,"deflate_level":6,"max_deflate_level":6,"snappy":false,"sample_rate":0,'
        b'"auth_required":false,"output_buffer_size":16384,"output_buffer_timeout":250}'
    )


def test_what_is_said_is_taken() -> None:
    said = {
        "client_id": "c",
        "hostname": "h",
        "user_agent": "u/1",
        "feature_negotiation": True,
        "heartbeat_interval": 1000,
        "output_buffer_size": 64,
        "output_buffer_timeout": 30000,
        "tls_v1": True,
        "deflate": True,
        "deflate_level": 9,
        "sample_rate": 99,
        "msg_timeout": 900000,
    }
    assert options(said, has_tls=True) == ClientOptions(
        client_id="c",
        hostname="h",
        user_agent="u/1",
        heartbeat_interval_ms=1000,
        output_buffer_bytes=64,
        output_buffer_timeout_ms=30000,
        message_timeout_ms=900000,
        sample_rate=99,
        negotiates=True,
        tls=True,
        deflate=True,
        deflate_level=6,
    )
    assert not options(said).tls, "the listener has no certificate"


def test_minus_one_switches_off_and_zero_or_null_leave_the_default() -> None:
    off = options({"heartbeat_interval": -1, "output_buffer_size": -1})
    assert (off.heartbeat_interval_ms, off.output_buffer_bytes, off.output_buffer_timeout_ms) == (0, 1, 0)
    assert options({"heartbeat_interval": 0, "msg_timeout": 0, "client_id": None}) == BEFORE
    assert options({"Heartbeat_Interval": 2000}).heartbeat_interval_ms == 2000, "as Go reads names"


def test_what_is_not_utf_8_is_replaced_and_fields_of_later_versions_are_passed_over_as_by_nsqd() -> None:
    assert options_of(b'{"client_id":"\xff"}', LIMITS, BEFORE, has_tls=False).client_id == "\ufffd"
    assert options({"topology_zone": 5}) == BEFORE


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"heartbeat_interval": 999}, "heartbeat interval (999) is invalid"),
        ({"heartbeat_interval": 60001}, "heartbeat interval (60001) is invalid"),
        ({"heartbeat_interval": -2}, "heartbeat interval (-2) is invalid"),
        ({"output_buffer_size": 63}, "output buffer size (63) is invalid"),
        ({"output_buffer_size": 65537}, "output buffer size (65537) is invalid"),
        ({"output_buffer_timeout": 24}, "output buffer timeout (24) is invalid"),
        ({"sample_rate": 100}, "sample rate (100) is invalid"),
        ({"sample_rate": -1}, "sample rate (-1) is invalid"),
        ({"msg_timeout": 999}, "msg timeout (999) is invalid"),
        ({"msg_timeout": -1}, "msg timeout (-1) is invalid"),
        (b"{", "failed to decode JSON body"),
        (b"[]", "failed to decode JSON body"),
        (b"[" * 5000, "failed to decode JSON body"),
        ({"sample_rate": "1"}, "failed to decode JSON body"),
        ({"sample_rate": True}, "failed to decode JSON body"),
        ({"msg_timeout": 1.5}, "failed to decode JSON body"),
        ({"msg_timeout": 1 << 64}, "failed to decode JSON body"),
        ({"sample_rate": 1 << 31}, "failed to decode JSON body"),
        ({"tls_v1": 1}, "failed to decode JSON body"),
        ({"snappy": "true"}, "failed to decode JSON body"),
        ({"client_id": 1}, "failed to decode JSON body"),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_of_nsqd(said: bytes | dict[str, Any], told: str) -> None:
    with pytest.raises(NsqError) as raised:
        options(said)
    assert raised.value.line == f"E_BAD_BODY IDENTIFY {told}".encode()


def test_two_compressions_at_once_are_refused() -> None:
    with pytest.raises(NsqError, match="E_IDENTIFY_FAILED cannot enable both deflate and snappy compression"):
        options({"feature_negotiation": True, "snappy": True, "deflate": True})


@given(st.binary(max_size=60))
def test_any_body_is_taken_or_refused(body: bytes) -> None:
    with suppress(NsqError):
        assert options(body).sample_rate in range(100)
