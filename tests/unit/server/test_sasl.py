"""At a listener with SASL nobody is served before it has proved who it is, and whoever has is that one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.gateways.kafka.apis import APIS
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.network.config import LOGIN_MS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.scram import MECHANISMS, salted_password
from ottla.security.scram_client import ScramClient
from tests.unit.server.socketless_broker import Peer, SocketlessBroker, decoded, until

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_admin="root" user_alice="secret";',
    "listener.name.sasl_plaintext.connections.max.reauth.ms": "60000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
SASL = "SASL_PLAINTEXT"
USERS = "SCRAM-SHA-512=[name=bob,password=pencil]\n\nSCRAM-SHA-256=[name=carol,password=pencil,iterations=8192]"
WRONG = "Authentication failed: Invalid username or password"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SocketlessBroker]:
    directory, users = tmp_path / "data", tmp_path / "users"
    directory.mkdir()
    users.write_text(USERS)
    users.chmod(0o600)
    broker = await SocketlessBroker(directory, {**SETTINGS, "sasl.scram.users.file": str(users)}).open()
    yield broker
    await broker.close()


async def handshake(peer: Peer, mechanism: str = "PLAIN") -> Any:
    return await peer.ask(SaslHandshakeRequest(mechanism), 1)


async def authenticate(broker: SocketlessBroker, peer: Peer, message: bytes, version: int = 2) -> Any:
    slot = peer.send(SaslAuthenticateRequest(message), version)
    if slot.frame is None:
        broker.timer.advance(100)
    return decoded(slot, ApiKey.SASL_AUTHENTICATE, version)


async def log_in(
    broker: SocketlessBroker, user: str = "alice", password: str = "secret", host: str = "127.0.0.1"
) -> Peer:
    peer = broker.connect(SASL, host)
    assert (await handshake(peer)).error_code == 0
    assert (await authenticate(broker, peer, f"\0{user}\0{password}".encode())).error_code == 0
    return peer


async def topics_of(peer: Peer, *names: str) -> dict[str, int]:
    wanted = tuple(MetadataRequestTopic(name=name) for name in names) if names else None
    answer = await peer.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
    return {topic.name: topic.error_code for topic in answer.topics}


async def test_before_it_nothing_is_served_but_what_it_takes(broker: SocketlessBroker) -> None:
    for key, api in APIS.items():
        if key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            continue
        peer = broker.connect(SASL)
        peer.send(api.request_type(), api.max_version)
        assert peer.closed_because == f"a request of {ApiKey(key).name} before the client has logged in"
    peer = broker.connect(SASL)
    assert (await peer.ask(ApiVersionsRequest(), 0)).error_code == 0
    assert peer.frame_bytes_max == 524_288
    assert (await handshake(peer)).mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    peer.send(ApiVersionsRequest(), 0)  # not in the middle of an exchange
    assert peer.closed_because is not None


async def test_a_produce_of_who_has_not_logged_in_is_taken_for_nobodys(broker: SocketlessBroker) -> None:
    peer = broker.connect(SASL)
    batch = bytes(build_batch([(0, None, b"x", ())]))
    request = ProduceRequest(
        None, 1, 1_000, (TopicProduceData(name="t", partition_data=(PartitionProduceData(0, batch),)),)
    )
    peer.send(request, 9)
    assert peer.closed_because == "a request of PRODUCE before the client has logged in"


async def test_who_has_not_logged_in_in_time_is_gone_whatever_it_sent(broker: SocketlessBroker) -> None:
    silent, slow, never, known = broker.connect(SASL), broker.connect(SASL), broker.connect(), await log_in(broker)
    assert (await handshake(slow, "SCRAM-SHA-512")).error_code == 0
    broker.timer.advance(LOGIN_MS - 1)
    assert (await authenticate(broker, slow, b"n,,n=bob,r=" + b"n" * 24)).error_code == 0  # and no second message
    assert [peer.closed_because for peer in (silent, slow)] == [None, None]
    broker.timer.advance(1)
    assert [peer.closed_because for peer in (silent, slow)] == [f"it did not log in within {LOGIN_MS} ms"] * 2
    assert [peer.closed_because for peer in (never, known)] == [None, None]


async def test_plain_says_who_it_is(broker: SocketlessBroker) -> None:
    peer = await log_in(broker)
    assert str(peer._handler.principal) == "User:alice"
    assert (peer._handler.principal.host, peer.frame_bytes_max) == ("127.0.0.1", None)


@pytest.mark.parametrize("message", [b"", b"\0alice\0wrong", b"\0nobody\0secret", b"\xff\0", b"x" * 9_000])
async def test_a_wrong_password_is_answered_after_a_while_and_ends_the_connection(
    broker: SocketlessBroker, message: bytes
) -> None:
    peer = broker.connect(SASL)
    await handshake(peer)
    slot = peer.send(SaslAuthenticateRequest(message), 2)
    broker.timer.advance(99)
    assert (slot.frame, peer.is_drained) == (None, True)
    broker.timer.advance(1)
    assert slot.frame is not None
    peer.send(SaslAuthenticateRequest(b"\0alice\0secret"), 2)  # nor is a second attempt heard
    assert peer.closed_because is not None
    assert str(peer._handler.principal) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("mechanism", "user", "password", "is_right"),
    [
        ("SCRAM-SHA-512", "bob", b"pencil", True),
        ("SCRAM-SHA-256", "carol", b"pencil", True),
        ("SCRAM-SHA-512", "bob", b"pencil2", False),
        ("SCRAM-SHA-256", "bob", b"pencil", False),
        ("SCRAM-SHA-512", "nobody", b"pencil", False),
    ],
)
async def test_scram_says_who_it_is(
    broker: SocketlessBroker, mechanism: str, user: str, password: bytes, is_right: bool
) -> None:
    peer = broker.connect(SASL)
    await handshake(peer, mechanism)
    client = ScramClient(MECHANISMS[mechanism], user, "n" * 24)
    challenge = await authenticate(broker, peer, client.first())
    assert challenge.error_code == 0  # also for a user that there is not: it cannot be told from one that there is
    salting = client.challenged(challenge.auth_bytes)
    outcome = await authenticate(broker, peer, client.final(salted_password(MECHANISMS[mechanism], password, *salting)))
    assert (outcome.error_code == 0) == is_right
    if is_right:
        client.verify(outcome.auth_bytes)
        assert str(peer._handler.principal) == f"User:{user}"
    else:
        assert outcome.error_message == (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )


async def test_a_user_that_there_is_not_looks_like_one_that_there_is(broker: SocketlessBroker) -> None:
    """Also where the users were made with other counts and salts than ours: the only one of SCRAM-SHA-256 has 8,192."""

    async def challenge(user: str) -> tuple[bytes, int]:
        peer = broker.connect(SASL)
        await handshake(peer, "SCRAM-SHA-256")
        client = ScramClient(MECHANISMS["SCRAM-SHA-256"], user, "n" * 24)
        return client.challenged((await authenticate(broker, peer, client.first())).auth_bytes)

    (there, count), (salt, count_of_nobody) = await challenge("carol"), await challenge("nobody")
    assert (count, len(there)) == (count_of_nobody, len(salt)) == (8_192, 16)
    assert await challenge("nobody") == (salt, 8_192)
    assert (await challenge("nobody2"))[0] != salt
    admin = await log_in(broker, "admin", "root")
    upsertion = ScramCredentialUpsertion("carol", 1, 10_000, b"0123456789abcdefghijklmnop", b"p" * 32)
    await admin.ask(AlterUserScramCredentialsRequest((), (upsertion,)), 0)
    salt, count = await challenge("nobody")
    assert (len(salt), count, salt.isalnum()) == (26, 10_000, True)


async def test_a_user_that_there_is_not_looks_the_same_after_a_restart(tmp_path: Path) -> None:
    salts = []
    for _ in range(2):
        broker = await SocketlessBroker(tmp_path, SETTINGS).open()
        peer = broker.connect(SASL)
        await handshake(peer, "SCRAM-SHA-512")
        client = ScramClient(MECHANISMS["SCRAM-SHA-512"], "nobody", "n" * 24)
        salts.append(client.challenged((await authenticate(broker, peer, client.first())).auth_bytes).salt)
        await broker.close()
    assert salts[0] == salts[1]


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "", "plain", "x" * 1_000])
async def test_another_mechanism_is_refused_with_those_that_there_are(broker: SocketlessBroker, mechanism: str) -> None:
    peer = broker.connect(SASL)
    answer = await handshake(peer, mechanism)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert peer.is_drained
    peer.send(SaslHandshakeRequest("PLAIN"), 1)
    assert peer.closed_because is not None


async def test_tokens_before_the_handshake_are_out_of_order(broker: SocketlessBroker) -> None:
    peer = broker.connect(SASL)
    peer.send(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    assert peer.closed_because == "a request of SASL_AUTHENTICATE before the client has logged in"


async def test_a_session_ends_and_may_be_renewed_as_the_same_user_by_the_same_mechanism(
    broker: SocketlessBroker,
) -> None:
    peer = broker.connect(SASL)
    await handshake(peer)
    assert (await authenticate(broker, peer, b"\0alice\0secret")).session_lifetime_ms == 60_000
    assert (await handshake(peer)).error_code == ErrorCode.ILLEGAL_SASL_STATE  # within a second
    broker.timer.advance(59_000)
    assert (await handshake(peer)).error_code == 0
    assert (await authenticate(broker, peer, b"\0alice\0secret")).session_lifetime_ms == 60_000
    broker.timer.advance(59_999)
    await topics_of(peer)
    broker.timer.advance(1)
    peer.send(MetadataRequest(topics=None), 12)
    assert peer.closed_because == "a request of METADATA after the end of its session"
    for mechanism, message in (("PLAIN", b"\0admin\0root"), ("SCRAM-SHA-512", b"n,,n=alice,r=" + b"n" * 24)):
        peer = await log_in(broker)
        broker.timer.advance(60_000)
        assert (await handshake(peer, mechanism)).error_code == 0
        answer = await authenticate(broker, peer, message)
        assert (answer.error_code, peer.is_drained) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)


async def test_a_session_ends_also_by_the_version_that_tells_no_lifetime(broker: SocketlessBroker) -> None:
    peer = broker.connect(SASL)
    await handshake(peer)
    assert (await authenticate(broker, peer, b"\0alice\0secret", version=0)).session_lifetime_ms == 0
    broker.timer.advance(59_999)
    await topics_of(peer)
    assert peer.closed_because is None
    broker.timer.advance(1)
    peer.send(MetadataRequest(topics=()), 12)
    assert peer.closed_because == "a request of METADATA after the end of its session"


async def test_acls_hold_for_who_logged_in_from_where_and_for_what_is_listed(broker: SocketlessBroker) -> None:
    admin, alice = await log_in(broker, "admin", "root"), await log_in(broker)
    there = await log_in(broker, host="10.0.0.9")
    for name in ("orders", "other"):
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        assert (await alice.ask(CreateTopicsRequest((topic,), 60_000), 7)).topics[0].error_code == 29
        assert (await admin.ask(CreateTopicsRequest((topic,), 60_000), 7)).topics[0].error_code == 0
    assert await topics_of(alice) == {}
    assert await topics_of(alice, "orders") == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    acl = AclCreation(2, "ord", 4, "User:alice", "10.0.0.9", 3, 3)
    assert (await alice.ask(CreateAclsRequest((acl,)), 3)).results[0].error_code == 31
    assert (await admin.ask(CreateAclsRequest((acl,)), 3)).results[0].error_code == 0
    assert (await topics_of(alice), await topics_of(there)) == ({}, {"orders": 0})
    assert (await alice.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)).error_code == 31
    anonymous = broker.connect()
    assert await topics_of(anonymous) == {}


async def test_a_user_that_comes_while_the_broker_runs_may_log_in_at_once(broker: SocketlessBroker) -> None:
    admin = await log_in(broker, "admin", "root")
    salted = salted_password(MECHANISMS["SCRAM-SHA-256"], b"new", b"saltsalt", 4_096)
    upsertion = ScramCredentialUpsertion("dave", 1, 4_096, b"saltsalt", salted)
    answer = await admin.ask(AlterUserScramCredentialsRequest((), (upsertion,)), 0)
    assert answer.results[0].error_code == 0
    await test_scram_says_who_it_is(broker, "SCRAM-SHA-256", "dave", b"new", is_right=True)


async def test_the_first_users_are_not_added_again(broker: SocketlessBroker) -> None:
    await until(lambda: bool(broker.server.metadata.current_image().scram_credentials))
    assert sorted(broker.server.metadata.current_image().scram_credentials) == ["bob", "carol"]


async def bare(broker: SocketlessBroker, peer: Peer, message: bytes) -> bytes | None:
    """The answer to a message without a header; None where the connection is closed instead."""
    slot = peer.send_frame(message)
    if slot.frame is None:
        broker.timer.advance(100)
    if slot.frame is None:
        return None
    assert int.from_bytes(slot.frame[:4], "big") == len(slot.frame) - 4
    return slot.frame[4:]


async def test_clients_before_kafka_1_send_messages_without_a_header(broker: SocketlessBroker) -> None:
    peer = broker.connect(SASL)
    assert (await peer.ask(SaslHandshakeRequest("PLAIN"), 0)).mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert await bare(broker, peer, b"\0alice\0secret") == b""
    assert str(peer._handler.principal) == "User:alice"
    assert await topics_of(peer, "t") == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    peer, mechanism = broker.connect(SASL), "SCRAM-SHA-512"
    assert (await peer.ask(SaslHandshakeRequest(mechanism), 0)).error_code == 0
    client = ScramClient(MECHANISMS[mechanism], "bob", "n" * 24)
    challenge = await bare(broker, peer, client.first())
    assert challenge is not None
    salting = client.challenged(challenge)
    outcome = await bare(broker, peer, client.final(salted_password(MECHANISMS[mechanism], b"pencil", *salting)))
    assert outcome is not None
    client.verify(outcome)
    assert str(peer._handler.principal) == "User:bob"


@pytest.mark.parametrize(
    "message", [b"\0alice\0wrong", b"", b"\x00", b"x" * 9_000, b"\x00\x12\x00\x00\x00\x00\x00\x01"]
)
async def test_and_are_gone_without_an_answer_where_that_proves_nothing(
    broker: SocketlessBroker, message: bytes
) -> None:
    peer = broker.connect(SASL)
    await peer.ask(SaslHandshakeRequest("PLAIN"), 0)
    slot = peer.send_frame(message)
    broker.timer.advance(99)
    assert (slot.frame, peer.is_closed, peer.is_drained) == (None, False, True)
    broker.timer.advance(1)
    assert peer.closed_because == "a client could not log in"
    assert slot.frame is None
    assert str(peer._handler.principal) == "User:ANONYMOUS"


async def test_after_a_wrong_message_no_second_one_is_heard(broker: SocketlessBroker) -> None:
    peer = broker.connect(SASL)
    await peer.ask(SaslHandshakeRequest("PLAIN"), 0)
    peer.send_frame(b"\0alice\0wrong")
    peer.send_frame(b"\0alice\0secret")
    assert peer.closed_because == "a message of an exchange that is over"
    assert str(peer._handler.principal) == "User:ANONYMOUS"


async def test_a_session_cannot_be_renewed_without_headers_by_another_user(broker: SocketlessBroker) -> None:
    peer = await log_in(broker)
    broker.timer.advance(2_000)
    assert (await peer.ask(SaslHandshakeRequest("PLAIN"), 0)).error_code == 0
    assert await bare(broker, peer, b"\0admin\0root") is None
    assert peer.is_closed
