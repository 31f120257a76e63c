"""The consumer with which commands read whole topics."""

from contextlib import AbstractAsyncContextManager

from ottla.cli.connection import connected
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel


def committed_reader(bootstrap: str) -> AbstractAsyncContextManager[Consumer]:
    """A consumer of committed records, of no group, that begins with the oldest."""
    options = ConsumerOptions(isolation=IsolationLevel.READ_COMMITTED, auto_offset_reset=OffsetReset.EARLIEST)
    return connected(bootstrap, lambda client: Consumer(client, options))
