"""ACL: who a client is, and what users may do, in the words of Redis. Users and rights are changed by Ottla's commands.

    ACL allows READ on the topic orders        %R~orders
    ... WRITE on topics that begin with a-     %W~a-*
    ... both on all topics, or no authorizer   ~*

What is denied, and what is allowed for one address alone, cannot be said so, and is not shown: `ottla acl list` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.error import RedisError
from ottla.model.acl import WILDCARD, WILDCARD_PRINCIPAL, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from ottla.gateways.redis.reply import Reply
    from ottla.gateways.redis.session import Session

DEFAULT_USER: Final = b"default"
ACL_ARITIES: Final = {
    b"WHOAMI": 2,
    b"USERS": 2,
    b"LIST": 2,
    b"GETUSER": 3,
    b"HELP": 2,
    **dict.fromkeys((b"CAT", b"DELUSER", b"DRYRUN", b"GENPASS", b"LOAD", b"LOG", b"SAVE", b"SETUSER"), -2),
}
_SPECIAL: Final = re.compile(r"([*?\[\]\\])")
_PERMISSIONS: Final = {
    frozenset("R"): "%R~",
    frozenset("W"): "%W~",
    frozenset("RW"): "~",
}


def acl(session: Session, arguments: list[bytes]) -> Reply:
    """ACL WHOAMI, USERS, LIST, GETUSER."""
    subcommand = arguments[1].upper()
    match subcommand:
        case b"WHOAMI":
            return session.user or DEFAULT_USER
        case b"USERS":
            return _users(session)
        case b"LIST":
            return [
                b"user %b %b %b &* +@all" % (user, b" ".join(_flags(session, user)), _keys(session, user).encode())
                for user in _users(session)
            ]
        case b"GETUSER":
            return _get_user(session, arguments[2])
    raise RedisError(
        b"ERR ACL %b is not served: users and rights are changed by `ottla user` and `ottla acl`" % subcommand
    )


def _get_user(session: Session, user: bytes) -> Reply:
    if user not in _users(session):
        return None
    return {
        b"flags": _flags(session, user),
        b"passwords": [],
        b"commands": b"+@all",
        b"keys": _keys(session, user).encode(),
        b"channels": b"&*",
        b"selectors": [],
    }


def _users(session: Session) -> list[bytes]:
    return [DEFAULT_USER, *(each.encode() for each in session.gateway.logins.users)]


def _flags(session: Session, user: bytes) -> list[bytes]:
    if user != DEFAULT_USER:
        return [b"on", b"sanitize-payload"]
    return [b"off" if session.gateway.logins.is_required else b"on", b"nopass", b"sanitize-payload"]


def _keys(session: Session, user: bytes) -> str:
    gateway = session.gateway
    principal = f"User:{'ANONYMOUS' if user == DEFAULT_USER else user.decode()}"
    if not gateway.has_rules or principal in gateway.logins.super_users:
        return "~*"
    found: dict[str, set[str]] = {}
    for each in gateway.broker.image.acls:
        if (
            each.resource_type != ResourceType.TOPIC
            or each.permission != Permission.ALLOW
            or each.host != WILDCARD
            or each.principal not in (principal, WILDCARD_PRINCIPAL)
        ):
            continue
        pattern = _SPECIAL.sub(r"\\\1", each.resource_name)
        if each.pattern_type == PatternType.PREFIXED:
            pattern += "*"
        elif each.resource_name == WILDCARD:
            pattern = "*"
        letters = {Operation.READ: "R", Operation.WRITE: "W", Operation.ALL: "RW"}.get(Operation(each.operation), "")
        if letters:
            found.setdefault(pattern, set()).update(letters)
    return " ".join(_PERMISSIONS[frozenset(letters)] + pattern for pattern, letters in sorted(found.items()))
