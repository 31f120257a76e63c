"""The server of OAUTHBEARER: a client shows a token that says who it is (RFC 7628, KIP-255). No I/O here.

    client                                                       server
    n,[a=NAME to act as],^Aauth=Bearer TOKEN^A[KEY=VALUE^A...]^A -->     the token is believed: nothing more
                                                           <-- {"status":"invalid_token"}   or it is not
    ^A                                                     -->           and the exchange is over

Whatever is wrong with a token, the client hears the same; the log says what it is.
"""

import json
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.security.sasl_server import SaslError

MESSAGE_BYTES_MAX: Final = 65_536
"""Tokens of a person in many groups have a few KiB."""

_END: Final = b"\x01"
_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<act_as>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)


class BearerToken(Struct, frozen=True):
    """What a token says that is believed."""

    user: str
    expires_ms: int
    """Until when, by the wall clock."""


class TokenError(Exception):
    """A token that is not believed. One line says why; it has nothing of the token but what was checked."""


CheckToken = Callable[[str], BearerToken]
"""What a token says. Raises TokenError."""


class OauthServer:
    """One exchange. What fails raises SaslError, and the exchange is over."""

    __slots__ = ("_check", "_complain", "_refusal", "expires_ms", "user")

    by_token = False

    def __init__(self, check: CheckToken, complain: Callable[[str], None]) -> None:
        """`complain` is told why a token is not believed."""
        self._check: CheckToken | None = check
        self._complain = complain
        self._refusal: str | None = None
        self.user: str | None = None
        self.expires_ms: int | None = None

    def answer(self, message: bytes | memoryview) -> bytes:
        """What to answer to the next message."""
        if self._refusal is not None:
            raise SaslError(self._refusal if message == _END else "a message of OAUTHBEARER came out of turn")
        check, self._check = self._check, None
        if check is None:
            raise SaslError("a message of OAUTHBEARER came out of turn")
        if len(message) > MESSAGE_BYTES_MAX:
            raise SaslError(f"a message of OAUTHBEARER has {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")
        act_as, token = _parts(message)
        try:
            found = check(token)
        except TokenError as error:
            self._complain(f"a token of OAUTHBEARER is not believed: {error}")
            self._refusal = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._refusal.encode()
        if act_as not in ("", found.user):
            raise SaslError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.user, self.expires_ms = found.user, found.expires_ms
        return b""


def _parts(message: bytes | memoryview) -> tuple[str, str]:
    """Whom to act as, and the token. Raises SaslError."""
    try:
        match = _MESSAGE.fullmatch(bytes(message).decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = [pair.partition("=")[::2] for pair in match["pairs"].split("\x01")[:-1]]
    said = dict(pairs)
    if len(said) != len(pairs):
        raise SaslError("Invalid OAUTHBEARER client first message: a key comes twice")
    bearer = _BEARER.fullmatch(said.get("auth", ""))
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise SaslError("Invalid OAUTHBEARER client first message: it has no token of the scheme bearer")
    return (match["act_as"] or "").replace("=2C", ",").replace("=3D", "="), bearer["token"]
