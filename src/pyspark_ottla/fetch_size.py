"""How many bytes to ask for, so that little is fetched beyond the end of a range."""

FIRST_BYTES = 256 * 1024
"""Asked for before anything is known of the size of the records."""
SLACK_BYTES = 64 * 1024
"""Added to an estimate: a batch that is cut off at the end of an answer has to be fetched again."""


class FetchSize:
    """Learns from what came how many bytes the offsets that remain will take, between `SLACK_BYTES` and `limit`.

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
        """How much to ask for when so many offsets are still to come."""
        if not self._offsets:
            return min(FIRST_BYTES, self._limit)
        return min(self._bytes * offsets_left // self._offsets + SLACK_BYTES, self._limit)

    def learn(self, offsets: int, size_bytes: int) -> None:
        """So many offsets took so many bytes."""
        self._offsets += offsets
        self._bytes += size_bytes
