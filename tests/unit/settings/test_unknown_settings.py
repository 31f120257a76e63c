import pytest

from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.foreign_settings import IGNORED_PREFIXES, REFUSED_PREFIXES
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS
from ottla.settings.unknown_settings import unknown_broker_setting, unknown_topic_setting


@pytest.mark.parametrize("name", ["retention_ms", "retention-ms", "Retention.Ms", "retentionMs"])
def test_a_name_in_another_spelling_is_recognised(name):
    assert unknown_topic_setting(name) == f"Unknown topic config name: {name}: did you mean retention.ms?"
    assert unknown_broker_setting(f"log.{name}").endswith("did you mean log.retention.ms?")


def test_a_broker_setting_on_a_topic_is_led_to_the_topics_own():
    for topic_setting, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            if synonym.name not in TOPIC_SETTINGS:
                assert unknown_topic_setting(synonym.name).endswith(f"on a topic, set {topic_setting}")
    assert unknown_topic_setting("num.partitions").endswith("topics have none of their own: take it out")


def test_a_topic_setting_on_a_broker_is_led_to_the_brokers():
    for topic_setting, synonyms in BROKER_SYNONYMS.items():
        if not synonyms:
            assert unknown_broker_setting(topic_setting).endswith("brokers have none of their own: take it out")
        elif topic_setting not in BROKER_SETTINGS:
            assert unknown_broker_setting(topic_setting).endswith(f"on a broker, set {synonyms[0].name}")


def test_what_kafka_has_and_ottla_has_not_is_told_with_the_reason():
    for prefix, reason in {**REFUSED_PREFIXES, **IGNORED_PREFIXES}.items():
        name = f"{prefix}x" if prefix.endswith(".") else prefix
        assert reason in unknown_broker_setting(name), name
        assert unknown_broker_setting(name).endswith("take it out")


def test_an_old_name_is_led_to_the_new_one():
    assert unknown_broker_setting("broker.id") == "broker.id is the old name of node.id"


def test_a_long_name_is_repeated_in_part():
    assert len(unknown_topic_setting("x" * 30_000)) < 300
    assert len(unknown_broker_setting("x" * 30_000)) < 300
