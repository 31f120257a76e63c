"""Decides about topics that are to go.

Errors, as Kafka answers them: TOPIC_DELETION_DISABLED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID.
"""

from collections.abc import Iterable
from uuid import UUID

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.metadata.records import MetadataRecord, TopicRemovedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError


def decide_topic_deletion(
    image: MetadataImage, topics: Iterable[str | UUID], limits: TopicLimits
) -> Decision[dict[str | UUID, Outcome[TopicImage]]]:
    """Decide about each topic, by name or by id, by itself; a topic named twice goes once."""
    outcomes: dict[str | UUID, Outcome[TopicImage]] = {}
    removed: dict[UUID, MetadataRecord] = {}
    for wanted in topics:
        try:
            topic = _find(image, wanted, limits)
        except ApiError as error:
            outcomes[wanted] = error
            continue
        outcomes[wanted] = topic
        removed[topic.topic_id] = TopicRemovedRecord(topic.topic_id)
    return Decision(tuple(removed.values()), outcomes)


def _find(image: MetadataImage, wanted: str | UUID, limits: TopicLimits) -> TopicImage:
    if not limits.delete_topic_enable:
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "topics cannot be deleted: delete.topic.enable is false")
    if isinstance(wanted, UUID):
        topic = image.topic_by_id(wanted)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {wanted}")
        return topic
    topic = image.topic(wanted)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted}")
    return topic
