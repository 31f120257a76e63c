"""Bytes of a Redis client in pieces of any size: the commands are those of the whole, and nothing else is raised.

how many pieces, 1 byte | size of each piece, 1 byte, times itself | the bytes
"""

import contextlib

from ottla.gateways.redis.command_reader import CommandReader
from ottla.gateways.redis.error import ProtocolError, RedisError
from ottla.gateways.redis.glob import matches
from ottla.gateways.redis.stream_id import parse_end, parse_given_id, parse_start
from ottla.gateways.redis.trimming import parse_options
from tests.fuzz.targets.frames import pieces

LARGEST_BYTES = 1 << 20


def commands_of(stream: bytes, sizes: list[int]) -> tuple[list[list[bytes]], str | None]:
    """The commands in a stream, and why it ends before its end."""
    reader = CommandReader(bulk_bytes_max=LARGEST_BYTES, command_bytes_max=LARGEST_BYTES)
    found: list[list[bytes]] = []
    for piece in pieces(stream, sizes):
        reader.feed(piece)
        try:
            while commands := reader.commands():
                for command in commands:
                    found += [command] if isinstance(command, list) else command.commands()
        except ProtocolError as error:
            return found, str(error)
    return found, None


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    sizes = [size * size for size in data[1 : 1 + data[0]]] or [1 << 20]
    stream = data[1 + data[0] :]
    whole = commands_of(stream, [1 << 20])
    assert commands_of(stream, sizes) == whole
    for command in whole[0]:
        assert command
        for parse in (parse_start, parse_end, parse_given_id):
            with contextlib.suppress(RedisError):
                parse(command[-1])
        matches(command[0], command[-1])
        with contextlib.suppress(RedisError):
            parse_options([b"XADD", *command, b"*", b"f", b"v"], is_add=True)
