"""What a Redis client may do, where the broker has an authorizer: commands in the operations of Kafka's ACLs.

    XADD orders      --> WRITE on the topic of `orders`; CREATE where the key does not exist
    XREADGROUP       --> READ on the topic, READ on the group
    XDEL, DEL        --> DELETE on the topic
    CONFIG SET       --> ALTER_CONFIGS on the cluster
    KEYS, SCAN       --> name the keys whose topics the client may describe

A command that has no rule here is refused. What a command then leaves to the broker, such as the records in which a
group keeps its state, is written in the broker's own name.
"""

from typing import Final, NamedTuple

from ottla.broker.access import CLUSTER_NAME, Authorizer, Operation, ResourceType
from ottla.gateways.redis.error import RedisError
from ottla.model.principal import Principal


class Rule(NamedTuple):
    """What a command needs on its keys, and on the group that is its argument number `group_at`."""

    topic: tuple[Operation, ...] = ()
    group: Operation | None = None
    group_at: int = 0


_OPEN: Final = Rule()
_DESCRIBE: Final = Rule((Operation.DESCRIBE,))
_READ: Final = Rule((Operation.READ,))
_WRITE: Final = Rule((Operation.WRITE,))
_DELETE: Final = Rule((Operation.DELETE,))
_SETTLE: Final = Rule((Operation.READ,), Operation.READ, 2)

RULES: Final = {
    "xadd": _WRITE,
    "xsetid": _WRITE,
    "xcfgset": Rule((Operation.ALTER_CONFIGS,)),
    "xdel": _DELETE,
    "xdelex": _DELETE,
    "xtrim": _DELETE,
    "xlen": _READ,
    "xrange": _READ,
    "xrevrange": _READ,
    "xread": _READ,
    "xinfo": _READ,
    "xreadgroup": _READ,
    "xgroup": Rule((Operation.READ,), Operation.READ, 3),
    "xack": _SETTLE,
    "xnack": _SETTLE,
    "xclaim": _SETTLE,
    "xautoclaim": _SETTLE,
    "xackdel": Rule((Operation.READ, Operation.DELETE), Operation.READ, 2),
    "xpending": Rule((Operation.READ,), Operation.DESCRIBE, 2),
    **dict.fromkeys(("del", "unlink", "rename", "renamenx", "move", "flushdb", "flushall"), _DELETE),
    **dict.fromkeys(("expire", "pexpire", "expireat", "pexpireat", "persist"), _DELETE),
    **dict.fromkeys(("type", "exists", "touch", "object", "memory", "watch"), _DESCRIBE),
    "copy": _DESCRIBE,  # and on each of its keys something else
    **dict.fromkeys(("ttl", "pttl", "expiretime", "pexpiretime"), _DESCRIBE),
    **dict.fromkeys(("keys", "scan", "dbsize", "randomkey", "info"), _DESCRIBE),
    **dict.fromkeys(("ping", "echo", "select", "auth", "hello", "quit", "reset", "time", "wait", "waitaof"), _OPEN),
    **dict.fromkeys(("acl", "client", "config", "command"), _OPEN),
    **dict.fromkeys(("function", "script", "slowlog", "latency", "module", "cluster", "debug"), _OPEN),
    **dict.fromkeys(("readonly", "readwrite", "asking", "lastsave", "role"), _OPEN),
    **dict.fromkeys(("multi", "exec", "discard", "unwatch"), _OPEN),
}
"""By the names of commands. What subcommands need besides is below."""

_ON_CLUSTER: Final = {
    ("acl", b"GETUSER"): Operation.DESCRIBE,
    ("acl", b"LIST"): Operation.DESCRIBE,
    ("acl", b"USERS"): Operation.DESCRIBE,
    ("client", b"KILL"): Operation.ALTER,
    ("client", b"LIST"): Operation.DESCRIBE,
    ("client", b"UNBLOCK"): Operation.ALTER,
    ("config", b"GET"): Operation.DESCRIBE_CONFIGS,
    ("config", b"SET"): Operation.ALTER_CONFIGS,
    ("config", b"RESETSTAT"): Operation.ALTER_CONFIGS,
    ("config", b"REWRITE"): Operation.ALTER_CONFIGS,
}


class Access:
    """The rights of one principal. Methods that begin with `require` raise RedisError NOPERM."""

    def __init__(self, authorizer: Authorizer, principal: Principal) -> None:
        self._authorizer = authorizer
        self._principal = principal

    def rule_of(self, command: str, arguments: list[bytes]) -> Rule:
        """The rule of a command, after a look at what it needs beside its keys."""
        rule = RULES.get(command)
        if rule is None:
            raise RedisError(f"NOPERM {self._principal} has no permissions to run the '{command}' command")
        subcommand = arguments[1].upper() if len(arguments) > 1 else b""
        on_cluster = _ON_CLUSTER.get((command, subcommand))
        if on_cluster is not None:
            self._require(on_cluster, ResourceType.CLUSTER, CLUSTER_NAME)
        if rule.group is not None and len(arguments) > rule.group_at:
            destroys = command == "xgroup" and subcommand == b"DESTROY"
            self.require_group(arguments[rule.group_at], Operation.DELETE if destroys else rule.group)
        return rule

    def require_topic(self, topic: str, *operations: Operation) -> None:
        """Refuse what the client may not do to a topic."""
        for operation in operations:
            self._require(operation, ResourceType.TOPIC, topic)

    def require_creation(self, topic: str) -> None:
        """Refuse a client that may make neither this topic nor any."""
        if not self._authorizer.allows(self._principal, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
            self._require(Operation.CREATE, ResourceType.TOPIC, topic)

    def require_group(self, group: bytes, operation: Operation) -> None:
        """Refuse what the client may not do to a group."""
        self._require(operation, ResourceType.GROUP, group.decode(errors="backslashreplace"))

    def may_describe(self, topic: str) -> bool:
        """Whether the client may know of a topic."""
        return self._authorizer.allows(self._principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def _require(self, operation: Operation, kind: ResourceType, name: str) -> None:
        if not self._authorizer.allows(self._principal, operation, kind, name):
            what = "the cluster" if kind is ResourceType.CLUSTER else f"{kind.name.lower()} {name}"
            raise RedisError(f"NOPERM {self._principal} may not {operation.name} {what}")
