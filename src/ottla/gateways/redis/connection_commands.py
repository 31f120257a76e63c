"""Commands about the connection and the server: PING, HELLO, CLIENT, SELECT, INFO, CONFIG and others."""

from __future__ import annotations

import re
from typing import Final

from ottla.gateways.redis import server_info
from ottla.gateways.redis.acl_commands import DEFAULT_USER
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
_CLIENT_TYPES: Final = frozenset({b"normal", b"master", b"slave", b"replica", b"pubsub"})
_NAME: Final = re.compile(rb"[!-~]*").fullmatch
NAME_BYTES_MAX: Final = 64 * 1024
"""Of what a client calls itself and its library: it is kept with the connection."""


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
            name = _client_name(arguments[at + 1])
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


def wait(session: Session, arguments: list[bytes]) -> Reply:
    """WAIT: what was answered is on all in-sync replicas, which Redis' clients do not see."""
    integer(arguments[1])
    integer(arguments[2])
    return 0


def client(session: Session, arguments: list[bytes]) -> Reply:
    """CLIENT."""
    name = arguments[1].upper()
    count = len(arguments)
    match name:
        case b"ID" if count == 2:
            return session.identity
        case b"GETNAME" if count == 2:
            return session.name or None
        case b"SETNAME" if count == 3:
            session.name = _client_name(arguments[2])
            return OK
        case b"SETINFO" if count == 4:
            return _set_info(session, arguments[2].upper(), arguments[3])
        case b"INFO" if count == 2:
            return Verbatim(server_info.client_line(session) + b"\n")
        case b"LIST":
            lines = [server_info.client_line(each) for each in _listed(session, arguments)]
            return Verbatim(b"".join(line + b"\n" for line in lines))
    return _rare_client(session, name, arguments)


def _listed(session: Session, arguments: list[bytes]) -> list[Session]:
    """The clients that CLIENT LIST is to show."""
    option, values = (arguments[2].upper(), arguments[3:]) if len(arguments) > 2 else (b"", [])
    if option == b"TYPE" and len(values) == 1:
        if values[0].lower() not in _CLIENT_TYPES:
            raise RedisError(b"ERR Unknown client type '%s'" % values[0])
        return session.gateway.sessions if values[0].lower() == b"normal" else []
    if option == b"ID" and values:
        wanted = {integer(each, "ERR Invalid client ID") for each in values}
        return [each for each in session.gateway.sessions if each.identity in wanted]
    if option:
        raise RedisError(SYNTAX)
    return session.gateway.sessions


def _rare_client(session: Session, name: bytes, arguments: list[bytes]) -> Reply:
    count = len(arguments)
    match name:
        case b"NO-EVICT" | b"NO-TOUCH" if count == 3 and arguments[2].upper() in (b"ON", b"OFF"):
            return OK
        case b"UNBLOCK" if count in (3, 4):
            return _unblock(session, arguments)
        case b"GETREDIR" if count == 2:
            return -1
        case b"TRACKINGINFO" if count == 2:
            return {b"flags": [b"off"], b"redirect": -1, b"prefixes": []}
        case b"REPLY" if count == 3 and arguments[2].upper() == b"ON":
            return OK
    if name in (b"MAINT_NOTIFICATIONS", b"TRACKING", b"CACHING", b"KILL", b"PAUSE", b"UNPAUSE", b"REPLY"):
        raise RedisError(b"ERR CLIENT %s is not served" % name)
    raise unknown_or_wrong(arguments[1], "client")


def _unblock(session: Session, arguments: list[bytes]) -> Reply:
    with_error = False
    if len(arguments) == 4:
        if arguments[3].upper() not in (b"TIMEOUT", b"ERROR"):
            raise RedisError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        with_error = arguments[3].upper() == b"ERROR"
    return int(session.gateway.unblock(integer(arguments[2]), with_error=with_error))


def _client_name(name: bytes) -> bytes:
    _require_short(name)
    if _NAME(name) is None:
        raise RedisError("ERR Client names cannot contain spaces, newlines or special characters.")
    return name


def _require_short(name: bytes) -> None:
    if len(name) > NAME_BYTES_MAX:
        raise RedisError(f"ERR names of clients have at most {NAME_BYTES_MAX >> 10} KiB")


def _set_info(session: Session, what: bytes, value: bytes) -> Reply:
    if what not in (b"LIB-NAME", b"LIB-VER"):
        raise RedisError(b"ERR Unrecognized option '%s'" % what)
    _require_short(value)
    if _NAME(value) is None:
        raise RedisError(b"ERR %s cannot contain spaces, newlines or special characters." % what.lower())
    if what == b"LIB-NAME":
        session.library = value
    else:
        session.library_version = value
    return OK


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
