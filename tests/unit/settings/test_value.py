import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.settings.definition import InvalidSettingError, SettingDefinition
from ottla.settings.value import SettingType, format_value, parse_list


def definition(kind, validator=None):
    return SettingDefinition(name="the.setting", type=kind, default=None, documentation="", validator=validator)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SettingType.BOOLEAN, " TRUE ", True),
        (SettingType.BOOLEAN, "false", False),
        (SettingType.INT, "-1", -1),
        (SettingType.INT, " +7 ", 7),
        (SettingType.LONG, "9223372036854775807", 2**63 - 1),
        (SettingType.SHORT, "-32768", -32768),
        (SettingType.INT, "\N{ARABIC-INDIC DIGIT ONE}", 1),
        (SettingType.INT, "0" * 900 + "1", 1),
        (SettingType.DOUBLE, "0.5", 0.5),
        (SettingType.DOUBLE, "0.5d", 0.5),
        (SettingType.DOUBLE, "0x1p-1", 0.5),
        (SettingType.LIST, "", ()),
        (SettingType.LIST, "a, b", ("a", "b")),
        (SettingType.STRING, " x ", "x"),
    ],
)
def test_text_becomes_a_typed_value(kind, text, value):
    assert definition(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SettingType.BOOLEAN, "yes"),
        (SettingType.BOOLEAN, ""),
        (SettingType.INT, "2147483648"),
        (SettingType.INT, "1e3"),
        (SettingType.INT, "1_000"),
        (SettingType.INT, "--1"),
        (SettingType.INT, "\N{SUPERSCRIPT TWO}"),
        (SettingType.INT, "\N{NO-BREAK SPACE}1"),
        (SettingType.INT, "9" * 5000),
        (SettingType.DOUBLE, "9" * 5000),
        (SettingType.DOUBLE, "1_0"),
        (SettingType.DOUBLE, "1e400"),
        (SettingType.DOUBLE, "0x1p9999"),
        (SettingType.DOUBLE, "0x1p" + "9" * 900),
        (SettingType.SHORT, "32768"),
        (SettingType.DOUBLE, "nan"),
        (SettingType.DOUBLE, "inf"),
        (SettingType.DOUBLE, "half"),
    ],
)
def test_text_of_the_wrong_type_is_refused_by_name(kind, text):
    with pytest.raises(InvalidSettingError, match=r"the\.setting"):
        definition(kind).parse(text)


@given(st.lists(st.text("abc.-", min_size=1)).map(tuple))
def test_a_list_is_read_as_it_was_written(items):
    assert parse_list(format_value(items) or "") == items
