"""Values that tell who sent them and whether they are whole."""

import pytest

from workload.payload import Payload, read_value, value_of


@pytest.mark.parametrize("size", [0, 50, 2000])
def test_a_value_tells_its_producer_and_number(size: int):
    value = value_of("confluent", 12345, size)
    assert read_value(value) == Payload("confluent", 12345)
    assert size - 16 <= len(value) <= max(size, 40)


def test_any_changed_byte_is_noticed():
    value = value_of("p", 7, 60)
    for index in range(len(value)):
        changed = bytearray(value)
        changed[index] ^= 1
        assert read_value(bytes(changed)) is None


@pytest.mark.parametrize("value", [None, b"", b"hello"])
def test_what_is_not_ours_is_none(value: bytes | None):
    assert read_value(value) is None
