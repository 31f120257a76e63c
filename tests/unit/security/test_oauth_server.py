"""The exchange of OAUTHBEARER: one message with a token, and one more where the token is not believed."""

from __future__ import annotations

import pytest

from ottla.security.oauth_server import MESSAGE_BYTES_MAX, BearerToken, OauthServer, TokenError
from ottla.security.sasl_server import SaslError


def check(token: str) -> BearerToken:
    if token != "good":
        raise TokenError("it is bad")
    return BearerToken("alice,a=b", 5)


def server() -> tuple[OauthServer, list[str]]:
    said: list[str] = []
    return OauthServer(check, said.append), said


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=bearer   good\x01a=x y=z\x01b=~\x01\x01",
        b"n,a=alice=2Ca=3Db,\x01auth=BEARER good\x01\x01",
    ],
)
def test_a_token_that_is_believed_says_who_it_is(message: bytes) -> None:
    exchange, _ = server()
    assert exchange.answer(memoryview(message)) == b""
    assert (exchange.user, exchange.expires_ms) == ("alice,a=b", 5)
    with pytest.raises(SaslError, match="out of turn"):
        exchange.answer(message)


@pytest.mark.parametrize("last", [b"\x01", b"", b"\x01\x01", b"n,,\x01auth=Bearer good\x01\x01"])
def test_one_that_is_not_is_refused_and_whatever_comes_next_ends_it(last: bytes) -> None:
    exchange, said = server()
    assert exchange.answer(b"n,,\x01auth=Bearer bad\x01\x01") == b'{"status":"invalid_token"}'
    assert (exchange.user, said) == (None, ["a token of OAUTHBEARER is not believed: it is bad"])
    with pytest.raises(SaslError):
        exchange.answer(last)
    assert exchange.user is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,auth=Bearer good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer good\x01\x01",
        b"n,a=,\x01auth=Bearer good\x01\x01",
        b"n,a=al=ice,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01auth=Bearer bad\x01auth=Bearer good\x01\x01",
        b"n,,\x01Auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01\x01\x00",
        b"n,a=bob,\x01auth=Bearer good\x01\x01",
        "n,,\x01auth=Bearer g\u00f6od\x01\x01".encode(),
        b"\xff",
        b"x" * (MESSAGE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_first_message_ends_the_exchange(message: bytes) -> None:
    exchange, _ = server()
    with pytest.raises(SaslError):
        exchange.answer(message)
    with pytest.raises(SaslError):
        exchange.answer(b"n,,\x01auth=Bearer good\x01\x01")
    assert exchange.user is None


def test_the_largest_message_is_looked_through_in_no_time() -> None:
    """The pattern takes each character once, however the message is made."""
    for filler in (b"a=b\x01", b"a=b", b"=", b"=2C", b" ", b"a"):
        for head in (b"n,,\x01", b"n,a="):
            exchange, _ = server()
            with pytest.raises(SaslError):
                exchange.answer((head + filler * MESSAGE_BYTES_MAX)[:MESSAGE_BYTES_MAX])
