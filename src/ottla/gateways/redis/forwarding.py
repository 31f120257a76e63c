"""Commands of this broker's clients that other brokers run, because they lead the keys.

    one key       XADD s ...          the leader's, with the commands behind it that are its too
    several keys  EXISTS a b, XREAD   each leader's part, and one reply of all
    EXEC          as a whole, at the one leader of all its keys
    all keys      KEYS, FLUSHALL      every broker

A command is asked again, of whoever leads then, as long as it is certain that it has not run. Where that is not known
the connection of the client ends, as when changes could not be written.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

from ottla.broker.redis_exchange import LANES
from ottla.client.errors import BrokerUnreachableError, ClientError, UnsupportedApiError
from ottla.gateways.redis import peer_messages as messages
from ottla.gateways.redis.answers import LostError
from ottla.gateways.redis.command_places import only_reads
from ottla.gateways.redis.command_table import find_command
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.peer_messages import Client, Message, Outcome, Ran, Reach, Run, Versions, Watched
from ottla.gateways.redis.placement import Place
from ottla.metadata.image.image import NO_LEADER
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.session import Session

RUN_TIMEOUT_MS: Final = 60_000
PATIENCE_MS: Final = 30_000
"""For so long a leader is looked for: longer than it takes to elect one."""
RETRY_MS: Final = 25
COMMAND_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one command, which travels between brokers in one request."""
BATCH_BYTES_MAX: Final = 1024 * 1024
BATCH_COMMANDS_MAX: Final = 256
CROSSED: Final = "CROSSSLOT Keys of the command are led by different brokers"


class NotRunError(Exception):
    """Commands have not run, or may be run again."""


class Forwarding:
    """Of one broker. Belongs to the event loop."""

    def __init__(self, gateway: RedisGateway) -> None:
        self._gateway = gateway
        self._own_id = gateway.broker.config.node_id

    async def ask(self, broker_id: int, message: Message, *, timeout_ms: int, lane: int = LANES) -> bytes:
        """Ask another broker. Raises ClientError, ApiError."""
        remote = self._gateway.broker.redis_exchange.remote
        assert remote is not None, "there are no other brokers"
        return await remote.ask(broker_id, messages.encode(message), lane, timeout_ms)

    async def run(self, broker_id: int, asked: Run, lane: int = 0) -> Ran:
        """Have a broker run commands, this one too. Raises NotRunError, LostError, RedisError."""
        if broker_id == self._own_id:
            return await self._gateway.peer_commands.run(asked)
        if broker_id == NO_LEADER:
            raise NotRunError
        if sum(len(each) for command in asked.commands for each in command) > COMMAND_BYTES_MAX:
            raise RedisError(f"ERR the command is larger than {COMMAND_BYTES_MAX >> 20} MiB, and another broker's")
        try:
            ran = messages.decode_ran(await self.ask(broker_id, asked, timeout_ms=RUN_TIMEOUT_MS, lane=lane))
        except BrokerUnreachableError as error:
            raise NotRunError from error
        except ClientError as error:
            if self._only_reads(asked):
                raise NotRunError from error
            raise LostError(str(error)) from error
        except ApiError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise NotRunError from error
            raise RedisError(f"ERR broker {broker_id}: {error.message}") from error
        if ran.is_lost:
            raise LostError("changes were not written by the broker that leads the key")
        return ran

    def _only_reads(self, asked: Run) -> bool:
        table = self._gateway.table
        return not asked.is_transaction and all(only_reads(find_command(table, each)) for each in asked.commands)

    async def until_run(self, places: list[Place], asked: Run, first: int) -> Ran | None:
        """Have the leader of some keys run commands: `first`, or whoever leads by the time it does.

        None when this broker is to run them itself, or the keys have several leaders now. Raises LostError, RedisError.
        """
        owner: int | None = first
        lane = zlib.crc32(places[0][1]) % LANES
        for left_ms in range(PATIENCE_MS, 0, -RETRY_MS):
            try:
                ran = await self.run(first if owner is None else owner, asked, lane)
                if ran.outcomes:
                    return ran
            except NotRunError:
                pass
            await self._gateway.broker.timer.sleep(min(left_ms, RETRY_MS))
            owner = self.owner_of_all(places)
            if owner is None or owner == self._own_id:
                return None
        raise RedisError("ERR no broker leads the key at the moment")

    def owner_of_all(self, places: list[Place]) -> int | None:
        """The one broker that leads all of these keys, this one where there are none; None where there is no such
        broker.
        """
        owners = {self._gateway.keyspace.owner_of(place) for place in places} - {None}
        return self._own_id if not owners else owners.pop() if len(owners) == 1 else None

    # --- several brokers ----------------------------------------------------------------------------------------------

    async def run_parts(self, session: Session, parts: list[tuple[Place, list[bytes]]]) -> list[Outcome]:
        """Run commands of one key each, wherever that is led; what became of each. Raises LostError, RedisError."""
        outcomes: dict[int, Outcome] = {}
        for left_ms in range(PATIENCE_MS, 0, -RETRY_MS):
            by_owner: dict[int, list[int]] = {}
            for number, (place, _) in enumerate(parts):
                if number not in outcomes:
                    owner = self._gateway.keyspace.owner_of(place)
                    by_owner.setdefault(self._own_id if owner is None else owner, []).append(number)
            for owner, numbers in by_owner.items():
                commands = [parts[number][1] for number in numbers]
                asked = Run(client_of(session), session.database, session.protocol, commands, goes_on=True)
                try:
                    ran = await self.run(owner, asked)
                except NotRunError:
                    continue
                outcomes.update(zip(numbers, ran.outcomes, strict=False))
            if len(outcomes) == len(parts):
                return [outcomes[number] for number in range(len(parts))]
            await self._gateway.broker.timer.sleep(min(left_ms, RETRY_MS))
        raise RedisError("ERR no broker leads one of the keys at the moment")

    async def run_everywhere(self, session: Session, arguments: list[bytes]) -> list[bytes]:
        """The replies of all other brokers to a command that concerns all keys. Raises LostError, RedisError."""
        placement = self._gateway.keyspace.placement
        asked = Run(client_of(session), session.database, session.protocol, [arguments])
        done: dict[int, bytes] = {}
        for left_ms in range(PATIENCE_MS, 0, -RETRY_MS):
            others = placement.others
            for broker_id in others:
                if broker_id not in done:
                    try:
                        ran = await self.run(broker_id, asked)
                    except NotRunError:
                        break
                    if ran.outcomes:
                        done[broker_id] = ran.outcomes[0].data
            if set(others) <= done.keys():
                return [done[broker_id] for broker_id in others]
            await self._gateway.broker.timer.sleep(min(left_ms, RETRY_MS))
        raise RedisError("ERR a broker of the cluster does not answer")

    async def until_known(self) -> None:
        """Wait until all other brokers know what this one knows of the metadata, so that none of them takes a key that
        was just made for one that there is not. Brokers that leave meanwhile are not waited for.
        """
        message = Reach(self._gateway.broker.image.end_offset)
        await asyncio.gather(*(self._until_known(each, message) for each in self._gateway.keyspace.placement.others))

    async def _until_known(self, broker_id: int, message: Reach) -> None:
        for left_ms in range(PATIENCE_MS, 0, -RETRY_MS):
            try:
                await self.ask(broker_id, message, timeout_ms=RUN_TIMEOUT_MS)
            except UnsupportedApiError:
                return
            except (ClientError, ApiError):
                await self._gateway.broker.timer.sleep(min(left_ms, RETRY_MS))
            else:
                return
            if broker_id not in self._gateway.keyspace.placement.others:
                return

    async def versions(self, places: list[Place]) -> list[Watched]:
        """The versions of keys, wherever they are led, for WATCH. Raises RedisError."""
        found: dict[Place, Watched] = {}
        for left_ms in range(PATIENCE_MS, 0, -RETRY_MS):
            for place in places:
                owner = self._gateway.keyspace.owner_of(place)
                if owner is None or owner == self._own_id:
                    found[place] = (await self._gateway.peer_commands.versions([place]))[0]
                elif owner != NO_LEADER:
                    message = Versions([Watched(*place, b"")])
                    try:
                        data = await self.ask(owner, message, timeout_ms=RUN_TIMEOUT_MS)
                    except (ClientError, ApiError):
                        continue
                    found[place] = messages.decode_watched(data)[0]
            if len(found) == len(set(places)):
                return [found[place] for place in places]
            await self._gateway.broker.timer.sleep(min(left_ms, RETRY_MS))
        raise RedisError("ERR no broker leads one of the keys at the moment")


def client_of(session: Session) -> Client:
    """Who has sent the commands of a session."""
    return Client(session.principal.type, session.principal.name, session.principal.host)
