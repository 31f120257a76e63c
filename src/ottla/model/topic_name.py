"""Names of topics: which are legal, which collide, and which are Ottla's own.

Source: the rules of `org.apache.kafka.common.internals.Topic`, as the Kafka protocol's clients expect them.
"""

import re
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

TOPIC_NAME_LENGTH_MAX: Final = 249
"""A directory is named `<topic>-<partition>` and gets a suffix while it is deleted; file systems allow 255 bytes."""

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
SHARE_GROUP_HISTORY_TOPIC: Final = "__share_group_history"
"""What became of records of share groups that have it kept. Not a coordinator's state: it may have gaps."""
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""Apache Kafka's log of the metadata. Clients ask DescribeQuorum for it; no topic may have its name."""

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
"""Topics that hold the state of coordinators. Clients may read them; only coordinators write."""

KEPT_TOPICS: Final = frozenset(
    {
        "__client_metrics",
        "__ottla_checkpoints",
        "__ottla-dlq-redriven",
        "__ottla_spark_sinks",
        SHARE_GROUP_HISTORY_TOPIC,
    }
)
"""Topics in which Ottla's commands, pipelines and Spark's sink keep what they must not lose. Ordinary ones for clients,
but that they have several replicas where nobody says how many."""

KEPT_TOPIC_REPLICAS: Final = 3
"""As many, if there are so many brokers: what the settings of the topics of coordinators ask for."""

_DOTS: Final = frozenset({".", ".."})
_fits: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_LENGTH_MAX}}}").fullmatch


def validate_topic_name(name: str) -> None:
    """Refuse a name that cannot be a topic's.

    Legal are 1 to 249 ASCII letters, digits, `.`, `_` and `-`, but not `.` and `..` themselves.
    Raises ApiError INVALID_TOPIC_EXCEPTION.
    """
    if _fits(name) is not None and name not in _DOTS:
        return
    if not name:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: its {len(name)} characters are longer than the max allowed length "
            f"{TOPIC_NAME_LENGTH_MAX}",
        )
    if name in _DOTS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r} is not allowed")
    raise ApiError(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: {name!r} contains characters other than ASCII alphanumerics, '.', '_' and '-'",
    )


def is_internal_topic(name: str) -> bool:
    """Whether the topic holds a coordinator's state."""
    return name in INTERNAL_TOPICS


def collision_key(name: str) -> str:
    """Two topics with the same key must not exist together: metrics write both `.` and `_` as `_`.

    >>> collision_key("a.b") == collision_key("a_b")
    True
    """
    return name.replace(".", "_")
