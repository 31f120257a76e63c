from typing import Any

import pytest

from ottla.groups.consumer_config import GroupTimes
from ottla.groups.group_config import GroupConfig
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.group_settings import group_settings


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


def test_the_settings_of_consumer_groups_are_the_brokers_until_a_group_has_its_own():
    own = group_settings({"consumer.session.timeout.ms": "50000"}, BrokerSettings())
    config = GroupConfig.from_settings(
        BrokerSettings({"group.consumer.assignors": "range", "group.consumer.migration.policy": "upgrade"}),
        lambda group_id: own if group_id == "g" else group_settings({}, BrokerSettings()),
    ).consumer
    assert config.assignors == ("range",)
    assert (config.may_upgrade, config.may_downgrade) == (True, False)
    assert config.times("g") == GroupTimes(session_timeout_ms=50_000)
    assert config.times("other") == GroupTimes()


def test_the_classic_protocol_cannot_be_turned_off():
    with pytest.raises(InvalidSettingError, match="classic"):
        BrokerSettings({"group.coordinator.rebalance.protocols": "consumer"})
    with pytest.raises(ValueError, match="classic"):
        GroupConfig(protocols=("consumer",))
