"""Commands about the connection and the server: PING, HELLO, SELECT, INFO, CONFIG and others."""

from __future__ import annotations

from typing import Final

from ottla.gateways.redis import server_info
from ottla.gateways.redis.acl_commands import DEFAULT_USER
from ottla.gateways.redis.client_commands import client_name
from ottla.gateways.redis.config import VERSION
from ottla.gateways.redis.error import SYNTAX, RedisError, arity, unknown_or_wrong
from ottla.gateways.redis.glob import matches
from ottla.gateways.redis.numbers import find_integer, integer
from ottla.gateways.redis.reply import OK, PONG, RESP2, RESP3, Reply, Simple, Verbatim
from ottla.gateways.redis.session import QuitError, Session

_NOT_CONFIGURED: Final = (
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    "is correct?"
)
_HELLO_FIRST: Final = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
    "option can be used to authenticate the client and select the RESP protocol version at the same time"
)


def ping(session: Session, arguments: list[bytes]) -> Reply:
    """PING."""
    if len(arguments) > 2:
        raise arity("ping")
    return arguments[1] if len(arguments) == 2 else PONG


def echo(session: Session, arguments: list[bytes]) -> Reply:
    """ECHO."""
    return arguments[1]


def select(session: Session, arguments: list[bytes]) -> Reply:
    """SELECT."""
    database = integer(arguments[1], "ERR value is not an integer or out of range")
    if not 0 <= database < len(session.keyspace.databases):
        raise RedisError("ERR DB index is out of range")
    session.database = database
    return OK


def auth(session: Session, arguments: list[bytes]) -> Reply:
    """AUTH: a user of the cluster; the default user has no password."""
    if len(arguments) > 3:
        raise RedisError(SYNTAX)
    if len(arguments) == 2 and not session.gateway.logins.is_required:
        raise RedisError(_NOT_CONFIGURED)
    user, password = (DEFAULT_USER, arguments[1]) if len(arguments) == 2 else arguments[1:]
    session.log_in(user, password)
    return OK


def hello(session: Session, arguments: list[bytes]) -> Reply:
    """HELLO: which protocol is spoken."""
    protocol = session.protocol
    if len(arguments) > 1:
        said = find_integer(arguments[1])
        if said is None:
            raise RedisError("ERR Protocol version is not an integer or out of range")
        if said not in (RESP2, RESP3):
            raise RedisError("NOPROTO unsupported protocol version")
        protocol = said
    login, name = None, None
    at = 2
    while at < len(arguments):
        option, more = arguments[at].upper(), len(arguments) - at - 1
        if option == b"AUTH" and more >= 2:
            login = arguments[at + 1 : at + 3]
            at += 3
        elif option == b"SETNAME" and more:
            name = client_name(arguments[at + 1])
            at += 2
        else:
            raise RedisError(b"ERR Syntax error in HELLO option '%s'" % arguments[at])
    if login is not None:
        session.log_in(*login)
    if not session.is_known:
        raise RedisError(_HELLO_FIRST)
    if name is not None:
        session.name = name
    session.protocol = protocol
    return {
        b"server": b"redis",
        b"version": VERSION.encode(),
        b"proto": protocol,
        b"id": session.identity,
        b"mode": b"standalone",
        b"role": b"master",
        b"modules": [],
    }


def quit_(session: Session, arguments: list[bytes]) -> Reply:
    """QUIT."""
    raise QuitError


def reset(session: Session, arguments: list[bytes]) -> Reply:
    """RESET."""
    session.reset()
    session.name = b""
    return Simple(b"RESET")


def time(session: Session, arguments: list[bytes]) -> Reply:
    """TIME."""
    return [b"%d" % (session.now_ms // 1000), b"%d" % (session.now_ms % 1000 * 1000)]


def info(session: Session, arguments: list[bytes]) -> Reply:
    """INFO."""
    return Verbatim(server_info.info(session, [each.decode(errors="replace").lower() for each in arguments[1:]]))


def config(session: Session, arguments: list[bytes]) -> Reply:
    """CONFIG GET, SET, RESETSTAT."""
    name = arguments[1].upper()
    if name == b"GET" and len(arguments) >= 3:
        values = server_info.config_values(session)
        wanted = [each.lower() for each in arguments[2:]]
        return {key: value for key, value in values.items() if any(matches(each, key) for each in wanted)}
    if name == b"SET" and len(arguments) >= 4 and len(arguments) % 2 == 0:
        pairs = list(zip(arguments[2::2], arguments[3::2], strict=True))
        names = [key.lower() for key, _ in pairs]
        for number, (key, value) in enumerate(pairs):
            server_info.check_config(session, key.lower(), value)
            if key.lower() in names[:number]:
                raise RedisError(
                    b"ERR CONFIG SET failed (possibly related to argument '%s') - duplicate parameter" % key
                )
        for key, value in pairs:
            server_info.set_config(session, key.lower(), value)
        return OK
    if name in (b"RESETSTAT", b"REWRITE") and len(arguments) == 2:
        if name == b"REWRITE":
            raise RedisError("ERR The server is running without a config file")
        session.gateway.reset_statistics()
        return OK
    raise unknown_or_wrong(arguments[1], "config")


def unknown_subcommand(name: bytes, command_name: str) -> RedisError:
    """A subcommand that there is not."""
    return RedisError(b"ERR unknown subcommand '%s'. Try %s HELP." % (name[:128], command_name.upper().encode()))
