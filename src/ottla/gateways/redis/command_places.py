"""Which keys a command names, so that it is known which brokers lead them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.gateways.redis.copy_command import copy_options
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.numbers import find_integer
from ottla.gateways.redis.read_commands import parse_read

if TYPE_CHECKING:
    from ottla.gateways.redis.command_table import Command
    from ottla.gateways.redis.placement import Place


def places_of(command: Command, arguments: list[bytes], database: int, databases: int) -> list[Place]:
    """The keys of a command of a client that has a database selected, of so many; none for one that is refused."""
    if command.name in ("xread", "xreadgroup"):
        try:
            options = parse_read(arguments, is_group=command.name == "xreadgroup")
        except RedisError:
            return []
        return [(database, key) for key in arguments[options.at : options.at + options.keys]]
    places = [(database, key) for key in command.keys_of(arguments)]
    if command.name == "move":
        other = find_integer(arguments[2])
        if other is not None and 0 <= other < databases:
            places.append((other, arguments[1]))
    if command.name == "copy":
        with suppress(RedisError):
            other, _ = copy_options(arguments, database)
            if 0 <= other < databases:
                places[1] = other, arguments[2]
    return places


def is_of_one_key(command: Command) -> bool:
    """Whether a command names just one key, and does not wait."""
    return command.first_key > 0 and command.last_key == command.first_key and command.name != "move"


def only_reads(command: Command) -> bool:
    """Whether a command may be run twice where its reply was lost."""
    return "readonly" in command.flags and command.name != "xreadgroup"
