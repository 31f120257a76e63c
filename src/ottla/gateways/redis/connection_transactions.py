"""MULTI, EXEC and their like on one connection: what is queued, and where it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.command_call import call
from ottla.gateways.redis.command_table import TRANSACTION, find_command
from ottla.gateways.redis.error import RedisError, arity
from ottla.gateways.redis.forwarding import CROSSED
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.session import QuitError
from ottla.gateways.redis.transaction import encoded, finish_queued, places_of_all, run_queued

if TYPE_CHECKING:
    from ottla.gateways.redis.connection import RedisConnection
    from ottla.gateways.redis.forwarded_commands import ForwardedCommands
    from ottla.gateways.redis.stream_log import Flush

QUEUED_MAX: Final = 100_000


class ConnectionTransactions:
    """Of one connection."""

    def __init__(self, connection: RedisConnection, forwarded: ForwardedCommands) -> None:
        self._connection = connection
        self._forwarded = forwarded
        self._gateway = connection.gateway
        self._session = connection.session

    def run(self, name: bytes, arguments: list[bytes]) -> None:
        """Run a command of transactions, or queue one. Raises RedisError, QuitError and what a command raises that
        lacks something.
        """
        session = self._session
        if name in TRANSACTION:
            count = TRANSACTION[name]
            if len(arguments) != count if count >= 0 else len(arguments) < -count:
                self._gateway.statistics.rejected(name.decode().lower())
                raise arity(name.decode().lower())
            self._gateway.statistics.ran(name.decode().lower())
        match name:
            case b"EXEC":
                self._exec()
            case b"QUIT":
                raise QuitError
            case b"RESET":
                session.end_transaction()
                self._connection.give(call(session, arguments))
            case _ if session.queued is None:
                self._before_transaction(name, arguments)
            case _:
                self._in_transaction(name, arguments, session.queued)

    def _before_transaction(self, name: bytes, arguments: list[bytes]) -> None:
        session = self._session
        match name:
            case b"DISCARD":
                raise RedisError("ERR DISCARD without MULTI")
            case b"MULTI":
                session.queued = []
            case b"WATCH":
                session.begin(self._gateway.table[name], arguments)
                for key in arguments[1:]:
                    session.require_access(key)  # of all, before one that is led elsewhere has them looked at there
                try:
                    for key in arguments[1:]:
                        session.watch(key)
                except ElsewhereError:
                    self._connection.begin_task(self._forwarded.watch(arguments[1:]))
                    return
            case _:
                assert name == b"UNWATCH", name
                session.end_transaction()
        self._connection.give(replies.OK.data)

    def _in_transaction(self, name: bytes, arguments: list[bytes], queued: list[list[bytes]]) -> None:
        match name:
            case b"DISCARD":
                self._session.end_transaction()
                self._connection.give(replies.OK.data)
                return
            case b"MULTI":
                self._refuse(b"ERR MULTI calls can not be nested")
                return
            case b"WATCH":
                self._refuse(b"ERR WATCH inside MULTI is not allowed")
                return
        if name != b"UNWATCH":
            self._session.begin(find_command(self._gateway.table, arguments), arguments)
        if len(queued) >= QUEUED_MAX:
            raise RedisError(f"ERR MULTI holds more than {QUEUED_MAX} commands")
        self._session.queue(queued, arguments)
        self._connection.give(replies.QUEUED.data)

    def _refuse(self, line: bytes) -> None:
        """Refuse a command within a transaction, which goes on: EXEC is served."""
        self._gateway.statistics.answered(line)
        self._connection.give(replies.error(line))

    def _exec(self) -> None:
        session = self._session
        queued, has_failed = session.queued, session.has_failed
        if queued is None:
            raise RedisError("ERR EXEC without MULTI")
        watched, has_changed = session.watched, False
        leader = None if has_failed else self._leader_of(queued)
        if leader is None:
            has_changed = bool(watched) and session.has_changed
        session.end_transaction()
        if has_failed:
            raise RedisError("EXECABORT Transaction discarded because of previous errors.")
        if leader is not None:
            places = [*watched, *places_of_all(session, queued)]
            self._connection.begin_task(self._forwarded.transaction(queued, watched, places, leader))
            return
        if has_changed:
            self._connection.give(replies.encode(replies.NULL_ARRAY, session.protocol))
            return
        answers: list[bytes] = []
        missing = run_queued(session, queued, answers)
        if missing is None:
            self._connection.give(encoded(answers))
        else:
            awaited = set(self._gateway.keyspace.awaited)
            rest = finish_queued(session, queued, answers, missing, awaited)
            self._connection.begin_task(self._answer_later(rest, answers, awaited))

    def _leader_of(self, queued: list[list[bytes]]) -> int | None:
        """The broker that leads all keys of a transaction, None for this one. Raises RedisError for several."""
        placement = self._gateway.keyspace.placement
        if not placement.has_peers:
            return None
        owner = self._gateway.forwarding.owner_of_all([*self._session.watched, *places_of_all(self._session, queued)])
        if owner is None:
            self._session.end_transaction()
            raise RedisError(f"EXECABORT {CROSSED}")
        return None if owner == placement.own_id else owner

    async def _answer_later(self, rest: asyncio.Task[None], answers: list[bytes], awaited: set[Flush]) -> None:
        await asyncio.shield(rest)
        self._gateway.keyspace.awaited |= awaited
        self._connection.give(encoded(answers))
        self._connection.finish_answers()
