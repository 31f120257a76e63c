"""Commands of one connection whose keys other brokers lead: sent on, and their answers given in their turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.command_places import is_of_one_key, places_of
from ottla.gateways.redis.command_table import find_command
from ottla.gateways.redis.copy_command import copy_options
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.forwarding import BATCH_BYTES_MAX, BATCH_COMMANDS_MAX, CROSSED, client_of
from ottla.gateways.redis.peer_messages import BLOCKED, Outcome, Ran, Run, Watched
from ottla.gateways.redis.placement import ElsewhereError, Place
from ottla.gateways.redis.read_commands import parse_read
from ottla.gateways.redis.reply import RESP3
from ottla.gateways.redis.session import BlockError

if TYPE_CHECKING:
    from ottla.gateways.redis.command_table import Command
    from ottla.gateways.redis.connection import RedisConnection

ABSENT: Final = b":0\r\n"
_COUNTING: Final = frozenset({"del", "unlink", "exists", "touch"})
"""Commands whose reply is how many of their keys there are."""
_IF_FREE: Final = frozenset({"renamenx", "move", "copy"})
_READING: Final = frozenset({"xread", "xreadgroup"})


class ForwardedCommands:
    """Of one connection. Methods raise LostError, RedisError."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._gateway = connection.gateway
        self._forwarding = connection.gateway.forwarding

    @property
    def _keyspace_size(self) -> int:
        return len(self._gateway.keyspace.databases)

    async def run(self, arguments: list[bytes], elsewhere: ElsewhereError) -> None:
        """Run a command, one of whose keys is led elsewhere."""
        session = self._connection.session
        command = find_command(self._gateway.table, arguments)
        places = places_of(command, arguments, session.database, self._keyspace_size) or [elsewhere.place]
        self._note(command, arguments)
        if self._forwarding.owner_of_all(places) is None:
            await self._run_parts(arguments, command.name, places)
            return
        batch = [arguments]
        if is_of_one_key(command):
            batch += self._take(elsewhere.leader, arguments)
        asked = Run(client_of(session), session.database, session.protocol, batch)
        ran = await self._forwarding.until_run(places, asked, elsewhere.leader)
        outcomes = [] if ran is None else ran.outcomes
        self._connection.put_back(batch[len(outcomes) :])
        for outcome in outcomes:
            self._give(outcome)

    def _take(self, leader: int, first: list[bytes]) -> list[list[bytes]]:
        """The commands behind one that have the same leader, as far as that is plain."""
        session, keyspace = self._connection.session, self._gateway.keyspace
        connection = self._connection
        taken: list[list[bytes]] = []
        size = sum(map(len, first))
        while (following := connection.next_command) and len(taken) < BATCH_COMMANDS_MAX and size < BATCH_BYTES_MAX:
            try:
                command = find_command(self._gateway.table, following)
            except RedisError:
                break
            if not is_of_one_key(command) or len(following) <= command.first_key:
                break
            if keyspace.owner_of((session.database, following[command.first_key])) != leader:
                break
            connection.take_next()
            taken.append(following)
            self._note(command, following)
            size += sum(map(len, following))
        self._gateway.commands_total += len(taken)
        session.commands += len(taken)
        return taken

    def _note(self, command: Command, arguments: list[bytes]) -> None:
        """WAIT asks about what a command changes elsewhere too."""
        if command.writes:
            for key in command.keys_of(arguments):
                self._connection.session.wrote(key)

    def _give(self, outcome: Outcome) -> None:
        if outcome.kind == BLOCKED:
            self._gateway.remote_waits.add(outcome.keys)
            keys = [each.key for each in outcome.keys]
            self._connection.block(BlockError(keys, outcome.timeout_ms, outcome.arguments))
        else:
            self._connection.give(outcome.data)

    # --- keys of several brokers --------------------------------------------------------------------------------------

    async def _run_parts(self, arguments: list[bytes], name: str, places: list[Place]) -> None:
        session = self._connection.session
        if name in _COUNTING:
            parts = [(place, [arguments[0], place[1]]) for place in places]
            outcomes = await self._forwarding.run_parts(session, parts)
            self._connection.give(_sum([each.data for each in outcomes]))
        elif name in _READING:
            await self._read_parts(arguments, name, places)
        elif name == "rename" or (name == "copy" and copy_options(arguments, 0)[1]):
            await self._run_where(places[0], arguments)
        elif name in _IF_FREE:
            await self._if_free(arguments, name, *places)
        else:
            raise RedisError(CROSSED)

    async def _run_where(self, place: Place, arguments: list[bytes]) -> None:
        """Run a command at the leader of one of its keys."""
        session = self._connection.session
        asked = Run(client_of(session), session.database, session.protocol, [arguments])
        owner = self._gateway.keyspace.owner_of(place)
        own_id = self._gateway.broker.config.node_id
        ran = await self._forwarding.until_run([place], asked, own_id if owner is None else owner)
        if ran is None:
            ran = await self._forwarding.run(own_id, asked)
        if not ran.outcomes:
            raise RedisError("ERR no broker leads the key at the moment")
        self._give(ran.outcomes[0])

    async def _if_free(self, arguments: list[bytes], name: str, source: Place, target: Place) -> None:
        """RENAMENX, MOVE and COPY, whose second key another broker has: there is nothing to do where that exists."""
        for place in (source, target):
            answer = await self._exists(place)
            if not answer.startswith(b":"):
                self._connection.give(answer)
                return
            if place == source and answer == ABSENT:
                if name == "renamenx":
                    raise RedisError("ERR no such key")
                self._connection.give(ABSENT)
                return
        if answer == ABSENT:
            raise RedisError(f"{CROSSED}, and the second was deleted a moment ago: try again in a minute")
        self._connection.give(ABSENT)

    async def _exists(self, place: Place) -> bytes:
        session = self._connection.session
        asked = Run(client_of(session), place[0], session.protocol, [[b"EXISTS", place[1]]])
        owner, own_id = self._gateway.keyspace.owner_of(place), self._gateway.broker.config.node_id
        ran = await self._forwarding.until_run([place], asked, own_id if owner is None else owner)
        if ran is None or not ran.outcomes:
            ran = await self._forwarding.run(own_id, asked)
        if not ran.outcomes:
            raise RedisError("ERR no broker leads the key at the moment")
        return ran.outcomes[0].data

    async def _read_parts(self, arguments: list[bytes], name: str, places: list[Place]) -> None:
        """XREAD or XREADGROUP, stream by stream: what each gives, or to wait for all of them."""
        session = self._connection.session
        options = parse_read(arguments, is_group=name == "xreadgroup")
        if options.count_max is not None or options.bytes_max is not None:
            raise RedisError(CROSSED)
        head, ids = arguments[: options.at], arguments[options.at + options.keys :]
        parts = [(place, [*head, place[1], each]) for place, each in zip(places, ids, strict=True)]
        outcomes = await self._forwarding.run_parts(session, parts)
        for outcome in outcomes:
            if outcome.data.startswith(b"-"):
                self._connection.give(outcome.data)
                return
        null = replies.encode(replies.NULL_ARRAY, session.protocol)
        found = [each.data for each in outcomes if each.kind != BLOCKED and each.data != null]
        if found or options.block_ms is None:
            self._connection.give(_merged(found, session.protocol) if found else null)
            return
        resolved = [
            outcome.arguments[-1] if outcome.kind == BLOCKED else each
            for outcome, each in zip(outcomes, ids, strict=True)
        ]
        self._gateway.remote_waits.add([key for each in outcomes for key in each.keys])
        again = [*head, *(key for _, key in places), *resolved]
        self._connection.block(BlockError([key for _, key in places], options.block_ms, again))

    # --- transactions -------------------------------------------------------------------------------------------------

    async def watch(self, keys: list[bytes]) -> None:
        """WATCH of keys, some of which are led elsewhere."""
        session = self._connection.session
        places = [(session.database, key) for key in keys]
        for seen in await self._forwarding.versions(places):
            session.remember((seen.database, seen.key), seen.version)
        self._connection.give(replies.OK.data)

    async def transaction(
        self, queued: list[list[bytes]], watched: dict[Place, bytes], places: list[Place], leader: int
    ) -> None:
        """EXEC whose keys another broker leads."""
        session = self._connection.session
        seen = [Watched(*place, version) for place, version in watched.items()]
        asked = Run(client_of(session), session.database, session.protocol, queued, is_transaction=True, watched=seen)
        ran: Ran | None = await self._forwarding.until_run(places, asked, leader)
        if ran is None and self._forwarding.owner_of_all(places) is None:
            raise RedisError(CROSSED)
        if ran is None:
            ran = await self._forwarding.run(self._gateway.broker.config.node_id, asked)
        if not ran.outcomes:
            raise RedisError("ERR no broker leads the keys of the transaction at the moment")
        for database, key in places:
            session.wrote(key, database)
        session.database, session.protocol = ran.database, ran.protocol
        self._connection.give(ran.outcomes[0].data)


def _sum(answers: list[bytes]) -> bytes:
    """The sum of integers; the first error, if there is one."""
    for answer in answers:
        if not answer.startswith(b":"):
            return answer
    return b":%d\r\n" % sum(int(answer[1:-2]) for answer in answers)


def _merged(answers: list[bytes], protocol: int) -> bytes:
    """One reply of those of XREAD, each of one stream."""
    bodies = [answer[answer.index(b"\r\n") + 2 :] for answer in answers]
    return (b"%%%d\r\n" if protocol == RESP3 else b"*%d\r\n") % len(bodies) + b"".join(bodies)
