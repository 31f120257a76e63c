"""What an NSQ client is told when a command fails: a code, and a text that ends up in its log."""

from typing import Final

NON_FATAL: Final = frozenset({"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"})
"""After any other error the connection is closed."""


class NsqError(Exception):
    """A command that failed; `line` is the data of the error frame (nsq.io, TCP protocol spec)."""

    def __init__(self, code: str, text: bytes | str) -> None:
        detail = text.encode() if isinstance(text, str) else text
        super().__init__(f"{code} {detail.decode(errors='replace')}")
        self.code = code
        self.line = code.encode() + (b" " + detail if detail else b"")

    @property
    def is_fatal(self) -> bool:
        """Whether the connection is closed once the error frame is sent."""
        return self.code not in NON_FATAL


def invalid(text: bytes | str) -> NsqError:
    """The error of a command that is not understood or comes at the wrong time."""
    return NsqError("E_INVALID", text)
