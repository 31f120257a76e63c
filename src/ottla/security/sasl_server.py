"""The server's side of an exchange of SASL (RFC 4422), whatever the mechanism. No I/O here.

receive message, send server.answer(message), until server.user is who it is
"""

from typing import Protocol


class SaslError(Exception):
    """The other side did not prove what it had to, or does not speak the mechanism. The exchange is over; one line says
    why, in words that the other side may read.
    """


class SaslServer(Protocol):
    """One exchange. What fails raises SaslError."""

    user: str | None
    """Who the client is; None until it has proved it."""
    expires_ms: int | None
    """Until when what it proved that with is good, by the wall clock; None for as long as it is there."""
    by_token: bool
    """Whether that was a delegation token (KIP-48)."""

    def answer(self, message: bytes | memoryview) -> bytes:
        """What to answer to the next message."""
        ...
