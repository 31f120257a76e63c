"""What the parent tells its broker processes, and what it says of them."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.server.processes import _properties, _reason
from ottla.settings.properties import parse_properties


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_settings_are_read_as_they_were_given_but_for_blanks_at_the_end(settings: dict[str, str]):
    readable = {name: text.rstrip(" \t\f") for name, text in settings.items() if _is_text(name) and _is_text(text)}
    assert parse_properties(_properties(readable).decode()) == readable


def _is_text(text: str) -> bool:
    return not any(0xD800 <= ord(each) <= 0xDFFF for each in text)


def test_an_end_is_said_by_its_signal_or_its_exit_code():
    assert (_reason(-9), _reason(3)) == ("SIGKILL", "itself with exit code 3")
