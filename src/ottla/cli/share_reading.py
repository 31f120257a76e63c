"""One run of `ottla consume --share`: gives records out, and accepts them once they are out."""

from collections.abc import Awaitable, Callable

import click
from msgspec import Struct

from ottla.client.consuming.share_consumer import ShareConsumer
from ottla.client.consuming.share_record import ShareRecord

WriteOut = Callable[[list[ShareRecord]], Awaitable[None]]
"""Returns when the records are out of this process; raises when some may not be."""

POLL_RECORDS = 500
_POLL_MS = 500


class ShareWanted(Struct, frozen=True):
    """What to read and when to stop."""

    topic: str
    count: int | None
    exit_at_end: bool
    timeout_ms: int | None


class ShareReading:
    """Let it `give` records until it is `finished`."""

    def __init__(self, consumer: ShareConsumer, wanted: ShareWanted) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._left = wanted.count
        self._idle_ms = 0
        self.finished = False

    async def begin(self) -> None:
        """Subscribe. Raises TopicNotFoundError."""
        await self._consumer.partitions_of(self._wanted.topic)
        self._consumer.subscribe([self._wanted.topic])

    async def give(self, write_out: WriteOut) -> bool:
        """Poll once, write out what came and accept it; whether anything came.

        Whatever ends this call early, records that were not written out are released when the consumer is closed.
        """
        limit = POLL_RECORDS if self._left is None else min(self._left, POLL_RECORDS)
        records = await self._consumer.poll(limit, _POLL_MS)
        if records:
            await write_out(records)
            for record in records:
                self._consumer.acknowledge(record)
            await self._accept()
        self._account(len(records))
        return bool(records)

    async def _accept(self) -> None:
        for topic_partition, error in (await self._consumer.commit()).items():
            if error is not None:
                click.echo(
                    f"warning: records of {topic_partition} may be delivered again: they were not accepted: {error}",
                    err=True,
                )

    def _account(self, count: int) -> None:
        if self._left is not None:
            self._left -= count
            self.finished = self._left <= 0
        if self._wanted.exit_at_end and not count and self._consumer.has_nothing:
            self.finished = True
        self._idle_ms = 0 if count else self._idle_ms + _POLL_MS
        if self._wanted.timeout_ms is not None and self._idle_ms >= self._wanted.timeout_ms:
            self.finished = True
