"""Hands each new image to the parts of the broker that act on it, then shows it to everybody else."""

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
                logger.exception("a subscriber failed to act on the metadata at offset %d", image.end_offset)
        self.image = image
