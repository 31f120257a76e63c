from hypothesis import given
from hypothesis import strategies as st

from ottla.model.printable import printable


def test_what_can_be_seen_stays_as_it_is():
    assert printable("café \N{GRINNING FACE} \\n") == "café \N{GRINNING FACE} \\n"


def test_what_steers_a_terminal_is_written_as_json_has_it():
    assert printable("a\x1b[2J\n\x9b\u202e") == "a\\u001b[2J\\n\\u009b\\u202e"


@given(st.text(st.characters()), st.integers(4, 30))
def test_it_is_one_line_of_the_length_that_was_asked_for(text: str, length_max: int):
    shown = printable(text, length_max)
    assert shown.isprintable()
    assert len(shown) <= length_max
    assert shown == text or len(text) > length_max or not text.isprintable()
