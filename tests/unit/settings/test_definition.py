import pytest

from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.definition import InvalidSettingError, SettingDefinition
from ottla.settings.validators import NotEmpty, OneOf, Range
from ottla.settings.value import SettingType


def definition(kind, validator=None):
    return SettingDefinition(name="the.setting", type=kind, default=None, documentation="", validator=validator)


@pytest.mark.parametrize(
    ("kind", "validator", "text", "allowed"),
    [
        (SettingType.LONG, Range(-1), "soon", "a whole number of at least -1"),
        (SettingType.DOUBLE, Range(0, 1), "half", "a number from 0 to 1"),
        (SettingType.BOOLEAN, None, "yes", "true or false"),
        (SettingType.INT, None, "1.5", "a whole number"),
        (SettingType.LIST, OneOf(("compact", "delete")), "purge", "must be one of: compact, delete"),
        (SettingType.STRING, OneOf(("", "on")), "off", "must be one of: nothing, on"),
        (SettingType.STRING, NotEmpty(), "", "not be empty"),
        (SettingType.SHORT, Range(1), "99999", "fit in 16 bits"),
    ],
)
def test_a_refusal_says_which_values_are_allowed(kind, validator, text, allowed):
    with pytest.raises(InvalidSettingError) as refused:
        definition(kind, validator).parse(text)
    assert refused.value.message.startswith(f"Invalid value {text} for configuration the.setting: ")
    assert refused.value.message.endswith(allowed)


def test_a_value_longer_than_the_metadata_keeps_is_refused_and_repeated_in_part():
    assert definition(SettingType.STRING).parse("x" * 32_767) == "x" * 32_767
    with pytest.raises(InvalidSettingError, match="at most 32767 characters") as refused:
        definition(SettingType.STRING).parse("x" * 32_768)
    assert len(refused.value.message) < 300


def test_a_secret_is_not_repeated_where_it_is_refused():
    definition = BROKER_SETTINGS["cluster.secret"]
    with pytest.raises(InvalidSettingError) as caught:
        definition.parse("too short")
    assert caught.value.message == "Invalid value for configuration cluster.secret: it must have at least 16 characters"
    with pytest.raises(InvalidSettingError) as caught:
        definition.parse("x" * 40_000)
    assert "xx" not in caught.value.message
    assert definition.parse("long enough to be one") == "long enough to be one"
