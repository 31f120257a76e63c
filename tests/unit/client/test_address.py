"""Addresses as people write them."""

import pytest

from ottla.client.address import Address, parse_address, parse_addresses
from ottla.client.errors import InvalidOptionError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:9093", ("broker", 9093)),
        ("broker", ("broker", 9092)),
        ("9095", ("127.0.0.1", 9095)),
        (":9094", ("127.0.0.1", 9094)),
        ("[::1]:9092", ("::1", 9092)),
        ("[fe80::1]", ("fe80::1", 9092)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("PLAINTEXT://broker:9092", ("broker", 9092)),
        (" broker:9092 ", ("broker", 9092)),
    ],
)
def test_an_address_is_read_with_its_defaults(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "::1", "a:b", "a:70000", "a:-1", "[::1", "[::1]x", "a b:1", "a/b", "a:\u0661"])
def test_what_is_no_address_is_refused_in_one_line(text):
    with pytest.raises(InvalidOptionError) as refused:
        parse_address(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("address", [Address("::1", 9092), Address("broker", 1)])
def test_the_text_of_an_address_is_read_as_the_same_address(address):
    assert parse_address(str(address)) == address


def test_a_list_keeps_its_order_and_drops_what_stands_twice():
    assert parse_addresses("b:1, a:2,b:1,") == (("b", 1), ("a", 2))


def test_an_empty_list_is_refused():
    with pytest.raises(InvalidOptionError, match="no broker address"):
        parse_addresses(" , ")
