"""Stores which letters were sent back, in a compacted topic, in the transaction that sends them.

```
  partition 3 of the topic of letters:   0 ########## 41 .... 50 ### 57 ............
                                          done            done        not done
  its record:  key  dead/1f3c0f0e-.../3     value  {"version": 1, "done": [[0, 41], [50, 57]]}
```

A committed offset alone cannot say it: a filter leaves letters in between, and the offsets of a group that rests for a
week are forgotten, after which everything would be sent a second time. The id of the topic is part of the key, so that
another topic of the same name begins anew. Offsets between two records count to the later one: nothing lies there.
"""

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec
from msgspec import Struct, field

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.errors import ClientError

TOPIC: Final = "__ottla-dlq-redriven"
TOPIC_CONFIGS: Final = {"cleanup.policy": "compact"}
VERSION: Final = 1
PIECES_MAX: Final = 40_000
"""The maximum number of ranges of a partition: its record then has about 1 MB, the default limit of brokers."""


class LedgerError(ClientError):
    """The ledger cannot be read, or has too many ranges."""


class Done(Struct):
    """The offsets of one partition that are done, as ranges in order that do not touch."""

    ranges: list[tuple[int, int]] = field(default_factory=list)

    def __contains__(self, offset: int) -> bool:
        if not self.ranges or offset >= self.ranges[-1][1]:
            return False
        at = bisect_right(self.ranges, offset, key=lambda each: each[0])
        return at > 0 and offset < self.ranges[at - 1][1]

    def add(self, start: int, end: int) -> None:
        """Marks the offsets from `start` up to `end` as done. Raises LedgerError for too many separate ranges."""
        first = bisect_right(self.ranges, start - 1, key=lambda each: each[1])
        last = bisect_right(self.ranges, end, key=lambda each: each[0])
        touched = self.ranges[first:last]
        if touched:
            start, end = min(start, touched[0][0]), max(end, touched[-1][1])
        self.ranges[first:last] = [(start, end)]
        if len(self.ranges) > PIECES_MAX:
            raise LedgerError(
                f"what was sent back lies in more than {PIECES_MAX} pieces: send back the letters between them, or"
                " purge the beginning of the topic"
            )

    def up_to(self, start: int) -> int:
        """The first offset from `start` on that is not done."""
        at = bisect_right(self.ranges, start, key=lambda each: each[0])
        return max(start, self.ranges[at - 1][1]) if at else start

    def forget_before(self, start: int) -> None:
        """Drops ranges before the start of the partition."""
        self.ranges = [(max(first, start), end) for first, end in self.ranges if end > start]

    def encode(self) -> bytes:
        """The value of its record."""
        return msgspec.json.encode(_Value(VERSION, self.ranges))

    @classmethod
    def decode(cls, value: bytes) -> "Done":
        """Decodes a record value. Raises LedgerError."""
        try:
            found = msgspec.json.decode(value, type=_Value)
        except msgspec.DecodeError as error:
            raise LedgerError(f"a record of {TOPIC} is not of the ledger: {error}") from error
        if found.version != VERSION:
            raise LedgerError(f"a record of {TOPIC} is of version {found.version}; this is for version {VERSION}")
        return cls(found.done)


def key_of(topic: str, topic_id: object, partition: int) -> bytes:
    """The key of a partition's record."""
    return f"{topic}/{topic_id}/{partition}".encode()


async def newest_values(batches: AsyncIterator[list[ConsumerRecord]], keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """The newest value of each of these keys in the ledger, which is read from its beginning."""
    found: dict[bytes, bytes] = {}
    wanted = set(keys)
    async for records in batches:
        found |= {each.key: each.value for each in records if each.key in wanted and each.value is not None}
    return found


class _Value(Struct):
    version: int
    done: list[tuple[int, int]]
