"""The commands that are served, by name: what handles each, how many arguments it has, and where its keys are."""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.gateways.redis import (
    absent_commands,
    acl_commands,
    add_commands,
    client_commands,
    command_command,
    connection_commands,
    copy_command,
    group_commands,
    info_commands,
    key_commands,
    pending_commands,
    read_commands,
    wait_commands,
)
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.other_commands import NOT_SERVED, OF_OTHER_TYPES
from ottla.gateways.redis.reply import Reply
from ottla.gateways.redis.session import Session

Handler = Callable[[Session, list[bytes]], Reply]


class Command(NamedTuple):
    """One command. A negative arity is the least number of arguments, with the name of the command."""

    name: str
    handler: Handler
    arity: int
    flags: tuple[str, ...] = ()
    first_key: int = 0
    last_key: int = 0
    key_step: int = 0
    subcommands: dict[bytes, int] | None = None
    """The arities of subcommands, where those are checked before the command runs."""

    @property
    def writes(self) -> bool:
        """Whether it changes the keys that it names."""
        return self.flags is _WRITE

    def keys_of(self, arguments: list[bytes]) -> list[bytes]:
        """The keys that are at places of their own; not those of XREAD and XREADGROUP."""
        if not self.first_key:
            return []
        last = self.last_key if self.last_key > 0 else len(arguments) + self.last_key
        return arguments[self.first_key : last + 1 : self.key_step]


_WRITE: Final = ("write", "denyoom", "fast")
_READ: Final = ("readonly", "fast")

_GROUP_ARITIES: Final = {
    b"CREATE": -5,
    b"SETID": -5,
    b"DESTROY": 4,
    b"CREATECONSUMER": 5,
    b"DELCONSUMER": 5,
    b"HELP": 2,
}
_INFO_ARITIES: Final = {b"STREAM": -3, b"GROUPS": 3, b"CONSUMERS": 4, b"HELP": 2}
_OBJECT_ARITIES: Final = {b"ENCODING": 3, b"REFCOUNT": 3, b"IDLETIME": 3, b"FREQ": 3, b"HELP": 2}
_MEMORY_ARITIES: Final = {b"USAGE": -3, b"DOCTOR": 2, b"MALLOC-STATS": 2, b"PURGE": 2, b"STATS": 2, b"HELP": 2}


def _stream(name: str, handler: Handler, arity: int, *, writes: bool = False) -> Command:
    return Command(name, handler, arity, _WRITE if writes else _READ, 1, 1, 1)


def _reading(name: str, handler: Handler, arity: int) -> Command:
    return Command(name, handler, arity, ("readonly", "blocking", "movablekeys"), 0, 0, 0)


_COMMANDS: Final = (
    _stream("xadd", add_commands.xadd, -5, writes=True),
    _stream("xdel", add_commands.xdel, -3, writes=True),
    _stream("xdelex", add_commands.xdelex, -5, writes=True),
    _stream("xtrim", add_commands.xtrim, -4, writes=True),
    _stream("xsetid", add_commands.xsetid, -3, writes=True),
    _stream("xcfgset", add_commands.xcfgset, -4, writes=True),
    _stream("xlen", read_commands.xlen, 2),
    _stream("xrange", read_commands.xrange, -4),
    _stream("xrevrange", read_commands.xrevrange, -4),
    _reading("xread", read_commands.xread, -4),
    _reading("xreadgroup", group_commands.xreadgroup, -7),
    Command("xgroup", group_commands.xgroup, -2, _WRITE, 2, 2, 1, _GROUP_ARITIES),
    Command("xinfo", info_commands.xinfo, -2, _READ, 2, 2, 1, _INFO_ARITIES),
    _stream("xack", group_commands.xack, -4, writes=True),
    _stream("xackdel", group_commands.xackdel, -6, writes=True),
    _stream("xnack", group_commands.xnack, -7, writes=True),
    _stream("xpending", pending_commands.xpending, -3),
    _stream("xclaim", pending_commands.xclaim, -6, writes=True),
    _stream("xautoclaim", pending_commands.xautoclaim, -6, writes=True),
    _stream("type", key_commands.type_of, 2),
    Command("exists", key_commands.exists, -2, _READ, 1, -1, 1),
    Command("touch", key_commands.exists, -2, _READ, 1, -1, 1),
    Command("del", key_commands.delete, -2, _WRITE, 1, -1, 1),
    Command("unlink", key_commands.delete, -2, _WRITE, 1, -1, 1),
    Command("keys", key_commands.keys, 2, _READ),
    Command("scan", key_commands.scan, -2, _READ),
    Command("dbsize", key_commands.dbsize, 1, _READ),
    Command("randomkey", key_commands.random_key, 1, _READ),
    Command("flushdb", key_commands.flush_database, -1, _WRITE),
    Command("flushall", key_commands.flush_all, -1, _WRITE),
    Command("rename", key_commands.rename, 3, _WRITE, 1, 2, 1),
    Command("renamenx", key_commands.rename_if_free, 3, _WRITE, 1, 2, 1),
    Command("copy", copy_command.copy, -3, ("write", "denyoom"), 1, 2, 1),
    _stream("move", key_commands.move, 3, writes=True),
    _stream("expire", key_commands.expire, -3, writes=True),
    _stream("pexpire", key_commands.pexpire, -3, writes=True),
    _stream("expireat", key_commands.expire_at, -3, writes=True),
    _stream("pexpireat", key_commands.pexpire_at, -3, writes=True),
    _stream("persist", key_commands.persist, 2, writes=True),
    _stream("ttl", key_commands.ttl, 2),
    _stream("pttl", key_commands.pttl, 2),
    _stream("expiretime", key_commands.expire_time, 2),
    _stream("pexpiretime", key_commands.pexpire_time, 2),
    Command("object", key_commands.object_of, -2, _READ, 2, 2, 1, _OBJECT_ARITIES),
    Command("memory", key_commands.memory, -2, _READ, 2, 2, 1, _MEMORY_ARITIES),
    Command("ping", connection_commands.ping, -1, ("fast",)),
    Command("echo", connection_commands.echo, 2, ("fast",)),
    Command("select", connection_commands.select, 2, ("fast",)),
    Command("auth", connection_commands.auth, -2, ("noscript", "fast", "no_auth")),
    Command("hello", connection_commands.hello, -1, ("noscript", "fast", "no_auth")),
    Command("quit", connection_commands.quit_, -1, ("fast",)),
    Command("reset", connection_commands.reset, 1, ("fast",)),
    Command("time", connection_commands.time, 1, ("fast",)),
    Command("wait", wait_commands.wait, 3, ("blocking",)),
    Command("waitaof", wait_commands.wait_on_disk, 4, ("blocking",)),
    Command("client", client_commands.client, -2, ("noscript",)),
    Command("info", connection_commands.info, -1, ("loading",)),
    Command("config", connection_commands.config, -2, ("admin",)),
    Command("acl", acl_commands.acl, -2, ("noscript", "admin"), subcommands=acl_commands.ACL_ARITIES),
    Command("function", absent_commands.function, -2, ("noscript",), subcommands=absent_commands.FUNCTION_ARITIES),
    Command("script", absent_commands.script, -2, ("noscript",), subcommands=absent_commands.SCRIPT_ARITIES),
    Command("slowlog", absent_commands.slow_log, -2, ("admin",), subcommands=absent_commands.SLOWLOG_ARITIES),
    Command("latency", absent_commands.latency, -2, ("admin",), subcommands=absent_commands.LATENCY_ARITIES),
    Command("module", absent_commands.module, -2, ("admin",), subcommands=absent_commands.MODULE_ARITIES),
    Command("cluster", absent_commands.cluster, -2, subcommands=absent_commands.CLUSTER_ARITIES),
    Command("readonly", absent_commands.cluster, 1, ("fast",)),
    Command("readwrite", absent_commands.cluster, 1, ("fast",)),
    Command("asking", absent_commands.cluster, 1, ("fast",)),
    Command("debug", absent_commands.debug, -2, ("admin", "noscript")),
    Command("lastsave", absent_commands.last_save, 1, ("fast",)),
    Command("role", absent_commands.role, 1, ("noscript", "fast")),
    Command("command", command_command.command, -1, ("loading",)),
)

TRANSACTION: Final = {b"MULTI": 1, b"EXEC": 1, b"DISCARD": 1, b"WATCH": -2, b"UNWATCH": 1}
"""The commands of transactions, which the connection handles, with their arities."""


def command_table() -> dict[bytes, Command]:
    """The commands by their names, in capital letters."""
    table = {each.name.upper().encode(): each for each in _COMMANDS}
    for name, count in TRANSACTION.items():
        table[name] = Command(name.decode().lower(), _transaction, count, ("noscript", "loading", "fast"))
    return table


def _transaction(session: Session, arguments: list[bytes]) -> Reply:
    raise AssertionError("the connection handles transactions")


def find_command(table: dict[bytes, Command], arguments: list[bytes], name: bytes | None = None) -> Command:
    """The command that is called, whose arguments are as many as it takes; `name` is its name in capital letters, where
    that is known. Raises RedisError.
    """
    command = table.get(name or arguments[0].upper())
    if command is None:
        raise _unknown(arguments)
    count = len(arguments)
    if count != command.arity if command.arity >= 0 else count < -command.arity:
        raise RedisError(f"ERR wrong number of arguments for '{command.name}' command")
    if command.subcommands is not None:
        _check_subcommand(command, arguments)
    return command


def _check_subcommand(command: Command, arguments: list[bytes]) -> None:
    assert command.subcommands is not None
    arity = command.subcommands.get(arguments[1].upper())
    if arity is None:
        raise connection_commands.unknown_subcommand(arguments[1], command.name)
    count = len(arguments)
    if count != arity if arity >= 0 else count < -arity:
        name = f"{command.name}|{arguments[1].decode().lower()}"
        raise RedisError(f"ERR wrong number of arguments for '{name}' command")


def _unknown(arguments: list[bytes]) -> RedisError:
    name = arguments[0].lower().decode(errors="replace")
    if name in OF_OTHER_TYPES:
        return RedisError(f"ERR '{name}' is not served: Ottla holds streams, and no other data types")
    if name in NOT_SERVED:
        return RedisError(f"ERR '{name}' is not served: Ottla is a log that speaks the stream commands of Redis")
    shown = b""
    for each in arguments[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%b' " % each[: 128 - len(shown)]
    return RedisError(b"ERR unknown command '%b', with args beginning with: %b" % (arguments[0][:128], shown))
