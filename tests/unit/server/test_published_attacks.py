"""What others were attacked by, tried on a broker with SASL and ACLs. Each test names the record of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.settings.broker_oauth_table import UNSIGNED_CLASS
from tests.unit.server.socketless_broker import Peer, SocketlessBroker

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_admin="root" user_alice="secret";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
READ, WRITE, CLUSTER_ACTION = 3, 4, 9
TOPIC, CLUSTER = 2, 4


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SocketlessBroker]:
    broker = await SocketlessBroker(tmp_path, SETTINGS).open()
    await broker.create_topic("t")
    yield broker
    await broker.close()


async def log_in(broker: SocketlessBroker, user: str, password: str) -> Peer:
    peer = broker.connect("SASL_PLAINTEXT")
    assert (await peer.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    assert (await peer.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)).error_code == 0
    return peer


async def allow_alice(admin: Peer, *rights: tuple[int, str, int]) -> None:
    creations = tuple(AclCreation(kind, name, 3, "User:alice", "*", operation, 3) for kind, name, operation in rights)
    assert all(each.error_code == 0 for each in (await admin.ask(CreateAclsRequest(creations), 3)).results)


async def produced(peer: Peer, batch: bytes, transactional_id: str | None = None) -> int:
    request = ProduceRequest(
        transactional_id, -1, 1_000, (TopicProduceData(name="t", partition_data=(PartitionProduceData(0, batch),)),)
    )
    code: int = (await peer.ask(request, 9)).responses[0].partition_responses[0].error_code
    return code


async def fetched(peer: Peer, replica_id: int = -1, session_id: int = 0, epoch: int = -1) -> Any:
    partition = FetchPartition(partition=0, partition_max_bytes=100_000)
    topics = (FetchTopic(topic="t", partitions=(partition,)),) if epoch < 1 else ()
    request = FetchRequest(
        replica_id=replica_id, max_bytes=100_000, session_id=session_id, session_epoch=epoch, topics=topics
    )
    return await peer.ask(request, 12)


async def test_a_client_is_no_replica_whatever_acls_allow_it(broker: SocketlessBroker) -> None:
    """CVE-2018-1288."""
    admin, alice = await log_in(broker, "admin", "root"), await log_in(broker, "alice", "secret")
    await allow_alice(admin, (TOPIC, "t", READ), (CLUSTER, "kafka-cluster", CLUSTER_ACTION))
    assert (await fetched(alice)).error_code == 0
    for client in (alice, admin):
        assert (await fetched(client, replica_id=2)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_records_of_a_transaction_need_its_id(broker: SocketlessBroker) -> None:
    """CVE-2018-17196: also where the request names none."""
    admin, alice = await log_in(broker, "admin", "root"), await log_in(broker, "alice", "secret")
    await allow_alice(admin, (TOPIC, "t", WRITE))
    record = (0, None, b"x", ())
    assert await produced(alice, bytes(build_batch([record]))) == 0
    batch = bytes(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
    for transactional_id in (None, "", "another"):
        assert await produced(alice, batch, transactional_id) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_what_is_left_of_acls_holds_when_one_is_removed(broker: SocketlessBroker) -> None:
    """CVE-2024-27309."""
    admin, alice = await log_in(broker, "admin", "root"), await log_in(broker, "alice", "secret")
    deny = AclCreation(TOPIC, "t", 3, "User:alice", "*", READ, 2)
    await admin.ask(CreateAclsRequest((deny,)), 3)
    await allow_alice(admin, (TOPIC, "t", READ), (TOPIC, "t", WRITE))
    removed = DeleteAclsFilter(TOPIC, "t", 3, "User:alice", "*", WRITE, 3)
    (result,) = (await admin.ask(DeleteAclsRequest((removed,)), 3)).filter_results
    assert len(result.matching_acls) == 1
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await fetched(alice)).responses[0].partitions[0].error_code == denied
    assert await produced(alice, bytes(build_batch([(0, None, b"x", ())]))) == denied
    removed = DeleteAclsFilter(TOPIC, "t", 3, "User:alice", "*", READ, 2)
    await admin.ask(DeleteAclsRequest((removed,)), 3)
    assert (await fetched(alice)).responses[0].partitions[0].error_code == 0


async def test_a_fetch_session_is_not_taken_over(broker: SocketlessBroker) -> None:
    admin, alice = await log_in(broker, "admin", "root"), await log_in(broker, "alice", "secret")
    assert await produced(admin, bytes(build_batch([(0, None, b"x", ())]))) == 0
    session_id = (await fetched(admin, epoch=0)).session_id
    stolen = await fetched(alice, session_id=session_id, epoch=1)
    assert (stolen.error_code, stolen.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())
    assert (await fetched(admin, session_id=session_id, epoch=1)).error_code == 0


CODE = (
    ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required user.provider.url='ldap://x';"),
    ("listener.name.sasl_plaintext.plain.sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule a=b;"),
    ("listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class", "os.system"),
    ("sasl.oauthbearer.jwks.endpoint.url", "http://169.254.169.254/latest/meta-data"),
    ("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/passwd"),
    ("listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url", "https://evil.example/keys"),
    ("sasl.server.callback.handler.class", UNSIGNED_CLASS),
    ("delegation.token.secret.key", "known"),
    ("principal.builder.class", "os.system"),
    ("authorizer.class.name", "os.system"),
    ("metric.reporters", "os.system"),
)


async def test_no_setting_names_code_to_load(broker: SocketlessBroker) -> None:
    """CVE-2023-25194 and CVE-2025-27818: not even a super user. Nor says who issues tokens (CVE-2025-27817)."""
    admin = await log_in(broker, "admin", "root")
    for name, value in CODE:
        resource = AlterConfigsResource(4, "1", (AlterableConfig(name, 0, value),))
        (outcome,) = (await admin.ask(IncrementalAlterConfigsRequest((resource,)), 1)).responses
        assert outcome.error_code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST), outcome


@pytest.mark.parametrize("count", [1, 127, 20_000_000, (1 << 32) - 1])
async def test_tags_of_a_stranger_are_counted_before_they_are_read(broker: SocketlessBroker, count: int) -> None:
    """CVE-2026-111115: a header, or a body, that announces very many tagged fields, of two bytes each."""
    tags = _unsigned(count) + b"".join(_unsigned(tag) + b"\0" for tag in range(min(count, 60_000)))
    frame = encode_request(7, "test", ApiVersionsRequest("a", "b"), 3)[4:]
    header = 2 + 2 + 4 + 2 + len("test")
    for hostile in (frame[:header] + tags + frame[header + 1 :], frame[:-1] + tags):
        peer = broker.connect("SASL_PLAINTEXT")
        slot = peer.send_frame(hostile)
        assert peer.is_closed == (slot.frame is None)
        assert peer.is_closed or count <= 127
    assert (await broker.connect("SASL_PLAINTEXT").ask(ApiVersionsRequest("a", "b"), 3)).error_code == 0


def _unsigned(value: int) -> bytes:
    """A number as it stands before tagged fields."""
    coded = bytearray()
    while value > 127:
        coded.append(value & 127 | 128)
        value >>= 7
    coded.append(value)
    return bytes(coded)


FETCH_SNAPSHOT, VOTE, BEGIN_QUORUM_EPOCH, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 59, 52, 53, 4, 5, 6


@pytest.mark.parametrize(
    "key", [FETCH_SNAPSHOT, VOTE, BEGIN_QUORUM_EPOCH, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, -1, 32_767]
)
async def test_what_brokers_of_kafka_say_to_each_other_is_not_heard(broker: SocketlessBroker, key: int) -> None:
    """CVE-2026-83525: a request for a snapshot without topics. There is no quorum here."""
    admin = await log_in(broker, "admin", "root")
    slot = admin.send_frame(key.to_bytes(2, "big", signed=True) + b"\0\0" + b"\0\0\0\7" + b"\xff\xff" + bytes(40))
    assert (slot.frame, admin.is_closed) == (None, True)
    assert key not in set(map(int, ApiKey)) or key not in broker.server.gateways.kafka.apis.rows
    await log_in(broker, "admin", "root")


NOBODY_ELSE = [
    b"admin\0alice\0secret",
    b"admin\0alice\0root",
    b"alice\0admin\0secret",
    b"\0alice\0secret\0",
    b"\0alice\0secret\0admin",
    b"\0\0secret",
    b"\0alice\0",
    b"\0ALICE\0secret",
    b"\0alice \0secret",
]


@pytest.mark.parametrize("message", NOBODY_ELSE)
async def test_nobody_acts_as_somebody_else(broker: SocketlessBroker, message: bytes) -> None:
    """CVE-2017-12610."""
    peer = broker.connect("SASL_PLAINTEXT")
    assert (await peer.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    slot = peer.send(SaslAuthenticateRequest(message), 2)
    broker.timer.advance(100)
    assert slot.frame is not None
    assert peer.is_drained
    assert str(peer._handler.principal) == "User:ANONYMOUS"
