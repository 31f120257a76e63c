"""The client of SCRAM: proves that it knows a password, and has the server prove the same. No I/O here.

client = ScramClient(SCRAM_SHA_512, "1", nonce)
send client.first(), receive challenge
salt, iterations = client.challenged(challenge)
send client.final(salted_password(..., salt, iterations)), receive outcome
client.verify(outcome)
"""

import hmac
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ottla.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    NONCE_CHARACTERS_MIN,
    SALT_BYTES_MAX,
    SALT_BYTES_MIN,
    Mechanism,
    ScramError,
    attributes_of,
    base64_of,
    bytes_of,
    exclusive_or,
    keys_of,
    quoted,
    signature,
    text_of,
)

_HEADER = "n,,"


class Salting(NamedTuple):
    """How the server wants the password salted."""

    salt: bytes
    iterations: int


class _Step(Enum):
    FIRST = 1
    CHALLENGED = 2
    FINAL = 3
    VERIFY = 4
    OVER = 5


class ScramClient:
    """One exchange; each step once, in order. What fails raises ScramError, and the exchange is over."""

    __slots__ = ("_bare", "_challenge", "_mechanism", "_nonce", "_server_nonce", "_server_signature", "_step")

    def __init__(
        self, mechanism: Mechanism, user: str, nonce: str, extensions: Mapping[str, str] | None = None
    ) -> None:
        """`nonce` is printable, without a comma, and never used again; so are the values of `extensions`."""
        assert len(nonce) >= NONCE_CHARACTERS_MIN
        assert "," not in nonce
        self._mechanism = mechanism
        self._nonce = nonce
        extras = "".join(f",{key}={value}" for key, value in (extensions or {}).items())
        self._bare = f"n={quoted(user)},r={nonce}{extras}"
        self._challenge = ""
        self._server_nonce = ""
        self._server_signature = b""
        self._step = _Step.FIRST

    def first(self) -> bytes:
        """The first message to send."""
        self._go(_Step.FIRST, _Step.CHALLENGED)
        return (_HEADER + self._bare).encode()

    def challenged(self, message: bytes | memoryview) -> Salting:
        """The server's answer to the first message: how to salt the password."""
        self._go(_Step.CHALLENGED, _Step.OVER)
        self._challenge = text_of(message)
        pairs = attributes_of(self._challenge)
        if [key for key, _ in pairs[:3]] != ["r", "s", "i"]:
            raise ScramError("the server's first message is not r=..,s=..,i=..")
        (_, nonce), (_, salt), (_, count) = pairs[:3]
        if not nonce.startswith(self._nonce) or len(nonce) < len(self._nonce) + NONCE_CHARACTERS_MIN:
            raise ScramError("the server did not add to our nonce")
        if not (count.isascii() and count.isdecimal() and len(count) < 10):
            raise ScramError("the server's iteration count is not a number")
        salting = Salting(bytes_of(salt), int(count))
        if not ITERATIONS_MIN <= salting.iterations <= ITERATIONS_MAX:
            raise ScramError(
                f"the server asks for {salting.iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        if not SALT_BYTES_MIN <= len(salting.salt) <= SALT_BYTES_MAX:
            raise ScramError(f"the server's salt has {len(salting.salt)} bytes")
        self._server_nonce = nonce
        self._step = _Step.FINAL
        return salting

    def final(self, salted: bytes) -> bytes:
        """The second message to send, made with the salted password."""
        self._go(_Step.FINAL, _Step.VERIFY)
        keys = keys_of(self._mechanism, salted)
        without_proof = f"c={base64_of(_HEADER.encode())},r={self._server_nonce}"
        said = f"{self._bare},{self._challenge},{without_proof}".encode()
        proof = exclusive_or(keys.client_key, signature(self._mechanism, keys.stored_key, said))
        self._server_signature = signature(self._mechanism, keys.server_key, said)
        return f"{without_proof},p={base64_of(proof)}".encode()

    def verify(self, message: bytes | memoryview) -> None:
        """The server's answer to the second message: it knows the password too, or ScramError is raised."""
        self._go(_Step.VERIFY, _Step.OVER)
        key, value = attributes_of(text_of(message))[0]
        if key == "e":
            raise ScramError(f"the server refused the proof: {value}")
        if key != "v" or not hmac.compare_digest(bytes_of(value), self._server_signature):
            raise ScramError("the server did not prove that it knows the password")

    def _go(self, expected: _Step, following: _Step) -> None:
        if self._step is not expected:
            raise ScramError("a message of SCRAM came out of turn")
        self._step = following
