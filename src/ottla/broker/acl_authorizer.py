"""Decides by ACLs who may do what, as Kafka's StandardAuthorizer does (KIP-11, KIP-290, KIP-679).

    super user or a broker of the cluster --> yes
    an ACL denies it ----------------------> no        deny before allow, whichever is more specific
    an ACL allows it ----------------------> yes
    no ACL is about this resource at all --> allow.everyone.if.no.acl.found
    otherwise -----------------------------> no

Rules are found by the name of a resource: its own, "*", and every prefix that some rule has. An answer is kept by
principal and forgotten when the ACLs change.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from ottla.broker.access import audit_log
from ottla.model.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.model.principal import BROKER, Principal
from ottla.model.printable import printable
from ottla.runtime.clock import Clock
from ottla.runtime.log_throttle import LogThrottle

DECISIONS_MAX: Final = 200_000
"""Answers that are kept; with one more all are forgotten: names are a stranger's to choose."""

KEPT_CHARACTERS_MAX: Final = 249
"""An answer about a longer name is decided each time. No topic has one; groups and transactional ids may have 32 KB."""

_OPERATION_SLOTS: Final = max(Operation) + 1
_TYPE_SLOTS: Final = max(ResourceType) + 1

_NEEDED_FOR_DESCRIBE: Final = frozenset(
    {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
)
"""Whoever may do one of these may also describe."""
_NEEDED_FOR_DESCRIBE_CONFIGS: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL})
_SOME_NAME: Final = "hardcode"
"""A resource that stands for any other (Kafka's own name for it): super users may, and whoever may use all."""
DENIALS_MAX: Final = 50
"""Lines about denials in ten seconds, and as many about what may not be described: a list may leave thousands out."""


Answers: TypeAlias = "list[list[dict[str, bool] | None] | None]"
"""What a principal may: by operation, by type of resource, by name. To hash a question whole would cost more."""


class _Rules:
    """The ACLs of one type of resource."""

    __slots__ = ("_literal", "_prefix_lengths", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[str, list[AclBinding]] = {}
        self._prefixed: dict[str, list[AclBinding]] = {}
        self._prefix_lengths: list[int] = []

    def add(self, acl: AclBinding) -> None:
        is_prefixed = acl.pattern_type == PatternType.PREFIXED
        (self._prefixed if is_prefixed else self._literal).setdefault(acl.resource_name, []).append(acl)

    def settle(self) -> None:
        """All are there."""
        self._prefix_lengths = sorted({len(prefix) for prefix in self._prefixed})

    def about(self, name: str) -> Iterator[AclBinding]:
        """Those whose pattern matches a name."""
        yield from self._literal.get(name, ())
        if name != WILDCARD:
            yield from self._literal.get(WILDCARD, ())
        for length in self._prefix_lengths:
            if length > len(name):
                return
            yield from self._prefixed.get(name[:length], ())

    def __iter__(self) -> Iterator[AclBinding]:
        for of_name in (*self._literal.values(), *self._prefixed.values()):
            yield from of_name


class AclAuthorizer:
    """An `Authorizer`. Belongs to the event loop."""

    __slots__ = (
        "_acls",
        "_allows_unknown",
        "_answers",
        "_count",
        "_denials",
        "_latest",
        "_left_out",
        "_of_latest",
        "_rules",
        "_super_users",
        "by_host",
        "version",
    )

    def __init__(self, super_users: Iterable[str], *, allows_unknown: bool = False, clock: Clock) -> None:
        """`super_users` as `User:name`. `allows_unknown`: whether everybody may use what no ACL is about. `clock`
        keeps the lines about denials few.
        """
        self._super_users = frozenset(super_users)
        self._allows_unknown = allows_unknown
        self._denials = LogThrottle(audit_log, clock, lines_max=DENIALS_MAX)
        self._left_out = LogThrottle(audit_log, clock, lines_max=DENIALS_MAX)
        self._acls: Mapping[AclBinding, None] = {}
        self._rules: dict[int, _Rules] = {}
        self._answers: dict[Principal, Answers] = {}
        self._latest: Principal | None = None
        self._of_latest: Answers = []
        self._count = 0
        self.by_host = False
        """Whether any ACL names a host: then clients of different addresses are not alike."""
        self.version = 0

    def apply(self, acls: Mapping[AclBinding, None]) -> None:
        """These are the ACLs from now on."""
        if acls is self._acls:
            return
        rules: dict[int, _Rules] = {}
        for acl in acls:
            rules.setdefault(acl.resource_type, _Rules()).add(_with_shown_host(acl))
        for each in rules.values():
            each.settle()
        self._acls, self._rules = acls, rules
        self.by_host = any(acl.host != WILDCARD for acl in acls)
        self._forget()

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Whether the principal may."""
        answers = self._of_latest if principal is self._latest else self._answers_of(principal)
        of_operation = answers[operation]
        if of_operation is not None:
            of_type = of_operation[resource_type]
            if of_type is not None:
                answer = of_type.get(resource_name)
                if answer is not None:
                    return answer
        answer = self._decide(principal, operation, resource_type, resource_name)
        self._keep(principal, operation, resource_type, resource_name, answer)
        return answer

    def allows_on_any(self, principal: Principal, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of the type on which the principal may (KIP-679): some pattern allows it and
        none that is as wide or wider denies it.
        """
        if self._verdict(principal, operation, resource_type, _SOME_NAME):
            return True
        acls = self._rules.get(resource_type, ())
        mine = list(self._of(principal, (operation, Operation.ALL), acls))
        denied = {(acl.pattern_type, acl.resource_name) for acl in mine if acl.permission == Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(acl.permission == Permission.ALLOW and not _is_covered(acl, denied) for acl in mine)

    def _decide(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        allowed = self._verdict(principal, operation, resource_type, resource_name)
        if not allowed:
            self._note(principal, operation, resource_type, resource_name)
        return allowed

    def _verdict(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        if self._is_above_rules(principal):
            return True
        rules = self._rules.get(resource_type)
        about = list(rules.about(resource_name)) if rules is not None else []
        if not about:
            return self._allows_unknown
        denying = self._of(principal, (operation, Operation.ALL), about)
        if any(acl.permission == Permission.DENY for acl in denying):
            return False
        return any(acl.permission == Permission.ALLOW for acl in self._of(principal, _that_allow(operation), about))

    def _is_above_rules(self, principal: Principal) -> bool:
        return principal.type == BROKER or str(principal) in self._super_users

    def _of(self, principal: Principal, operations: Iterable[int], acls: Iterable[AclBinding]) -> Iterator[AclBinding]:
        """Those of some ACLs that are about the principal, where it is, and about one of the operations."""
        name = str(principal)
        for acl in acls:
            if (
                acl.principal in (name, WILDCARD_PRINCIPAL)
                and acl.host in (WILDCARD, principal.host)
                and acl.operation in operations
            ):
                yield acl

    def _answers_of(self, principal: Principal) -> Answers:
        answers = self._answers.get(principal)
        if answers is None:
            if self._count >= DECISIONS_MAX:
                self._forget()
            self._count += 1
            answers = self._answers[principal] = [None] * _OPERATION_SLOTS
        self._latest, self._of_latest = principal, answers
        return answers

    def _keep(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str, answer: bool
    ) -> None:
        if len(resource_name) > KEPT_CHARACTERS_MAX:
            return
        if self._count >= DECISIONS_MAX:
            self._forget()
        self._count += 1
        answers = self._answers_of(principal)
        of_operation = answers[operation]
        if of_operation is None:
            of_operation = answers[operation] = [None] * _TYPE_SLOTS
        of_type = of_operation[resource_type]
        if of_type is None:
            of_type = of_operation[resource_type] = {}
        of_type[resource_name] = answer

    def _forget(self) -> None:
        self._answers.clear()
        self._latest = None
        self._count = 0
        self.version += 1

    def _note(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> None:
        throttle = self._left_out if operation is Operation.DESCRIBE else self._denials
        throttle.warning(
            "%s from %s is denied %s on %s %s",
            printable(str(principal)),
            principal.host or "here",
            operation.name,
            resource_type.name,
            printable(resource_name, 300),
        )


def _with_shown_host(acl: AclBinding) -> AclBinding:
    """The ACL with its address as that of a client is written: an address of IPv6 has several forms, and Kafka's
    brokers know but one, 0:0:0:0:0:0:0:1.
    """
    if ":" not in acl.host:
        return acl
    from ipaddress import IPv6Address  # hardly any ACL has one

    try:
        address = IPv6Address(acl.host)
    except ValueError:  # nobody comes from there
        return acl
    return replace(acl, host=str(address.ipv4_mapped or address))


def _that_allow(operation: Operation) -> Iterable[int]:
    """The operations of which an ACL that allows one allows this one."""
    if operation is Operation.DESCRIBE:
        return _NEEDED_FOR_DESCRIBE
    if operation is Operation.DESCRIBE_CONFIGS:
        return _NEEDED_FOR_DESCRIBE_CONFIGS
    return (operation, Operation.ALL)


def _is_covered(acl: AclBinding, denied: set[tuple[int, str]]) -> bool:
    """Whether everything that an ACL allows is denied by a pattern that is as wide or wider."""
    name = acl.resource_name
    if acl.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
