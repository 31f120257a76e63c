"""What of a topic is paused for NSQ clients, as a setting of the topic: so it outlives the broker and holds on each.

nsq.paused = *                the topic: none of its channels delivers
nsq.paused = archive,metrics  these channels
"""

from typing import Final

from ottla.metadata.image.image import MetadataImage, topic_resource

PAUSED: Final = "nsq.paused"
TOPIC: Final = "*"
"""Stands for the topic itself among the names of channels."""


def paused_names(image: MetadataImage, topic: str) -> frozenset[str]:
    """The channels of a topic in the log that are paused, and `TOPIC` if it is."""
    said = image.config(topic_resource(topic)).get(PAUSED)
    return frozenset(said.split(",")) if said else frozenset()


def is_paused(image: MetadataImage, topic: str, channel: str) -> bool:
    """Whether a channel delivers nothing."""
    names = paused_names(image, topic)
    return bool(names) and (channel in names or TOPIC in names)
