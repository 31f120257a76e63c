import pytest

from ottla.metadata.controller.topic_config import validated_topic_config
from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.definition import InvalidSettingError
from ottla.settings.topic_settings import (
    effective_topic_settings,
    typed_topic_settings,
)
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS


def test_every_default_satisfies_its_own_definition():
    assert len(typed_topic_settings(effective_topic_settings({}, {}))) == len(TOPIC_SETTINGS)


def test_every_topic_setting_falls_back_on_a_broker_setting_that_exists():
    assert set(BROKER_SYNONYMS) == set(TOPIC_SETTINGS)
    names = [synonym.name for synonyms in BROKER_SYNONYMS.values() for synonym in synonyms]
    assert set(names) <= set(BROKER_SETTINGS)


def test_the_broker_and_the_topic_agree_on_defaults():
    for name, synonyms in BROKER_SYNONYMS.items():
        defaults = [BROKER_SETTINGS[each.name].default for each in synonyms]
        factors = [each.factor for each in synonyms]
        if len(synonyms) < 2:
            assert defaults == [TOPIC_SETTINGS[name].default] * len(synonyms)
        else:
            given = [int(value) * factor for value, factor in zip(defaults, factors, strict=True) if value]
            assert given == [int(TOPIC_SETTINGS[name].default or 0)]


def test_an_unknown_setting_is_refused_by_name():
    with pytest.raises(InvalidSettingError, match=r"retention\.mss"):
        validated_topic_config({"retention.mss": "1"})


def test_tiered_storage_can_be_switched_off_but_not_on():
    off = {"remote.storage.enable": "false", "local.retention.ms": "-2", "remote.log.copy.disable": "TRUE"}
    assert validated_topic_config(off) == {**off, "remote.log.copy.disable": "true"}
    with pytest.raises(InvalidSettingError, match="Tiered Storage functionality is disabled in the broker"):
        validated_topic_config({"remote.storage.enable": "true"})


def test_a_segment_has_at_least_a_megabyte():
    validated_topic_config({"segment.bytes": "1048576"})
    with pytest.raises(InvalidSettingError, match=r"segment\.bytes"):
        validated_topic_config({"segment.bytes": "1048575"})


def test_every_setting_is_documented():
    for definition in (*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()):
        assert definition.documentation.strip().endswith("."), definition.name


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("compression.type", ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), ("none", "GZIP", "")),
        ("compression.gzip.level", ("-1", "1", "9"), ("0", "10", "-2", "best")),
        ("compression.lz4.level", ("1", "17"), ("0", "18", "-1")),
        ("compression.zstd.level", ("-131072", "0", "22"), ("-131073", "23")),
        ("unclean.leader.election.enable", ("true", "false"), ("yes",)),
    ],
)
def test_the_values_of_compression_and_elections_are_kafkas(name, good, bad):
    for text in good:
        assert validated_topic_config({name: text}) == {name: text}
    for text in bad:
        with pytest.raises(InvalidSettingError, match=name.replace(".", r"\.")):
            validated_topic_config({name: text})


def test_a_setting_that_changes_nothing_says_so_and_why_on_the_topic_and_on_the_broker():
    said = TOPIC_SETTINGS["compression.lz4.level"].full_documentation
    assert said.endswith("Not implemented yet: lz4 is written in one way, the fast one.")
    for name, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            reasons = (TOPIC_SETTINGS[name].no_effect, BROKER_SETTINGS[synonym.name].no_effect)
            assert reasons[0] == reasons[1], synonym.name
    assert TOPIC_SETTINGS["retention.ms"].full_documentation == TOPIC_SETTINGS["retention.ms"].documentation
