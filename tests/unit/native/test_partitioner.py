"""Murmur2 against the two Python clients."""

import random

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from kafka.partitioner import murmur2 as kafka_python_murmur2

from ottla.native import murmur2


@pytest.mark.parametrize("length", range(70))
def test_keys_of_every_length_hash_as_in_other_clients(length: int) -> None:
    chance = random.Random(length)
    for _ in range(50):
        key = chance.randbytes(length)
        assert murmur2(key) & 0xFFFFFFFF == aiokafka_murmur2(key) & 0xFFFFFFFF
        assert murmur2(key) & 0xFFFFFFFF == kafka_python_murmur2(bytearray(key)) & 0xFFFFFFFF


def test_the_hash_is_signed_as_in_java() -> None:
    assert murmur2(b"21") == -973932308
    assert murmur2(b"abc") == 479470107
