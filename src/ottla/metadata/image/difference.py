"""What lies between two images, for a broker that finds a snapshot in place of the records it had not read.

Topics that did not change stay the objects they were, so that those who compare by identity see no change.
"""

from typing import Any
from uuid import UUID

from msgspec.structs import replace

from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import ConfigResource, ConfigResourceType, MetadataImage, TopicImage


def difference(base: MetadataImage, image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
    """The image with what it has in common with `base` shared, and what a subscriber has to act upon."""
    delta = MetadataDelta(base)
    by_id: dict[UUID, TopicImage] = {}
    for topic_id, topic in image.topics_by_id.items():
        before = base.topics_by_id.get(topic_id)
        if before is not None and before.partitions == topic.partitions:
            by_id[topic_id] = before
        else:
            by_id[topic_id] = delta.touched_topics[topic_id] = topic
    delta.touched_topics.update((topic_id, None) for topic_id in base.topics_by_id if topic_id not in by_id)
    delta.changed_configs = {
        resource for resource in _changed(base.configs, image.configs) if not _of_removed_topic(resource, image)
    }
    delta.changed_brokers = _changed(base.brokers, image.brokers)
    if base.client_quotas != image.client_quotas:
        delta.mark_quotas_changed()
    by_name = {topic.name: topic for topic in by_id.values()}
    return replace(image, topics_by_id=by_id, topics_by_name=by_name), delta


def _changed(before: Any, after: Any) -> set[Any]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _of_removed_topic(resource: ConfigResource, image: MetadataImage) -> bool:
    return resource.type == ConfigResourceType.TOPIC and image.topic(resource.name) is None
