import pytest

from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.group_settings import group_settings, require_valid_group_settings
from ottla.settings.group_table import GROUP_BOUNDS, GROUP_SETTINGS
from ottla.settings.offset_reset import OffsetReset

SESSION = "consumer.session.timeout.ms"
DEFAULTS = BrokerSettings()


def test_what_a_group_does_not_set_comes_from_the_broker():
    assert group_settings({}, DEFAULTS).integer(SESSION) == 45_000
    broker = BrokerSettings({"group.consumer.session.timeout.ms": "50000"})
    assert group_settings({}, broker).integer(SESSION) == 50_000
    assert group_settings({SESSION: "55000"}, broker).integer(SESSION) == 55_000


def test_the_defaults_of_both_tables_are_the_same():
    settings = group_settings({}, DEFAULTS)
    assert {name: settings.as_text(name) for name in GROUP_SETTINGS} == {
        name: definition.default for name, definition in GROUP_SETTINGS.items()
    }


def test_a_value_that_came_to_lie_beyond_a_bound_counts_as_the_bound():
    narrow = BrokerSettings(
        {"group.consumer.max.session.timeout.ms": "50000", "group.consumer.min.session.timeout.ms": "40000"}
    )
    assert group_settings({SESSION: "60000"}, narrow).integer(SESSION) == 50_000
    assert group_settings({SESSION: "30000"}, narrow).integer(SESSION) == 40_000


def test_a_value_that_a_later_release_left_is_passed_over():
    assert group_settings({SESSION: "a minute", "later.setting": "1"}, DEFAULTS).integer(SESSION) == 45_000


def test_types_come_out():
    settings = group_settings({"share.renew.acknowledge.enable": "false"}, DEFAULTS)
    assert settings.boolean("share.renew.acknowledge.enable") is False
    assert settings.text("share.isolation.level") == "read_uncommitted"


@pytest.mark.parametrize("name", GROUP_BOUNDS)
def test_every_bound_is_a_setting_of_the_broker_and_holds(name):
    bounds = GROUP_BOUNDS[name]
    if bounds.low is not None and DEFAULTS.integer(bounds.low) > 1:
        with pytest.raises(InvalidSettingError, match=bounds.low):
            require_valid_group_settings({name: str(DEFAULTS.integer(bounds.low) - 1)}, DEFAULTS)
    if bounds.high is not None:
        with pytest.raises(InvalidSettingError, match=bounds.high):
            require_valid_group_settings({name: str(DEFAULTS.integer(bounds.high) + 1)}, DEFAULTS)
    require_valid_group_settings({name: str(DEFAULTS.integer(bounds.default))}, DEFAULTS)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"group.consumer.session.timeout.ms": "44999"}, "below group.consumer.min.session.timeout.ms=45000"),
        ({"group.streams.heartbeat.interval.ms": "15001"}, "above group.streams.max.heartbeat.interval.ms=15000"),
        ({"group.streams.num.standby.replicas": "3"}, "above group.streams.max.standby.replicas=2"),
    ],
)
def test_a_broker_whose_defaults_its_own_bounds_do_not_allow_does_not_start(given, what):
    with pytest.raises(InvalidSettingError, match=what):
        BrokerSettings(given)


@pytest.mark.parametrize(
    "value",
    ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:PT0S", "by_duration:P7D"],
)
def test_where_a_reader_may_begin(value):
    assert OffsetReset().complaint(value) is None


@pytest.mark.parametrize(
    "value", ["", "none", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h"]
)
def test_where_it_may_not(value):
    assert OffsetReset().complaint(value) is not None


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "__consumer_offsets"])
def test_letters_go_to_no_topic_that_cannot_be_or_that_only_coordinators_write(name):
    with pytest.raises(InvalidSettingError, match=r"errors.deadletterqueue.topic.name: it must"):
        GROUP_SETTINGS["errors.deadletterqueue.topic.name"].parse(name)
    assert GROUP_SETTINGS["errors.deadletterqueue.topic.name"].parse("") == ""
