"""How a peer is told that a topic or a partition is not there: in words that people and tools search for."""

from typing import Final
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

_NOT_HOSTED: Final = "This server does not host this topic-partition"


def no_such_topic(name: str) -> ApiError:
    """The topic does not exist."""
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{_NOT_HOSTED}: the topic '{name}' does not exist")


def no_such_partition(topic: str, index: int | str) -> ApiError:
    """The topic does not exist, or has no partition with this number."""
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{_NOT_HOSTED}: there is no partition {topic}-{index}")


def no_such_topic_id(topic_id: UUID) -> ApiError:
    """No topic has the id."""
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_ID, f"This server does not host this topic ID: no topic has the id {topic_id}"
    )
