"""Commands out of bytes."""

import doctest
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis import glob, inline, listpack, numbers, stream_id
from ottla.gateways.redis.command_reader import ARGUMENTS_MAX, LINE_BYTES_MAX, CommandReader
from ottla.gateways.redis.error import ProtocolError
from tests.redis_client import encoded


def reader() -> CommandReader:
    return CommandReader(bulk_bytes_max=1_000, command_bytes_max=2_000)


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=5), max_size=5), st.integers(1, 30))
def test_pieces_of_any_size_give_the_commands_that_were_sent(commands: list[list[bytes]], size: int) -> None:
    data, found, each = b"".join(encoded(tuple(command)) for command in commands), [], reader()
    for at in range(0, len(data), size):
        each.feed(data[at : at + size])
        found += each.commands()
    assert found == commands


def test_lines_and_arrays_may_follow_each_other() -> None:
    each = reader()
    each.feed(b"PING\r\n\r\n*0\r\n" + encoded(("XLEN", "s")) + b"XLEN 's t'\n")
    assert each.commands() == [[b"PING"], [b"XLEN", b"s"], [b"XLEN", b"s t"]]


def test_what_comes_before_a_mistake_is_handed_out_first_and_the_mistake_is_for_ever() -> None:
    each = reader()
    each.feed(encoded(("PING",)) + b"*1\r\n:3\r\n" + encoded(("PING",)))
    assert each.commands() == [[b"PING"]]
    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"ERR Protocol error: expected '\$', got ':'"):
            each.commands()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"*%d\r\n" % (ARGUMENTS_MAX + 1), "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1\r\n$1001\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*3\r\n" + b"$999\r\n%b\r\n" % bytes(999) * 2 + b"$999\r\n", "redis.client.query.buffer.limit"),
        (b"*" + b"1" * (LINE_BYTES_MAX + 1), "too big mbulk count string"),
        (b"*1\r\n$" + b"1" * (LINE_BYTES_MAX + 1), "too big bulk count string"),
        (b"x" * (LINE_BYTES_MAX + 1), "too big inline request"),
        (b"ECHO 'x\r\n", "unbalanced quotes in request"),
    ],
)
def test_mistakes_have_the_words_of_redis(data: bytes, reason: str) -> None:
    each = reader()
    each.feed(data)
    with pytest.raises(ProtocolError, match=reason):
        each.commands()


def test_a_command_may_have_more_than_a_million_arguments() -> None:
    count, each = 1024 * 1024 + 1, CommandReader(bulk_bytes_max=1_000, command_bytes_max=1 << 30)
    each.feed(b"*%d\r\n" % count + b"$0\r\n\r\n" * count)
    (arguments,) = each.commands()
    assert isinstance(arguments, list)
    assert len(arguments) == count


def test_arguments_without_a_byte_are_not_taken_for_nothing() -> None:
    each = reader()
    each.feed(b"*2147483647\r\n" + b"$0\r\n\r\n" * 100)
    with pytest.raises(ProtocolError, match=r"redis\.client\.query\.buffer\.limit"):
        each.commands()


@pytest.mark.parametrize("module", [glob, inline, listpack, numbers, stream_id], ids=lambda each: each.__name__)
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_of_who_has_to_log_in_first_commands_are_read_one_at_a_time():
    reader = CommandReader(bulk_bytes_max=1 << 20, command_bytes_max=1 << 20)
    reader.is_limited = True
    large = b"*2\r\n$4\r\nECHO\r\n$20000\r\n" + b"x" * 20_000 + b"\r\n"
    reader.feed(b"*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n" + large * 2)
    assert reader.commands() == [[b"AUTH", b"a", b"b"]]
    reader.is_limited = False
    assert reader.commands() == [[b"ECHO", b"x" * 20_000]] * 2
    reader.is_limited = True
    reader.feed(large)
    with pytest.raises(ProtocolError, match="unauthenticated bulk length"):
        reader.commands()


def test_a_pattern_of_redis_is_matched_in_a_bounded_number_of_steps():
    """CVE-2024-31228, and the patterns by which regular expressions are made to try very long."""
    for pattern in (
        b"*a" * 40 + b"b",
        b"*?" * 1_000 + b"b",
        b"[" * 100_000,
        b"\\" * 100_000,
        b"*" * 100_000,
        b"[a-" * 1_000,
    ):
        assert not glob.matches(pattern, b"a" * 20_000 + b"c")
