"""Answers find their requests, and a stream that lost its order is noticed."""

import pytest

from ottla.client.errors import ProtocolViolationError
from ottla.client.io.correlation import Correlation
from ottla.protocol.frame import decode_request_header
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest


def answer_to(request: bytes) -> memoryview:
    correlation_id = decode_request_header(memoryview(request)[4:]).correlation_id
    return memoryview(correlation_id.to_bytes(4, "big"))


def test_answers_are_given_to_the_requests_in_their_order():
    correlation: Correlation[str] = Correlation("me")
    first = correlation.request(MetadataRequest(), 9, "first")
    second = correlation.request(HeartbeatRequest(), 3, "second")
    assert correlation.response(answer_to(first)) == ("first", MetadataRequest.API_KEY, 9)
    assert correlation.response(answer_to(second)) == ("second", HeartbeatRequest.API_KEY, 3)


def test_an_answer_out_of_order_is_a_violation():
    correlation: Correlation[str] = Correlation("me")
    correlation.request(MetadataRequest(), 9, "first")
    second = correlation.request(MetadataRequest(), 9, "second")
    with pytest.raises(ProtocolViolationError, match="was next"):
        correlation.response(answer_to(second))


def test_an_answer_nobody_asked_for_is_a_violation():
    correlation: Correlation[str] = Correlation("me")
    correlation.request(MetadataRequest(), 9, None)
    with pytest.raises(ProtocolViolationError, match="not sent"):
        correlation.response(memoryview(bytes(4)))


def test_those_who_wait_are_told_when_the_connection_is_gone():
    correlation: Correlation[str] = Correlation("me")
    correlation.request(MetadataRequest(), 9, "first")
    correlation.request(MetadataRequest(), 9, "second")
    assert correlation.abandon() == ["first", "second"]
    assert len(correlation) == 0
