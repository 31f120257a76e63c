"""Chooses the size of Fetch requests, so that little is fetched beyond the end of a range."""

FIRST_BYTES = 256 * 1024
"""The size of the first request, when the size of records is not known yet."""
SLACK_BYTES = 64 * 1024
"""Added to an estimate: a batch that is cut off at the end of an answer has to be fetched again."""


class FetchSize:
    """Estimates the bytes of the remaining offsets from those that were fetched, between `SLACK_BYTES` and `limit`.

    >>> size = FetchSize(limit=16 * 1024 * 1024)
    >>> size.learn(offsets=1_000, size_bytes=200_000)
    >>> size.next_bytes(offsets_left=10_000) - SLACK_BYTES
    2000000
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._offsets = 0
        self._bytes = 0

    def next_bytes(self, offsets_left: int) -> int:
        """The bytes to request if `offsets_left` offsets are still to be fetched."""
        if not self._offsets:
            return min(FIRST_BYTES, self._limit)
        return min(self._bytes * offsets_left // self._offsets + SLACK_BYTES, self._limit)

    def learn(self, offsets: int, size_bytes: int) -> None:
        """Note that `offsets` offsets had `size_bytes` bytes."""
        self._offsets += offsets
        self._bytes += size_bytes
