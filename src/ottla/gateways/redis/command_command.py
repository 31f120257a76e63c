"""COMMAND: which commands there are, and which keys one names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.gateways.redis.command_places import places_of
from ottla.gateways.redis.error import SYNTAX, RedisError, arity, unknown_or_wrong
from ottla.gateways.redis.glob import matches
from ottla.gateways.redis.reply import NULL_ARRAY, Reply, Simple

if TYPE_CHECKING:
    from ottla.gateways.redis.command_table import Command
    from ottla.gateways.redis.session import Session


def command(session: Session, arguments: list[bytes]) -> Reply:
    """COMMAND and its subcommands."""
    table = session.gateway.table
    if len(arguments) == 1:
        return [_described(each) for each in table.values()]
    name = arguments[1].upper()
    if name == b"COUNT" and len(arguments) == 2:
        return len(table)
    if name == b"INFO":
        if len(arguments) == 2:
            return [_described(each) for each in table.values()]
        found = [table.get(each.upper()) for each in arguments[2:]]
        return [NULL_ARRAY if each is None else _described(each) for each in found]
    if name == b"LIST":
        return _names(table, arguments)
    if name == b"DOCS":
        return {}
    if name == b"GETKEYS":
        return _keys(table, arguments)
    raise unknown_or_wrong(arguments[1], "command")


def _described(each: Command) -> Reply:
    flags: list[Reply] = [Simple(flag.encode()) for flag in each.flags]
    return [each.name.encode(), each.arity, flags, each.first_key, each.last_key, each.key_step, [], [], [], []]


def _names(table: dict[bytes, Command], arguments: list[bytes]) -> Reply:
    names = [each.name.encode() for each in table.values()]
    if len(arguments) == 2:
        return list(names)
    if len(arguments) != 5 or arguments[2].upper() != b"FILTERBY":
        raise RedisError(SYNTAX)
    match arguments[3].upper():
        case b"PATTERN":
            return [each for each in names if matches(arguments[4].lower(), each)]
        case b"MODULE":
            return []
        case b"ACLCAT":
            raise RedisError("ERR COMMAND LIST FILTERBY ACLCAT is not served: there are no categories of commands")
    raise RedisError(SYNTAX)


def _keys(table: dict[bytes, Command], arguments: list[bytes]) -> Reply:
    if len(arguments) < 3:
        raise arity("command|getkeys")
    called = arguments[2:]
    described = table.get(called[0].upper())
    if described is None:
        raise RedisError("ERR Invalid command specified")
    if not described.first_key and "movablekeys" not in described.flags:
        raise RedisError("ERR The command has no key arguments")
    count = described.arity
    if len(called) != count if count >= 0 else len(called) < -count:
        raise RedisError("ERR Invalid number of arguments specified for command")
    places = places_of(described, called, -1, databases=0)
    if not places:
        raise RedisError("ERR Invalid arguments specified for command")
    return [key for _, key in places]
