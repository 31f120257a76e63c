"""Decides about topics that are to go.

Errors, as Kafka answers them: INVALID_REQUEST (a topic twice), TOPIC_DELETION_DISABLED, UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID. A coordinator's topic is deleted like any other, as Kafka does.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.metadata.records import TopicRemovedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.unknown_topic import no_such_topic, no_such_topic_id


def decide_topic_deletion(
    image: MetadataImage, topics: Sequence[str | UUID], limits: TopicLimits
) -> Decision[list[Outcome[TopicImage]]]:
    """Decide about each topic, by name or by id, by itself; the outcomes are in the order of the request.

    What occurs twice, even once by name and once by id, is refused each time: it may be a mistake.
    """
    found: list[Outcome[TopicImage]] = []
    for wanted in topics:
        try:
            found.append(_find(image, wanted, limits))
        except ApiError as error:
            found.append(error)
    occurrences = Counter(each.topic_id for each in found if isinstance(each, TopicImage))
    outcomes = [
        _refused(each) if isinstance(each, TopicImage) and occurrences[each.topic_id] > 1 else each for each in found
    ]
    records = tuple(TopicRemovedRecord(each.topic_id) for each in outcomes if isinstance(each, TopicImage))
    return Decision(records, outcomes)


def _refused(topic: TopicImage) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name: the request repeats {topic.name}")


def _find(image: MetadataImage, wanted: str | UUID, limits: TopicLimits) -> TopicImage:
    if not limits.delete_topic_enable:
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled: delete.topic.enable is false")
    if isinstance(wanted, UUID):
        topic = image.topic_by_id(wanted)
        if topic is None:
            raise no_such_topic_id(wanted)
        return topic
    topic = image.topic(wanted)
    if topic is None:
        raise no_such_topic(wanted)
    return topic
