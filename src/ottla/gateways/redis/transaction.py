"""The commands of EXEC: run without a pause, or with all others held while entries are fetched for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.command_call import call
from ottla.gateways.redis.command_places import places_of
from ottla.gateways.redis.command_table import find_command
from ottla.gateways.redis.error import RedisError, failed
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.keyspace import LoadingError, TopicMissingError
from ottla.gateways.redis.numbers import find_integer
from ottla.gateways.redis.placement import ElsewhereError, Place
from ottla.gateways.redis.stream import NodeMissingError
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.gateways.redis.session import Session
    from ottla.gateways.redis.stream_log import Flush

MISSING = (NodeMissingError, TopicMissingError, LoadingError)
"""What a command raises that can run once something has been fetched."""
MOVED = "ERR another broker came to lead a key of the transaction while it ran"


def places_of_all(session: Session, queued: list[list[bytes]]) -> list[Place]:
    """The keys that the commands name."""
    database, count = session.database, len(session.keyspace.databases)
    found: list[Place] = []
    for arguments in queued:
        if arguments[0].upper() == b"SELECT":
            wanted = find_integer(arguments[1])
            database = wanted if wanted is not None and 0 <= wanted < count else database
        elif arguments[0].upper() != b"UNWATCH":
            found += places_of(find_command(session.gateway.table, arguments), arguments, database, count)
    return found


def run_queued(session: Session, queued: list[list[bytes]], answers: list[bytes]) -> Exception | None:
    """Run what is left of a transaction; returns what is missing, None when it is over."""
    session.in_transaction = True
    try:
        while len(answers) < len(queued):
            arguments = queued[len(answers)]
            try:
                is_unwatch = arguments[0].upper() == b"UNWATCH"
                answers.append(replies.OK.data if is_unwatch else call(session, arguments))
            except RedisError as error:
                session.gateway.statistics.answered(error.line)
                answers.append(replies.error(error.line))
            except ElsewhereError:
                answers.append(replies.error(MOVED.encode()))
            except MISSING as missing:
                return missing
    finally:
        session.in_transaction = False
    return None


def finish_queued(
    session: Session, queued: list[list[bytes]], answers: list[bytes], missing: Exception, awaited: set[Flush]
) -> asyncio.Task[None]:
    """Run the rest of a transaction, to its end whatever its client does meanwhile; all other commands are held until
    then. `awaited` takes the changes that the answers rest on.
    """
    session.gateway.hold()
    return session.gateway.broker.tasks.spawn(_finish(session, queued, answers, missing, awaited), "redis-exec")


async def _finish(
    session: Session, queued: list[list[bytes]], answers: list[bytes], missing: Exception | None, awaited: set[Flush]
) -> None:
    gateway = session.gateway
    try:
        await _run_rest(session, queued, answers, missing, awaited)
    except Exception:
        gateway.release()
        raise
    gateway.release()  # not where the broker stops: a part of a transaction is not to be written
    gateway.serve_waiters()


async def _run_rest(
    session: Session, queued: list[list[bytes]], answers: list[bytes], missing: Exception | None, awaited: set[Flush]
) -> None:
    fetched, keyspace = Fetched(), session.keyspace
    while missing is not None:
        try:
            await session.gateway.fetch(missing, fetched, session)
        except ApiError as error:
            answers.append(replies.error(failed(error).line))
        except RedisError as error:
            answers.append(replies.error(error.line))
        fetched.hold()
        outside, keyspace.awaited = keyspace.awaited, awaited
        try:
            missing = run_queued(session, queued, answers)
        finally:
            keyspace.awaited = outside


def encoded(answers: list[bytes]) -> bytes:
    """The reply to EXEC."""
    return b"*%d\r\n%b" % (len(answers), b"".join(answers))
