"""ACLs decide as Kafka's StandardAuthorizer does: beside a model that looks at every ACL for every question."""

import logging
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.acl_authorizer import AclAuthorizer
from ottla.model.acl import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.model.principal import Principal, broker_principal
from ottla.runtime.clock import ManualClock

ALICE = Principal("User", "alice", "10.0.0.1")
TOPIC, LITERAL, PREFIXED, ALLOW, DENY = 2, 3, 4, 3, 2


def acl(name="a", operation=Operation.READ, permission=ALLOW, pattern=LITERAL, principal="User:alice", host="*"):
    return AclBinding(TOPIC, name, pattern, principal, host, operation, permission)


def authorizer(*acls, super_users=(), allows_unknown=False):
    made = AclAuthorizer(super_users, allows_unknown=allows_unknown, clock=ManualClock())
    made.apply(dict.fromkeys(acls))
    return made


def may(rules, operation=Operation.READ, name="a", principal=ALICE):
    return rules.allows(principal, operation, ResourceType.TOPIC, name)


def test_nobody_may_anything_without_acls_but_super_users_and_brokers():
    rules = authorizer(super_users=["User:root"])
    assert not may(rules)
    assert may(rules, principal=Principal("User", "root"))
    assert not may(rules, principal=Principal("Group", "root"))
    assert may(rules, principal=broker_principal(3))
    assert not may(rules, principal=Principal("User", "Broker:3"))


def test_a_denial_comes_before_what_is_allowed_however_narrow():
    rules = authorizer(acl(), acl("*", permission=DENY))
    assert not may(rules)
    assert may(authorizer(acl(), acl("*", Operation.WRITE, DENY)))
    assert not may(authorizer(acl("*"), acl("a", Operation.ALL, DENY, principal="User:*")))


def test_an_address_counts():
    rules = authorizer(acl(host="10.0.0.1"))
    assert rules.by_host
    assert may(rules)
    assert not may(rules, principal=Principal("User", "alice", "10.0.0.2"))
    assert not authorizer(acl()).by_host


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::1", "::1"),
        ("2001:DB8:0:0:0:0:0:A", "2001:db8::a"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_an_address_of_ipv6_is_meant_however_it_is_written(written, shown):
    rules = authorizer(acl(), acl(host=written, permission=DENY))
    assert not may(rules, principal=Principal("User", "alice", shown))
    assert may(rules, principal=Principal("User", "alice", "::2"))
    assert may(authorizer(acl(), acl(host="no:address", permission=DENY)))


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_who_may_do_something_may_describe_but_who_may_not_may_still(operation):
    assert may(authorizer(acl(operation=operation)), Operation.DESCRIBE)
    assert may(
        authorizer(acl(operation=Operation.DESCRIBE), acl(operation=operation, permission=DENY)), Operation.DESCRIBE
    )
    assert not may(authorizer(acl(operation=operation)), Operation.DESCRIBE_CONFIGS)


def test_a_resource_that_no_acl_is_about_is_everybodys_if_that_is_set():
    rules = authorizer(acl("x", principal="User:bob"), allows_unknown=True)
    assert may(rules, name="y")
    assert not may(rules, name="x")  # there is an ACL, of somebody else


def test_a_change_is_noticed_and_what_was_kept_is_asked_again():
    rules = authorizer(acl())
    version = rules.version
    assert may(rules)
    rules.apply({})
    assert not may(rules)
    assert rules.version > version


def test_a_denial_is_said_once(caplog):
    caplog.set_level(logging.INFO)
    rules = authorizer()
    assert not may(rules, name="a\nb")
    assert not may(rules, name="a\nb")
    assert [each.getMessage() for each in caplog.records] == [r"User:alice from 10.0.0.1 is denied READ on TOPIC a\nb"]


names = st.sampled_from(["a", "ab", "abc", "b", "*", "", "hardcode"])
acls_strategy = st.builds(
    acl,
    st.sampled_from(["a", "ab", "abc", "b", "*"]),
    st.sampled_from([Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS]),
    st.sampled_from([ALLOW, DENY]),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:*", "User:bob"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
)
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def model(acls, operation, name, allows_unknown):
    """Every ACL is looked at, in the words of KIP-290."""
    about = [
        each
        for each in acls
        if (each.pattern_type == LITERAL and each.resource_name in (name, "*"))
        or (each.pattern_type == PREFIXED and name.startswith(each.resource_name))
    ]
    mine = [each for each in about if each.principal in ("User:alice", "User:*") and each.host in ("*", "10.0.0.1")]
    if not about:
        return allows_unknown
    if any(each.permission == DENY and each.operation in (operation, Operation.ALL) for each in mine):
        return False
    enough = {operation, Operation.ALL} | IMPLIED.get(operation, set())
    return any(each.permission == ALLOW and each.operation in enough for each in mine)


@settings(max_examples=300, deadline=None)
@given(st.lists(acls_strategy, max_size=8), st.sampled_from(list(Operation)), names, st.booleans())
def test_it_decides_as_the_model(acls, operation, name, allows_unknown):
    rules = authorizer(*acls, allows_unknown=allows_unknown)
    assert may(rules, operation, name) == model(acls, operation, name, allows_unknown)


@settings(max_examples=300, deadline=None)
@given(st.lists(acls_strategy, max_size=8))
def test_who_may_on_some_name_may_on_any(acls):
    """KIP-679, by trying names: those of the patterns, and those that begin with them."""
    rules = authorizer(*acls)
    tried = {name + more for name in ("a", "ab", "abc", "b", "hardcode", "z") for more in ("", "a", "!")}
    on_some = any(model(acls, Operation.WRITE, name, False) for name in tried)
    assert rules.allows_on_any(ALICE, Operation.WRITE, ResourceType.TOPIC) or not on_some


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), "abcd"),
        (AclFilter(resource_name="orders"), "a"),
        (AclFilter(resource_name="orders", pattern_type=2), "abc"),
        (AclFilter(resource_name="orders", pattern_type=4), ""),
        (AclFilter(resource_name="ord", pattern_type=4), "c"),
        (AclFilter(resource_name="*", pattern_type=3), "b"),
        (AclFilter(principal="User:alice"), "abcd"),
        (AclFilter(principal="alice"), ""),
        (AclFilter(host="*"), "abcd"),
        (AclFilter(permission=Permission.DENY), "d"),
        (AclFilter(operation=Operation.ALL), ""),
        (AclFilter(resource_type=ResourceType.GROUP), "d"),
    ],
)
def test_filters_match_as_kafkas(wanted, found):
    acls = {
        "a": acl("orders"),
        "b": acl("*"),
        "c": acl("ord", pattern=PatternType.PREFIXED),
        "d": AclBinding(3, "g", 3, "User:alice", "*", 3, 2),
    }
    assert "".join(key for key, each in acls.items() if wanted.matches(each)) == found


def test_answers_about_long_names_take_no_memory():
    rules = authorizer(acl("x", pattern=PREFIXED))
    tracemalloc.start()
    try:
        for number in range(1_000):
            name = f"{'x' * 30_000}{number}"
            assert rules.allows(ALICE, Operation.READ, ResourceType.GROUP, name) is False
            assert may(rules, name=name)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
