"""The server of PLAIN believes who knows the password, and nobody else (RFC 4616)."""

import pytest

from ottla.security.plain import MESSAGE_BYTES_MAX, PlainServer
from ottla.security.sasl_server import SaslError

PASSWORDS = {"alice": "secret", "ünï": "pässwörd"}


@pytest.mark.parametrize(
    ("message", "user"), [("\0alice\0secret", "alice"), ("alice\0alice\0secret", "alice"), ("\0ünï\0pässwörd", "ünï")]
)
def test_who_knows_the_password_is_believed(message, user):
    server = PlainServer(PASSWORDS)
    assert (server.answer(message.encode()), server.user) == (b"", user)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0Secret",
        b"\0alice\0secret\0",
        b"\0alice\0secretx",
        b"\0alice\0secre",
        b"\0bob\0secret",
        b"\0bob\0",
        b"bob\0alice\0secret",
        b"\0\xff\0secret",
        b"\0alice\0" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_everybody_else_is_not(message):
    server = PlainServer(PASSWORDS)
    with pytest.raises(SaslError):
        server.answer(message)
    assert server.user is None
    with pytest.raises(SaslError):  # nor may it be tried again in the same exchange
        server.answer(b"\0alice\0secret")


def test_a_user_that_there_is_not_gets_the_words_of_a_wrong_password():
    said = []
    for message in (b"\0alice\0x", b"\0nobody\0x"):
        with pytest.raises(SaslError) as refused:
            PlainServer(PASSWORDS).answer(message)
        said.append(str(refused.value))
    assert said == ["Authentication failed: Invalid username or password"] * 2
