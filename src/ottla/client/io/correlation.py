"""Which answer belongs to which request on one connection.

A broker answers the requests of a connection in the order they were sent. Each response has the correlation id of its
request. So the unanswered requests are a queue. A response that does not match its head means that the connection is
out of step. This module does no I/O.
"""

from collections import deque
from typing import Generic, TypeVar

from ottla.client.errors import ProtocolViolationError
from ottla.protocol import frame as wire
from ottla.protocol.message import ApiMessage

W = TypeVar("W")

_CORRELATION_IDS = 1 << 31


class Correlation(Generic[W]):
    """The requests of one connection that are not answered yet, each with the waiter its answer goes to."""

    __slots__ = ("_client_id", "_next_id", "_unanswered")

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._next_id = 0
        self._unanswered: deque[tuple[int, int, int, W]] = deque()

    def __len__(self) -> int:
        """How many requests are unanswered."""
        return len(self._unanswered)

    def request(self, message: ApiMessage, version: int, waiter: W | None) -> bytes:
        """The bytes to send, length included. Without a waiter no answer is expected (Produce with acks=0)."""
        data = wire.encode_request(self._next_id, self._client_id, message, version)
        self._sent(message, version, waiter)
        return data

    def request_parts(
        self, message: ApiMessage, version: int, waiter: W | None
    ) -> list[bytes | bytearray | memoryview]:
        """The same, in parts to be sent one after the other: large records are not copied."""
        parts = wire.encode_request_parts(self._next_id, self._client_id, message, version)
        self._sent(message, version, waiter)
        return parts

    def _sent(self, message: ApiMessage, version: int, waiter: W | None) -> None:
        if waiter is not None:
            self._unanswered.append((self._next_id, message.API_KEY, version, waiter))
        self._next_id = (self._next_id + 1) % _CORRELATION_IDS

    def response(self, frame: memoryview) -> tuple[W, int, int]:
        """Whose answer a frame is: the waiter, the API key and the version to decode it in."""
        if not self._unanswered:
            raise ProtocolViolationError("the broker answered a request that was not sent")
        correlation_id, api_key, version, waiter = self._unanswered[0]
        answered_id = int.from_bytes(frame[:4], "big", signed=True)
        if answered_id != correlation_id:
            raise ProtocolViolationError(f"the broker answered request {answered_id}; {correlation_id} was next")
        self._unanswered.popleft()
        return waiter, api_key, version

    def abandon(self) -> list[W]:
        """The connection is gone: the waiters whose answers will not come."""
        waiters = [waiter for _, _, _, waiter in self._unanswered]
        self._unanswered.clear()
        return waiters
