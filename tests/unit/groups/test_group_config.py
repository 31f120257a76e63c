from typing import Any

import pytest

from ottla.groups.group_config import GroupConfig
from ottla.settings.broker_settings import BrokerSettings


def test_the_defaults_are_those_of_the_settings():
    assert GroupConfig.from_settings(BrokerSettings()).max_session_timeout_ms == GroupConfig().max_session_timeout_ms
    assert GroupConfig.from_settings(BrokerSettings()).offsets_retention_ms == 7 * 24 * 3_600_000


def test_settings_keep_kafkas_names_and_units():
    settings = BrokerSettings(
        {
            "group.initial.rebalance.delay.ms": "250",
            "group.max.size": "10",
            "offsets.retention.minutes": "2",
            "offsets.topic.num.partitions": "7",
        }
    )
    config = GroupConfig.from_settings(settings)
    assert config.initial_rebalance_delay_ms == 250
    assert config.max_size == 10
    assert config.offsets_retention_ms == 120_000
    assert config.offsets_topic_partitions == 7


@pytest.mark.parametrize(
    "values",
    [
        {"min_session_timeout_ms": 10, "max_session_timeout_ms": 9},
        {"min_session_timeout_ms": 0},
        {"max_size": 0},
        {"offsets_retention_ms": 0},
        {"offsets_topic_partitions": 0},
        {"initial_rebalance_delay_ms": -1},
    ],
)
def test_values_that_make_no_sense_are_refused(values: dict[str, Any]):
    with pytest.raises(ValueError, match=r"must be|is negative"):
        GroupConfig(**values)
