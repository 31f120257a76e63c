"""The two failures every band shares: the peer must be told, or the input is broken.

A third kind, our own mistake, is an `AssertionError` and stops the partition it happened in.
"""

from ottla.model.error_code import ErrorCode


class ApiError(Exception):
    """A request, or one item of it, cannot be served; the peer is told by a protocol error code.

    `message` is written for the person who runs the client: what was wrong, where, and what to do.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class InvalidInputError(ValueError):
    """Bytes from a peer or a file are not what they claim to be. The connection that sent them is closed."""
