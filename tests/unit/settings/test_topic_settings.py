import pytest

from ottla.settings.definition import InvalidSettingError
from ottla.settings.topic_settings import (
    effective_topic_settings,
    require_consistent_topic_settings,
)


def test_a_topics_own_value_holds_over_the_brokers():
    effective = effective_topic_settings(
        {"retention.ms": "5"}, {"log.retention.ms": "7", "log.segment.bytes": "2000000"}
    )
    assert effective["retention.ms"] == "5"
    assert effective["segment.bytes"] == "2000000"
    assert effective["max.message.bytes"] == "1048588"


@pytest.mark.parametrize(
    ("broker", "retention"),
    [
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "180000"),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, "4"),
        ({"log.retention.hours": "-1"}, "-1"),
        ({}, "604800000"),
    ],
)
def test_the_finest_unit_of_retention_holds(broker, retention):
    assert effective_topic_settings({}, broker)["retention.ms"] == retention


def test_compaction_lags_that_contradict_each_other_are_refused():
    require_consistent_topic_settings({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidSettingError, match=r"max\.compaction\.lag\.ms"):
        require_consistent_topic_settings({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_streams_have_no_time_to_live():
    require_consistent_topic_settings({"redis.key": "0:orders", "ottla.ttl.ms": "-1", "ottla.ttl.header": "false"})
    require_consistent_topic_settings({"ottla.ttl.ms": "5", "ottla.ttl.header": "true"})
    for name, value in (("ottla.ttl.ms", "5"), ("ottla.ttl.header", "true")):
        with pytest.raises(InvalidSettingError, match=f"{name}={value} with redis.key=0:orders"):
            require_consistent_topic_settings({"redis.key": "0:orders", name: value})
