"""CLIENT: what a client calls itself, who else is connected, and whose connection is to end."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import server_info
from ottla.gateways.redis.acl_commands import DEFAULT_USER
from ottla.gateways.redis.error import SYNTAX, RedisError, unknown_or_wrong
from ottla.gateways.redis.numbers import integer
from ottla.gateways.redis.reply import OK, Reply, Verbatim

if TYPE_CHECKING:
    from ottla.gateways.redis.session import Session

_CLIENT_TYPES: Final = frozenset({b"normal", b"master", b"slave", b"replica", b"pubsub"})
_NAME: Final = re.compile(rb"[!-~]*").fullmatch
NAME_BYTES_MAX: Final = 64 * 1024
"""Of what a client calls itself and its library: it is kept with the connection."""
WITH_ARGUMENT: Final = 3


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
            session.name = client_name(arguments[2])
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
        return session.gateway.sessions if _is_normal(values[0]) else []
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
        case b"KILL" if count >= WITH_ARGUMENT:
            return _kill(session, arguments)
        case b"TRACKING" if count >= WITH_ARGUMENT and arguments[2].upper() == b"OFF":
            return OK
        case b"GETREDIR" if count == 2:
            return -1
        case b"TRACKINGINFO" if count == 2:
            return {b"flags": [b"off"], b"redirect": -1, b"prefixes": []}
        case b"REPLY" if count == 3 and arguments[2].upper() == b"ON":
            return OK
    if name in (b"MAINT_NOTIFICATIONS", b"TRACKING", b"CACHING", b"PAUSE", b"UNPAUSE", b"REPLY"):
        raise RedisError(b"ERR CLIENT %s is not served" % name)
    raise unknown_or_wrong(arguments[1], "client")


def _unblock(session: Session, arguments: list[bytes]) -> Reply:
    with_error = False
    if len(arguments) == 4:
        if arguments[3].upper() not in (b"TIMEOUT", b"ERROR"):
            raise RedisError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        with_error = arguments[3].upper() == b"ERROR"
    return int(session.gateway.unblock(integer(arguments[2]), with_error=with_error))


def _is_normal(kind: bytes) -> bool:
    """Whether this type of clients is that of all that there are."""
    if kind.lower() not in _CLIENT_TYPES:
        raise RedisError(b"ERR Unknown client type '%s'" % kind)
    return kind.lower() == b"normal"


def _kill(session: Session, arguments: list[bytes]) -> Reply:
    """CLIENT KILL ADDRESS, or CLIENT KILL FILTER VALUE ..: the clients that all filters let through."""
    if len(arguments) == WITH_ARGUMENT:
        address = arguments[2].decode(errors="replace")
        if not _end(session, [each for each in session.gateway.sessions if each.address == address]):
            raise RedisError("ERR No such client")
        return OK
    if len(arguments) % 2:
        raise RedisError(SYNTAX)
    killed, skips_itself = session.gateway.sessions, True
    for name, value in zip(arguments[2::2], arguments[3::2], strict=True):
        if name.upper() == b"SKIPME":
            if value.lower() not in (b"yes", b"no"):
                raise RedisError(SYNTAX)
            skips_itself = value.lower() == b"yes"
        else:
            lets_through = _filter(session, name.upper(), value)
            killed = [each for each in killed if lets_through(each)]
    return _end(session, [each for each in killed if each is not session or not skips_itself])


def _filter(session: Session, name: bytes, value: bytes) -> Callable[[Session], bool]:
    text = value.decode(errors="replace")
    match name:
        case b"ID":
            identity = integer(value, "ERR client-id should be greater than 0")
            if identity < 1:
                raise RedisError("ERR client-id should be greater than 0")
            return lambda each: each.identity == identity
        case b"ADDR":
            return lambda each: each.address == text
        case b"LADDR":
            return lambda each: each.local_address == text
        case b"USER":
            return lambda each: (each.user or DEFAULT_USER) == value
        case b"TYPE":
            is_normal = _is_normal(value)
            return lambda each: is_normal
        case b"MAXAGE":
            age_ms = 1_000 * integer(value, "ERR maxage is not an integer or out of range")
            return lambda each: session.now_ms - each.connected_ms >= age_ms
    raise RedisError(SYNTAX)


def _end(session: Session, killed: list[Session]) -> int:
    for each in killed:
        if each is session:
            session.is_killed = True  # behind the answer
        else:
            session.gateway.kill(each.identity)
    return len(killed)


def client_name(name: bytes) -> bytes:
    """What a client wants to be called. Raises RedisError."""
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
