import pytest

from ottla.settings.connection_overrides import parse_connection_overrides


def test_addresses_are_read_in_any_of_their_forms():
    assert parse_connection_overrides(" 10.0.0.7:5 , ::1:7, [2001:DB8::0]:0 ") == {
        "10.0.0.7": 5,
        "::1": 7,
        "2001:db8::": 0,
    }
    assert parse_connection_overrides("") == {}


@pytest.mark.parametrize("text", ["10.0.0.7", "10.0.0.7:", "10.0.0.7:-1", "10.0.0.7:x", "host:5", ":5", "10.0.0.7:5,"])
def test_what_is_no_address_with_a_count_is_refused_with_what_was_meant(text):
    with pytest.raises(ValueError, match="must be ADDRESS:COUNT"):
        parse_connection_overrides(text)
