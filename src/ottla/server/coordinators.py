"""The coordinators of a broker: each hears of its own topic's partitions, and of every change of the metadata."""

import logging
from collections.abc import Sequence
from typing import Final

from ottla.groups.coordinator import GroupCoordinator
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.queues.share_coordinator import ShareCoordinator
from ottla.replication.leaderships import Leaderships
from ottla.transactions.coordinator import TransactionCoordinator

logger: Final = logging.getLogger(__name__)


class Coordinators:
    """A subscriber of the metadata, before the one that serves partitions: from then on nothing can be committed to a
    topic that is gone. Belongs to the event loop.
    """

    def __init__(
        self,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        shares: ShareCoordinator,
        leaderships: Leaderships,
    ) -> None:
        self._by_topic: dict[str, GroupCoordinator | TransactionCoordinator | ShareCoordinator] = {
            CONSUMER_OFFSETS_TOPIC: groups,
            TRANSACTION_STATE_TOPIC: transactions,
            SHARE_GROUP_STATE_TOPIC: shares,
        }
        for topic, coordinator in self._by_topic.items():
            leaderships.register(coordinator, topic)

    def load(self, image: MetadataImage) -> None:
        """The metadata at the start, before any partition is served."""
        self._change(image, ())

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata has changed. What one of them raises is logged and stops no other."""
        self._change(image, [topic.name for topic in delta.deleted_topics])

    def _change(self, image: MetadataImage, deleted_topics: Sequence[str]) -> None:
        for topic, coordinator in self._by_topic.items():
            try:
                coordinator.metadata_changed(image, deleted_topics)
            except Exception:
                logger.exception("the coordinators of %s failed on a metadata change", topic)
