import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordination.key_partition import partition_of_key


@pytest.mark.parametrize(
    ("key", "java_hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("console-consumer-12345", None),
    ],
)
def test_the_partition_follows_from_javas_hash_code(key: str, java_hash_code: int | None):
    if java_hash_code is None:
        java_hash_code = naive_hash_code(key)
    magnitude = 0 if java_hash_code == -(2**31) else abs(java_hash_code)
    assert partition_of_key(key, 50) == magnitude % 50


def naive_hash_code(text: str) -> int:
    """s[0]*31^(n-1) + ... + s[n-1], as the Java documentation defines it, cut to 32 bits with sign."""
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    value = sum(unit * 31 ** (len(units) - 1 - index) for index, unit in enumerate(units)) & (2**32 - 1)
    return value - 2**32 if value >= 2**31 else value


@given(st.text(max_size=40), st.integers(1, 1000))
def test_every_key_has_a_partition_by_the_definition(key: str, count: int):
    value = naive_hash_code(key)
    expected = (0 if value == -(2**31) else abs(value)) % count
    assert partition_of_key(key, count) == expected


def test_characters_beyond_16_bits_count_as_java_counts_them():
    assert partition_of_key("\U0001f680", 50) == naive_hash_code("\U0001f680") % 50
