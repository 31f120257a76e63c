"""One command of a client, from its arguments to the bytes of its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.command_table import find_command
from ottla.gateways.redis.long_work import UnfinishedError

if TYPE_CHECKING:
    from ottla.gateways.redis.session import Session


def call(session: Session, arguments: list[bytes], name: bytes | None = None) -> bytes:
    """Run a command. Raises RedisError, and what a command raises that waits or lacks something (`connection`)."""
    work = session.work
    if work is not None:
        if not work.is_over:
            raise UnfinishedError(work)
        session.work = None
        if not work.is_stale:
            return replies.encode(work.reply(), session.protocol)
    command = find_command(session.gateway.table, arguments, name)
    session.begin(command, arguments)
    if command.subcommands is not None and arguments[1].upper() == b"HELP":
        reply: replies.Reply = [replies.Simple(line) for line in command_help(command.name)]
    else:
        reply = command.handler(session, arguments)
    return replies.encode(reply, session.protocol)


def command_help(name: str) -> list[bytes]:
    """What HELP says."""
    upper = name.upper()
    return [
        f"{upper} <subcommand> [<arg> [value] [opt] ...]. Subcommands are those of Redis:".encode(),
        f"see https://redis.io/commands/{name}".encode(),
    ]
