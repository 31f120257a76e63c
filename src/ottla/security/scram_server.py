"""The server of SCRAM: has a client prove that it knows a password, and proves the same to it. No I/O here.

server = ScramServer(SCRAM_SHA_512, credential_of, nonce)
receive first, send server.challenge(first)
receive final, send server.outcome(final)       server.user is who it is, from now on

`answer` is the one or the other, as it is their turn.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from msgspec import Struct

from ottla.model.scram_credential import ScramCredential
from ottla.security.scram import (
    NONCE_CHARACTERS_MIN,
    Mechanism,
    ScramError,
    attributes_of,
    base64_of,
    bytes_of,
    exclusive_or,
    hash_of,
    signature,
    text_of,
    unquoted,
    without_binding,
)


class Vouched(Struct, frozen=True):
    """A credential by which a client proves to be somebody else than the name it gives says: a token's."""

    credential: ScramCredential
    user: str
    expires_ms: int


class AnyOf(Struct, frozen=True):
    """Several credentials of one salt and number of iterations, of which a client proves one."""

    credentials: tuple[ScramCredential, ...]


class CredentialMissingError(Exception):
    """What to check a user against is not here yet: await `load`, and have the same message answered again."""

    def __init__(self, load: Callable[[], Awaitable[None]]) -> None:
        super().__init__("a credential has to be made first")
        self.load = load


CredentialOf = Callable[[str, Mapping[str, str]], ScramCredential | Vouched | AnyOf]
"""What to check a user against, by the name and the extensions of its first message. Raises ScramError to refuse it;
one that is merely unknown is better given a credential nobody has, so that names cannot be tried out."""


class _Step(Enum):
    FIRST = 1
    FINAL = 2
    OVER = 3


class ScramServer:
    """One exchange; each step once, in order. What fails raises ScramError, and the exchange is over."""

    __slots__ = (
        "_bare",
        "_challenge",
        "_credential_of",
        "_credentials",
        "_header",
        "_mechanism",
        "_nonce",
        "_step",
        "_user",
        "_vouched",
        "by_token",
        "expires_ms",
        "user",
    )

    def __init__(self, mechanism: Mechanism, credential_of: CredentialOf, nonce: str) -> None:
        """`nonce` is printable, without a comma, and never used again."""
        assert len(nonce) >= NONCE_CHARACTERS_MIN
        assert "," not in nonce
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._header = self._bare = self._challenge = self._user = ""
        self._credentials: tuple[ScramCredential, ...] = ()
        self._vouched: Vouched | None = None
        self._step = _Step.FIRST
        self.user: str | None = None
        """Who the client is; None until it has proved it."""
        self.expires_ms: int | None = None
        self.by_token = False

    def answer(self, message: bytes | memoryview) -> bytes:
        """What to answer to the next message, be it the first or the second."""
        return self.challenge(message) if self._step is _Step.FIRST else self.outcome(message)

    def challenge(self, message: bytes | memoryview) -> bytes:
        """The client's first message; returns what to answer."""
        self._go(_Step.FIRST, _Step.OVER)
        self._header, act_as, self._bare = without_binding(text_of(message))
        pairs = attributes_of(self._bare)
        if [key for key, _ in pairs[:2]] != ["n", "r"]:
            raise ScramError("the client's first message is not n=..,r=..")
        (_, name), (_, nonce) = pairs[:2]
        self._user = unquoted(name)
        if act_as not in ("", self._user):
            raise ScramError("the client asks to act as somebody else")
        if len(nonce) < NONCE_CHARACTERS_MIN:
            raise ScramError(f"the client's nonce has fewer than {NONCE_CHARACTERS_MIN} characters")
        try:
            found = self._credential_of(self._user, dict(pairs[2:]))
        except CredentialMissingError:
            self._step = _Step.FIRST
            raise
        self._vouched = found if isinstance(found, Vouched) else None
        if isinstance(found, AnyOf):
            self._credentials = found.credentials
        else:
            self._credentials = (found.credential if isinstance(found, Vouched) else found,)
        credential = self._credentials[0]
        self._nonce = nonce + self._nonce
        self._challenge = f"r={self._nonce},s={base64_of(credential.salt)},i={credential.iterations}"
        self._step = _Step.FINAL
        return self._challenge.encode()

    def outcome(self, message: bytes | memoryview) -> bytes:
        """The client's second message; returns what to answer to one that has proved that it knows the password.

        The nonce must be the whole one of this exchange (CVE-2024-56128).
        """
        self._go(_Step.FINAL, _Step.OVER)
        text = text_of(message)
        pairs = attributes_of(text)
        keys = [key for key, _ in pairs]
        if keys[:2] != ["c", "r"] or keys[-1] != "p":
            raise ScramError("the client's second message is not c=..,r=..,p=..")
        binding, nonce, proof = pairs[0][1], pairs[1][1], bytes_of(pairs[-1][1])
        if not hmac.compare_digest(bytes_of(binding), self._header.encode()):
            raise ScramError("the client's second message does not belong to its first one")
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            raise ScramError("the client's second message is of another exchange")
        said = f"{self._bare},{self._challenge},{text[: text.rindex(',p=')]}".encode()
        proven = [each for each in self._credentials if self._is_proven(each, said, proof)]
        if not proven:
            raise ScramError("the client did not prove that it knows the password")
        credential = proven[0]
        self.user = self._user
        if self._vouched is not None:
            self.user, self.expires_ms, self.by_token = self._vouched.user, self._vouched.expires_ms, True
        return f"v={base64_of(signature(self._mechanism, credential.server_key, said))}".encode()

    def _is_proven(self, credential: ScramCredential, said: bytes, proof: bytes) -> bool:
        hidden = signature(self._mechanism, credential.stored_key, said)
        return len(proof) == len(hidden) and hmac.compare_digest(
            hash_of(self._mechanism, exclusive_or(proof, hidden)), credential.stored_key
        )

    def _go(self, expected: _Step, following: _Step) -> None:
        if self._step is not expected:
            raise ScramError("a message of SCRAM came out of turn")
        self._step = following
