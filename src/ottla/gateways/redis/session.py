"""What is known of a client: its database and protocol, its transaction, what it watches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.access import Access
from ottla.gateways.redis.acl_commands import DEFAULT_USER
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.keyspace import HeldError, LoadingError, TopicMissingError
from ottla.gateways.redis.logins import LoginMissingError
from ottla.gateways.redis.placement import ElsewhereError, Place
from ottla.gateways.redis.reply import RESP2, Reply, bulks_of
from ottla.gateways.redis.stream import Stream
from ottla.model.principal import USER, Principal

if TYPE_CHECKING:
    from ottla.broker.access import Operation
    from ottla.gateways.redis.command_table import Command
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.keyspace import Keyspace
    from ottla.gateways.redis.long_work import Work
    from ottla.gateways.redis.stream_log import Flush


HELD_BYTES_MAX: Final = 512 * 1024 * 1024
"""What transactions of all clients together may hold: commands behind MULTI, and keys that are watched."""
_ENTRY_BYTES: Final = 64
WRITTEN_MAX: Final = 16
"""WAIT asks about so many keys that the client has written last."""


class BlockError(Exception):
    """A command waits: for a change of one of the keys, then it is run again with `arguments`, or for a time."""

    def __init__(self, keys: list[bytes], timeout_ms: int, arguments: list[bytes]) -> None:
        super().__init__("a command waits")
        self.keys = keys
        self.timeout_ms = timeout_ms
        self.arguments = arguments


class OthersError(Exception):
    """A command concerns the keys of all brokers: the others run this first, and their replies are in `others` then."""

    def __init__(self, arguments: list[bytes]) -> None:
        super().__init__("a command concerns all brokers")
        self.arguments = arguments


class QuitError(Exception):
    """The connection ends behind the answer."""


class Session:
    """One client. `now_ms` is the time at which the command under way began."""

    __slots__ = (
        "_seen_users",
        "_shown",
        "access",
        "address",
        "arguments",
        "checked",
        "commands",
        "connected_ms",
        "database",
        "gateway",
        "has_failed",
        "held_bytes",
        "identity",
        "in_transaction",
        "is_forwarded",
        "is_killed",
        "is_known",
        "keyspace",
        "last_command",
        "library",
        "library_version",
        "local_address",
        "name",
        "now_ms",
        "operations",
        "others",
        "principal",
        "protocol",
        "queued",
        "unwritten",
        "user",
        "watched",
        "work",
        "written",
    )

    def __init__(
        self, gateway: RedisGateway, identity: int, address: str, local_address: str, now_ms: int, shown: Principal
    ) -> None:
        """`shown` is who the client is before it logs in."""
        self.gateway = gateway
        self.keyspace: Keyspace = gateway.keyspace
        self.identity = identity
        self.address = address
        self.local_address = local_address
        self.connected_ms = self.now_ms = now_ms
        self.library = self.library_version = b""
        self.commands = 0
        self.last_command = "NULL"
        """The name of the command that ran last."""
        self.is_killed = False
        """Whether CLIENT KILL ends the connection behind the answer."""
        self.name = b""
        self.in_transaction = False
        """Whether the command under way is one of EXEC."""
        self.is_forwarded = False
        """Whether the client is another broker's, which has sent the command here."""
        self.others: list[bytes] | None = None
        """The replies of all other brokers to the command under way, once they have been asked."""
        self.operations: tuple[Operation, ...] = ()
        """What the command under way needs on its keys; nothing where there are no rules."""
        self._shown = shown
        self.checked: tuple[bytes, bytes, bool] | None = None
        """A name, a password, and whether it is right: what AUTH waited for."""
        self.arguments: list[bytes] = []
        """Those of the command under way. One that is done in slices is let go of them at its end."""
        self.work: Work | None = None
        """What the command under way has not done yet."""
        self.held_bytes = 0
        """What its transaction holds."""
        self._seen_users: object = None
        self.reset()

    def reset(self) -> None:
        """As after connecting."""
        self._be(None)
        self.database = 0
        self.protocol = RESP2
        self.queued: list[list[bytes]] | None = None
        self.written: dict[Place, None] = {}
        """Keys that it has written last."""
        self.unwritten: set[Flush] | None = None
        """What WAIT waits for."""
        self.end_transaction()

    def end_transaction(self) -> None:
        """EXEC or DISCARD, or the client is gone."""
        self.queued = None
        self.has_failed = False
        self.watched: dict[Place, bytes] = {}
        if self.held_bytes:
            self.gateway.held_bytes -= self.held_bytes
            self.held_bytes = 0

    def queue(self, queued: list[list[bytes]], arguments: list[bytes]) -> None:
        """A command waits for EXEC. Raises RedisError where that holds too much."""
        self._hold(sum(map(len, arguments)) + _ENTRY_BYTES * len(arguments))
        queued.append(arguments)

    def remember(self, place: Place, version: bytes) -> None:
        """A key that is watched had this version, unless it was watched before. Raises RedisError where that holds too
        much.
        """
        if place not in self.watched:
            self._hold(len(place[1]) + _ENTRY_BYTES)
            self.watched[place] = version

    def _hold(self, size: int) -> None:
        gateway = self.gateway
        if self.held_bytes + size > gateway.config.command_bytes_max:
            raise RedisError("ERR the transaction is larger than redis.client.query.buffer.limit")
        if gateway.held_bytes + size > HELD_BYTES_MAX:
            raise RedisError(f"ERR transactions of all clients hold more than {HELD_BYTES_MAX >> 20} MiB")
        self.held_bytes += size
        gateway.held_bytes += size

    def wrote(self, key: bytes, database: int | None = None) -> None:
        """The client has changed a key."""
        place, written = (self.database if database is None else database, key), self.written
        if place not in written:
            if len(written) >= WRITTEN_MAX:
                del written[next(iter(written))]
            written[place] = None

    # --- who it is --------------------------------------------------------------------------------------------------

    def log_in(self, user: bytes, password: bytes) -> None:
        """AUTH. Raises LoginMissingError until the password was looked at, and RedisError for a wrong one."""
        logins = self.gateway.logins
        if self.in_transaction:
            raise RedisError("ERR AUTH is not served inside a transaction")
        if user == DEFAULT_USER and not logins.is_required:
            self._be(None)
            return
        checked, self.checked = self.checked, None
        if checked is None or checked[:2] != (user, password):
            raise LoginMissingError(self, user, password)
        if not checked[2]:
            raise RedisError("WRONGPASS invalid username-password pair or user is disabled.")
        self._be(user)

    def look_for_user(self) -> None:
        """Whoever is no user any more has to log in again before it may do anything."""
        if self.user is None:
            return
        users = self.gateway.broker.image.scram_credentials
        if users is not self._seen_users:
            self._seen_users = users
            if not self.gateway.logins.has(self.user):
                self.is_known = False

    def _be(self, user: bytes | None) -> None:
        gateway = self.gateway
        self._seen_users = None
        self.user = user
        """Who has logged in; None for nobody."""
        self.is_known = user is not None or not gateway.logins.is_required
        """Whether it may do anything beside logging in."""
        self.principal = self._shown if user is None else Principal(USER, user.decode(), self._shown.host)
        self.access = Access(gateway.broker.authorizer, self.principal) if gateway.has_rules else None
        """What it may do; None where everybody may do everything."""

    # --- access -----------------------------------------------------------------------------------------------------

    def begin(self, command: Command, arguments: list[bytes]) -> None:
        """A command is about to run. Raises RedisError where the client may not do what it does."""
        access = self.access
        if access is None:
            return
        self.operations = access.rule_of(command.name, arguments).topic
        for key in command.keys_of(arguments):
            self.require_access(key)

    def require_access(self, key: bytes, *operations: Operation, database: int | None = None) -> None:
        """Refuse what the client may not do to the topic of a key: these operations, or those of the command."""
        if self.access is not None:
            topic = self.keyspace.topic_of(self.database if database is None else database, key)
            self.access.require_topic(topic, *(operations or self.operations))

    def require_group(self, group: bytes, operation: Operation) -> None:
        """Refuse what the client may not do to a group."""
        if self.access is not None:
            self.access.require_group(group, operation)

    def live(self, database: int) -> Iterator[tuple[bytes, Stream]]:
        """The keys of a database that the client may know of."""
        access = self.access
        for key, stream in self.keyspace.live(database, self.now_ms):
            if access is None or access.may_describe(stream.log.topic):
                yield key, stream

    # --- keys -------------------------------------------------------------------------------------------------------

    def make(self, key: bytes) -> Stream:
        """A new stream for a key that does not exist. Raises as `Keyspace.make`."""
        if self.access is not None:
            self.access.require_creation(self.keyspace.topic_of(self.database, key))
        return self.keyspace.make(self.database, key, self.now_ms)

    def find(self, key: bytes) -> Stream | None:
        """The stream of a key in the database of the client. Raises RedisError where the client may not see it."""
        if self.operations:
            self.require_access(key)
        return self.keyspace.find(self.database, key, self.now_ms)

    def require(self, key: bytes) -> Stream:
        """The stream of a key. Raises RedisError where there is none."""
        stream = self.find(key)
        if stream is None:
            raise RedisError("ERR no such key")
        return stream

    @property
    def may_be_long(self) -> bool:
        """Whether the reply to the command under way may be sent in pieces."""
        return not (self.in_transaction or self.is_forwarded)

    def ask_others(self, arguments: list[bytes]) -> list[bytes]:
        """The replies of all other brokers to a command. Raises OthersError where they are to be asked first, and
        RedisError for what one of them refuses.
        """
        if self.is_forwarded or not self.keyspace.placement.has_peers:
            return []
        if self.in_transaction:
            if not self.keyspace.placement.others:
                return []
            raise RedisError("ERR commands on all keys are not served in MULTI by several brokers")
        if self.others is None:
            raise OthersError(arguments)
        for reply in self.others:
            if reply.startswith(b"-"):
                raise RedisError(reply[1:-2])
        return self.others

    def key_names(self) -> list[bytes]:
        """The keys of the database that the client may know of, of all brokers."""
        others = self.ask_others([b"KEYS", b"*"])
        names = [key for key, _ in self.live(self.database)]
        return list(dict.fromkeys([*names, *(key for reply in others for key in bulks_of(reply))])) if others else names

    def watch(self, key: bytes) -> None:
        """EXEC does nothing when the key changes before it."""
        if self.operations:
            self.require_access(key)
        place = self.database, key
        self.remember(place, self.keyspace.version_of(place, self.now_ms))

    @property
    def has_changed(self) -> bool:
        """Whether something that is watched has changed. Raises HeldError where that is not known yet."""
        try:
            return any(self.keyspace.version_of(each, self.now_ms) != seen for each, seen in self.watched.items())
        except HeldError:
            raise
        except (ElsewhereError, TopicMissingError, LoadingError):
            return True


__all__ = ["BlockError", "OthersError", "QuitError", "Reply", "Session"]
