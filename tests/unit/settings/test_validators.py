import pytest

from ottla.settings.definition import InvalidSettingError, SettingDefinition
from ottla.settings.validators import OneOf, Range
from ottla.settings.value import SettingType


def definition(kind, validator=None):
    return SettingDefinition(name="the.setting", type=kind, default=None, documentation="", validator=validator)


def test_a_value_out_of_range_is_told_the_bound():
    with pytest.raises(InvalidSettingError, match="at least 4"):
        definition(SettingType.INT, Range(4)).parse("3")
    with pytest.raises(InvalidSettingError, match="at most 1"):
        definition(SettingType.DOUBLE, Range(0, 1)).parse("1.1")


def test_a_word_that_is_not_among_the_choices_is_told_the_choices():
    with pytest.raises(InvalidSettingError, match="one of: compact, delete"):
        definition(SettingType.LIST, OneOf(("compact", "delete"))).parse("compact,purge")


def test_a_word_that_is_repeated_in_a_list_counts_once():
    policies = definition(SettingType.LIST, OneOf(("compact", "delete")))
    assert policies.parse("delete, compact,delete") == ("delete", "compact")
    assert policies.canonical("delete, compact,delete") == "delete,compact"


def test_a_number_may_stand_beside_the_bounds():
    level = definition(SettingType.INT, Range(1, 9, beside=-1))
    assert [level.parse(text) for text in ("-1", "1", "9")] == [-1, 1, 9]
    for text in ("0", "-2"):
        with pytest.raises(InvalidSettingError, match="must be at least 1, or -1"):
            level.parse(text)
    with pytest.raises(InvalidSettingError, match="must be at most 9, or -1"):
        level.parse("10")
    with pytest.raises(InvalidSettingError, match="must be a whole number from 1 to 9, or -1"):
        level.parse("best")
