"""The server of PLAIN: a client sends its name and its password, in one message (RFC 4616). No I/O here.

[name to act as] NUL name NUL password
"""

import hmac
from collections.abc import Mapping
from typing import Final

from ottla.security.sasl_server import SaslError

MESSAGE_BYTES_MAX: Final = 4_096

WRONG: Final = "Authentication failed: Invalid username or password"
"""Kafka's own words."""


class PlainServer:
    """One exchange of one message. What fails raises SaslError, and the exchange is over."""

    __slots__ = ("_passwords", "user")

    expires_ms: int | None = None
    by_token = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords` by user."""
        self._passwords: Mapping[str, str] | None = passwords
        self.user: str | None = None
        """Who the client is; None until it has proved it."""

    def answer(self, message: bytes | memoryview) -> bytes:
        """What to answer to the message, which is nothing. The passwords are compared in a time that says nothing."""
        passwords, self._passwords = self._passwords, None
        if passwords is None:
            raise SaslError("a message of PLAIN came out of turn")
        if len(message) > MESSAGE_BYTES_MAX:
            raise SaslError(f"a message of PLAIN has {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")
        try:
            parts = bytes(message).decode().split("\0")
        except UnicodeDecodeError as error:
            raise SaslError("a message of PLAIN is not UTF-8") from error
        if len(parts) != 3:
            raise SaslError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        act_as, name, password = parts
        if not name:
            raise SaslError("Authentication failed: username not specified")
        if not password:
            raise SaslError("Authentication failed: password not specified")
        expected = passwords.get(name)
        if not is_same_password(password.encode(), expected or "") or expected is None:
            raise SaslError(WRONG)
        if act_as not in ("", name):
            raise SaslError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = name
        return b""


def is_same_password(given: bytes, expected: str) -> bool:
    """Whether they are the same. Digests are compared: how long the passwords are takes no part in the time of that,
    so who gives one of 4 KiB cannot tell a user from one that does not exist.
    """
    from hashlib import sha256  # only who has passwords reads OpenSSL

    return hmac.compare_digest(sha256(given).digest(), sha256(expected.encode()).digest())
