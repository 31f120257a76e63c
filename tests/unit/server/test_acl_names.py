"""Names in ACLs are what they are, whatever characters they have: they mean nobody and nothing else."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.server.socketless_broker import Peer, SocketlessBroker

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_admin="root" user_alice="secret";',
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
TOPIC, LITERAL, PREFIXED, ALLOW, ALL = 2, 3, 4, 3, 2
EVERY = [
    *map(chr, range(1, 128)),
    *("\u0085\u00a0\u00ad\u200b\u2028\u2029\u202e\ufeff\ufffd\uffff\u0430\U0001f511\U000e0001"),
    *("alice\0", "\0", "*alice", "alice*", "**", ".*", "al?ce", "[a]lice", "%61lice", "User:alice", "alice,User:bob"),
    *("alice\nUser:admin", "ALICE", "a\u0301lice", "\u00e1lice", " alice", "alice ", "x" * 32_000, "${user}", "alice;"),
]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SocketlessBroker]:
    broker = await SocketlessBroker(tmp_path, SETTINGS).open()
    await broker.create_topic("alice")
    yield broker
    await broker.close()


async def log_in(broker: SocketlessBroker, user: str, password: str) -> Peer:
    peer = broker.connect("SASL_PLAINTEXT")
    await peer.ask(SaslHandshakeRequest("PLAIN"), 1)
    assert (await peer.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)).error_code == 0
    return peer


async def sees(peer: Peer) -> bool:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="alice"),), allow_auto_topic_creation=False)
    return (await peer.ask(request, 12)).topics[0].error_code == 0


async def test_a_name_of_any_character_allows_nobody_else_anything(
    broker: SocketlessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.audit")
    admin, alice = await log_in(broker, "admin", "root"), await log_in(broker, "alice", "secret")
    names = [name for name in EVERY if name not in ("*", "alice")]
    creations = [
        *(AclCreation(TOPIC, "alice", LITERAL, f"User:{name}", "*", ALL, ALLOW) for name in names),
        *(AclCreation(TOPIC, name, LITERAL, "User:alice", "*", ALL, ALLOW) for name in names),
        *(
            AclCreation(TOPIC, name, PREFIXED, "User:alice", "*", ALL, ALLOW)
            for name in names
            if not "alice".startswith(name)
        ),
    ]
    answer = await admin.ask(CreateAclsRequest(tuple(creations)), 3)
    created = [each for each, result in zip(creations, answer.results, strict=True) if result.error_code == 0]
    assert len(created) > len(creations) / 2
    assert not await sees(alice)
    listed = {
        (pattern.resource_name, pattern.pattern_type, acl.principal)
        for pattern in (await admin.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)).resources
        for acl in pattern.acls
    }
    assert listed == {(each.resource_name, each.resource_pattern_type, each.principal) for each in created}
    assert all(line.getMessage().isprintable() for line in caplog.records if line.name == "ottla.audit")

    filters = tuple(
        DeleteAclsFilter(TOPIC, each.resource_name, each.resource_pattern_type, each.principal, "*", ALL, ALLOW)
        for each in created
    )
    deleted = await admin.ask(DeleteAclsRequest(filters), 3)
    assert [len(each.matching_acls) for each in deleted.filter_results] == [1] * len(created)
    right = AclCreation(TOPIC, "alice", LITERAL, "User:alice", "*", ALL, ALLOW)
    assert (await admin.ask(CreateAclsRequest((right,)), 3)).results[0].error_code == 0
    assert await sees(alice)
