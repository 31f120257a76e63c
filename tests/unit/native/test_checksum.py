"""CRC-32C against aiokafka's implementation."""

from aiokafka.record._crecords.cutil import crc32c_cython
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import crc32c


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=5000))
def test_it_is_what_another_implementation_computes(data: bytes) -> None:
    assert crc32c(data) == crc32c_cython(memoryview(data))


@given(st.binary(max_size=500), st.binary(max_size=500))
def test_a_checksum_can_be_continued(head: bytes, tail: bytes) -> None:
    assert crc32c(tail, crc32c(head)) == crc32c(head + tail)


def test_every_kind_of_buffer_will_do_and_large_ones_too() -> None:
    data = bytes(range(256)) * 1024
    expected = crc32c_cython(memoryview(data))
    assert {crc32c(data), crc32c(bytearray(data)), crc32c(memoryview(data))} == {expected}
    assert crc32c(memoryview(data)[3:70000]) == crc32c(data[3:70000])
