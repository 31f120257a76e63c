"""How many bytes a fetch of several partitions would get, kept while it waits.

    max_bytes = 100       a     b     c          (in the order of the fetch, `partition_max_bytes` is 40 each)
    one whole batch       70    -     10
    within its limit      40    -     10         first + others, as far as they fit = 70 + 10

The first partition that has anything gives a whole batch even beyond the limits (KIP-74), the others fill what is left.
Another one whose first batch is larger than its limit is left out, however long the fetch waits: it would have to come
first. One whose first batch is larger than what is left is left out too; then `max_bytes` are there, which is enough.
A partition's bytes only grow while its reader waits, or it has an error, which ends the wait.
"""


class ReadableBytes:
    """The sum over the partitions that have something. `put` and `total` cost the same for any number of them."""

    __slots__ = ("_bytes", "_first", "_limited_sum", "_max_bytes", "_oversized")

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` limits all partitions together."""
        self._max_bytes = max_bytes
        self._bytes: dict[int, int] = {}
        self._first: tuple[int, int] | None = None
        """Position and limit of the first partition that has something."""
        self._limited_sum = 0
        self._oversized: set[int] = set()
        """Positions whose first batch is larger than their limit."""

    def put(self, position: int, size: int, partition_max_bytes: int) -> None:
        """The partition at `position` now gives `size` bytes, more than 0, when it is the first that has something."""
        self._limited_sum += self._limited(size, partition_max_bytes)
        self._limited_sum -= self._limited(self._bytes.get(position, 0), partition_max_bytes)
        self._bytes[position] = size
        if size > min(partition_max_bytes, self._max_bytes):
            self._oversized.add(position)
        if self._first is None or position < self._first[0]:
            self._first = position, partition_max_bytes

    def is_full(self, position: int, partition_max_bytes: int) -> bool:
        """Whether more records in the partition at `position` would change nothing."""
        size = self._bytes.get(position, 0)
        return size > 0 and size >= min(partition_max_bytes, self._max_bytes)

    @property
    def leaves_out(self) -> bool:
        """Whether records are there that no wait makes part of the answer, so that it had better be given now."""
        return len(self._oversized) > (self._first is not None and self._first[0] in self._oversized)

    @property
    def total(self) -> int:
        """What a read of everything would give now; at most as much when some are left out."""
        if self._first is None:
            return 0
        position, limit = self._first
        first = self._bytes[position]
        others = self._limited_sum - self._limited(first, limit)
        return first + min(others, max(0, self._max_bytes - first))

    def _limited(self, size: int, partition_max_bytes: int) -> int:
        return min(size, partition_max_bytes, self._max_bytes)
