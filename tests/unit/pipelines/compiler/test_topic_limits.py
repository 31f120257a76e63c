"""Which records a topic takes, by its settings."""

import pytest

from ottla.pipelines.compiler.timestamp_limits import TimestampLimits
from ottla.pipelines.compiler.topic_limits import KAFKAS, TopicLimits


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, KAFKAS),
        ({"cleanup.policy": "delete", "max.message.bytes": "1048588"}, KAFKAS),
        ({"cleanup.policy": "compact"}, TopicLimits(keys_required=True)),
        ({"cleanup.policy": "delete, compact"}, TopicLimits(keys_required=True)),
        ({"max.message.bytes": "9"}, TopicLimits(bytes_max=9)),
        ({"message.timestamp.type": "LogAppendTime"}, TopicLimits(timestamps=None)),
        ({"message.timestamp.after.max.ms": "5"}, TopicLimits(timestamps=TimestampLimits(after_max_ms=5))),
    ],
)
def test_the_limits_are_those_of_the_settings(settings, limits):
    assert TopicLimits.of(settings) == limits


def test_what_codecs_may_add_is_left_free():
    assert TopicLimits(bytes_max=1_048_576).compressed().bytes_max == 1_048_576 - 1024 - 64
    assert TopicLimits(bytes_max=1).compressed().bytes_max == 1
