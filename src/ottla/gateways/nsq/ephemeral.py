"""Ephemeral channels: each goes with its last client, at whatever broker, and an ephemeral topic with its last channel.

A broker that is killed takes its clients with it and says nothing. So the broker that coordinates a channel looks now
and then whether anybody reads it.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from ottla.gateways.nsq.names import is_ephemeral
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.gateways.nsq.gateway import NsqGateway
    from ottla.metadata.image.image import TopicImage

logger = logging.getLogger(__name__)

LOOK_MS: Final = 30_000
"""Between two looks; who is read at neither of two in a row goes."""


class EphemeralChannels:
    """Of one broker. Belongs to the event loop."""

    def __init__(self, gateway: NsqGateway) -> None:
        self._gateway = gateway
        self._unread: set[tuple[UUID, str]] = set()
        """Those that nobody read at the last look."""

    async def left(self, name: str, channel: str) -> None:
        """The last client of this broker is gone."""
        topic = self._gateway.administration.topic(name)
        if topic is not None and not await self._is_read(topic, channel, is_if_unknown=False):
            await self._delete(name, topic, channel)

    async def run(self) -> None:
        """Look now and then, until the task is cancelled."""
        while True:
            await self._gateway.broker.timer.sleep(LOOK_MS)
            await self.look()

    async def look(self) -> None:
        """Delete the channels coordinated here that nobody read at the last look, nor does now."""
        gateway, unread = self._gateway, set()
        own = broker_principal(gateway.broker.config.node_id)
        for name, topic in gateway.administration.topics(own):
            channels: list[str] = []
            with contextlib.suppress(ApiError):  # the groups are being loaded
                channels = await gateway.channels.coordinated_here(topic)
            for channel in filter(is_ephemeral, channels):
                if await self._is_read(topic, channel, is_if_unknown=True):
                    continue
                key = topic.topic_id, channel
                if key in self._unread:
                    await self._delete(name, topic, channel)
                else:
                    unread.add(key)
        self._unread = unread

    async def _is_read(self, topic: TopicImage, channel: str, *, is_if_unknown: bool) -> bool:
        """Whether anybody reads a channel; the last is what is said where a broker does not answer."""
        elsewhere = self._gateway.broker.remote_shares
        if elsewhere is not None and await elsewhere.has_readers(channel, topic.topic_id, if_unknown=is_if_unknown):
            return True
        return self._gateway.readers_here(channel, topic.topic_id) > 0  # one may have come meanwhile

    async def _delete(self, name: str, topic: TopicImage, channel: str) -> None:
        administration = self._gateway.administration
        try:
            await administration.delete_channel(name, topic, channel)
            if is_ephemeral(name) and not await administration.channels(topic):
                await administration.delete_topic(name, topic)
        except ApiError as error:
            logger.warning("channel %s of topic %s could not be deleted: %s", channel, name, error.message)
