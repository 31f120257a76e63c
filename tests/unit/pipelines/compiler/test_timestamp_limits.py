"""Which times a topic takes, by its settings."""

import pytest

from ottla.pipelines.compiler.timestamp_limits import KAFKAS, TimestampLimits


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, KAFKAS),
        ({"message.timestamp.type": "CreateTime"}, TimestampLimits((1 << 63) - 1, 3_600_000)),
        ({"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "5"}, None),
        ({"message.timestamp.after.max.ms": "5", "message.timestamp.before.max.ms": "7"}, TimestampLimits(7, 5)),
    ],
)
def test_the_limits_are_those_of_the_settings(settings, limits):
    assert TimestampLimits.of(settings) == limits
