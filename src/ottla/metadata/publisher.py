"""Hands each new image to the parts of the broker that act on it, then shows it to everybody else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage

logger = logging.getLogger(__name__)

OnImage = Callable[[MetadataImage, MetadataDelta], Awaitable[None] | None]
"""Called with the new image and what changed; what it returns is awaited before the next subscriber is called."""


class MetadataPublisher:
    """Owns the current image of this broker. Belongs to the event loop.

    A subscriber that fails is logged and does not stop the others: the metadata is decided, whether or not this broker
    can act on it.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        """The newest image whose subscribers are done: topics in it have their partitions on this broker."""
        self._subscribers: list[OnImage] = []
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []

    def subscribe(self, on_image: OnImage) -> None:
        """Call `on_image` with every image from the next on, in the order of subscription."""
        self._subscribers.append(on_image)

    async def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Have every subscriber act on the image, then make it the current one. One call at a time."""
        for on_image in self._subscribers:
            try:
                result = on_image(image, delta)
                if result is not None:
                    await result
            except Exception:
                logger.exception("a metadata subscriber failed at offset %d", image.end_offset)
        self.image = image
        if self._awaited:
            waiting, self._awaited = self._awaited, []
            for end_offset, reached in waiting:
                if image.end_offset < end_offset:
                    self._awaited.append((end_offset, reached))
                elif not reached.done():
                    reached.set_result(None)

    def reached(self, end_offset: int) -> asyncio.Future[None]:
        """Done when the current image has that many records. Whoever waits no longer cancels it, or sets its result."""
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.image.end_offset >= end_offset:
            reached.set_result(None)
        else:
            self._awaited = [(offset, each) for offset, each in self._awaited if not each.done()]
            self._awaited.append((end_offset, reached))
        return reached
