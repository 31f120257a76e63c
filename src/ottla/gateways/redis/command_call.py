"""One command of a client, from its arguments to the bytes of its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.command_table import find_command
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.long_reply import LONG_BYTES, LongReplyError, together
from ottla.gateways.redis.long_work import UnfinishedError

if TYPE_CHECKING:
    from ottla.gateways.redis.command_table import Command
    from ottla.gateways.redis.session import Session

HELPFUL: Final = frozenset({"client", "command", "config"})
"""Commands that look at their subcommands themselves."""
WITH_HELP: Final = 2


def call(session: Session, arguments: list[bytes], name: bytes | None = None) -> bytes:
    """Run a command. Raises RedisError, and what a command raises that waits or lacks something (`connection`), or
    whose reply is long.
    """
    work, gateway = session.work, session.gateway
    if work is not None and not work.is_over:
        raise UnfinishedError(work)
    session.work = None
    session.arguments = arguments
    if work is not None and work.is_stale:
        work = None
    command = gateway.table.get(name or arguments[0].upper())
    began_ms = gateway.broker.clock.monotonic_ms()
    has_begun = work is not None
    try:
        if work is not None:
            reply = work.reply()
        else:
            command = find_command(gateway.table, arguments, name)
            session.begin(command, arguments)
            session.last_command = command.name
            has_begun = True
            reply = _run(session, command, arguments)
    except RedisError:
        if command is not None and has_begun:
            gateway.statistics.failed(_full_name(command, arguments), gateway.broker.clock.monotonic_ms() - began_ms)
        elif command is not None:
            gateway.statistics.rejected(command.name)
        raise
    finally:
        session.arguments = []
    assert command is not None
    if command.writes:
        for key in command.keys_of(arguments):
            session.wrote(key)
    gateway.statistics.ran(_full_name(command, arguments), gateway.broker.clock.monotonic_ms() - began_ms)
    if work is None or not session.may_be_long:
        return replies.encode(reply, session.protocol)
    parts = replies.encoded_parts(reply, session.protocol)
    if sum(map(len, parts)) > LONG_BYTES:
        raise LongReplyError(list(together(parts)))
    return b"".join(parts)


def _run(session: Session, command: Command, arguments: list[bytes]) -> replies.Reply:
    has_help = command.subcommands is not None or command.name in HELPFUL
    if has_help and arguments[1:] and arguments[1].upper() == b"HELP" and len(arguments) == WITH_HELP:
        return [replies.Simple(line) for line in command_help(command.name)]
    return command.handler(session, arguments)


def _full_name(command: Command, arguments: list[bytes]) -> str:
    """The name of a command, with that of its subcommand where those are known."""
    return command.name if command.subcommands is None else f"{command.name}|{arguments[1].decode().lower()}"


def command_help(name: str) -> list[bytes]:
    """What HELP says."""
    upper = name.upper()
    return [
        f"{upper} <subcommand> [<arg> [value] [opt] ...]. Subcommands are those of Redis:".encode(),
        f"see https://redis.io/commands/{name}".encode(),
    ]
