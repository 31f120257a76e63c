"""Delegation tokens: who gets them, what they are good for, and for how long."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.scram import MECHANISMS, salted_password
from ottla.security.scram_client import ScramClient
from tests.unit.server.socketless_broker import Peer, SocketlessBroker, decoded, until

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{JAAS} user_admin="root" user_alice="secret" user_bob="secret" user_carol="secret";'
    ),
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "the key",
    "delegation.token.max.lifetime.ms": "10000",
    "delegation.token.expiry.time.ms": "4000",
    "delegation.token.expiry.check.interval.ms": "60000",
}
SASL = "SASL_PLAINTEXT"
SHA_512 = "SCRAM-SHA-512"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SocketlessBroker]:
    broker = await SocketlessBroker(tmp_path, SETTINGS).open()
    yield broker
    await broker.close()


async def log_in(broker: SocketlessBroker, user: str = "alice") -> Peer:
    peer = broker.connect(SASL)
    await peer.ask(SaslHandshakeRequest("PLAIN"), 1)
    password = "root" if user == "admin" else "secret"
    assert (await peer.ask(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)).error_code == 0
    return peer


async def log_in_by_token(
    broker: SocketlessBroker, token: Any, mechanism: str = SHA_512, says: str = "true", peer: Peer | None = None
) -> tuple[Peer, Any]:
    peer = broker.connect(SASL) if peer is None else peer
    assert (await peer.ask(SaslHandshakeRequest(mechanism), 1)).error_code == 0
    client = ScramClient(MECHANISMS[mechanism], token.token_id, "n" * 24, {"tokenauth": says})
    challenge = await peer.ask(SaslAuthenticateRequest(client.first()), 2)
    salting = client.challenged(challenge.auth_bytes)
    secret = salted_password(MECHANISMS[mechanism], base64.b64encode(token.hmac), *salting)
    slot = peer.send(SaslAuthenticateRequest(client.final(secret)), 2)
    if slot.frame is None:
        broker.timer.advance(100)
    return peer, decoded(slot, 36, 2)


async def create(peer: Peer, *renewers: str, owner: str | None = None, lifetime_ms: int = -1) -> Any:
    parties = tuple(CreatableRenewers("User", each) for each in renewers)
    request = CreateDelegationTokenRequest("User" if owner else None, owner, parties, lifetime_ms)
    return await peer.ask(request, 3)


async def described(peer: Peer, *owners: str) -> list[str]:
    wanted = tuple(DescribeDelegationTokenOwner("User", each) for each in owners) if owners else None
    answer = await peer.ask(DescribeDelegationTokenRequest(wanted), 3)
    assert answer.error_code == 0
    return sorted(each.token_id for each in answer.tokens)


async def test_who_logs_in_by_it_is_its_owner_until_it_ends(broker: SocketlessBroker) -> None:
    token = await create(await log_in(broker), "bob")
    now_ms = broker.timer.clock.now_ms()
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (now_ms, now_ms + 4_000)
    assert (token.max_timestamp_ms, len(token.hmac)) == (now_ms + 10_000, 64)
    for mechanism in ("SCRAM-SHA-256", SHA_512, SHA_512):
        peer, answer = await log_in_by_token(broker, token, mechanism)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 4_000)
        assert (str(peer._handler.principal), peer._handler.principal.by_token) == ("User:alice", True)
    broker.timer.advance(4_000)
    peer.send(ListGroupsRequest(), 4)
    assert peer.closed_because == "a request of LIST_GROUPS after the end of its session"
    broker.timer.advance(1)
    _, answer = await log_in_by_token(broker, token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_session_goes_on_by_a_token_that_was_renewed(broker: SocketlessBroker) -> None:
    token = await create(await log_in(broker), "bob")
    peer, _ = await log_in_by_token(broker, token)
    broker.timer.advance(3_000)
    answer = await (await log_in(broker, "bob")).ask(RenewDelegationTokenRequest(token.hmac, -1), 2)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, broker.timer.clock.now_ms() + 4_000)
    _, answer = await log_in_by_token(broker, token, peer=peer)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 4_000)
    broker.timer.advance(3_999)
    assert (await peer.ask(ListGroupsRequest(), 4)).error_code == 0


@pytest.mark.parametrize("says", ["false", "yes"])
async def test_its_id_is_no_user_and_users_are_no_tokens(broker: SocketlessBroker, says: str) -> None:
    token = await create(await log_in(broker))
    _, answer = await log_in_by_token(broker, token, says=says)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    for field, value in (("hmac", b"x" * 64), ("token_id", "alice"), ("token_id", "A" * 22)):
        _, answer = await log_in_by_token(broker, replace(token, **{field: value}))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_no_token_without_having_proved_more(broker: SocketlessBroker) -> None:
    token = await create(await log_in(broker))
    by_token, _ = await log_in_by_token(broker, token)
    for peer in (broker.connect(), by_token):
        for request, version in (
            (CreateDelegationTokenRequest(None, None), 3),
            (RenewDelegationTokenRequest(token.hmac, -1), 2),
            (ExpireDelegationTokenRequest(token.hmac, -1), 2),
            (DescribeDelegationTokenRequest(None), 3),
        ):
            answer = await peer.ask(request, version)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_only_owners_and_renewers_renew_and_end_it(broker: SocketlessBroker) -> None:
    alice, bob, carol = [await log_in(broker, user) for user in ("alice", "bob", "carol")]
    token = await create(alice, "bob")
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    for kind in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
        assert (await carol.ask(kind(token.hmac, -1), 2)).error_code == mismatch
        assert (await carol.ask(kind(b"x" * 64, -1), 2)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert (await carol.ask(kind(b"", -1), 2)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    now_ms = broker.timer.clock.now_ms()
    answer = await bob.ask(RenewDelegationTokenRequest(token.hmac, 2_000), 2)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, now_ms + 2_000)
    answer = await bob.ask(RenewDelegationTokenRequest(token.hmac, 1 << 62), 2)
    assert answer.expiry_timestamp_ms == now_ms + 4_000
    answer = await alice.ask(ExpireDelegationTokenRequest(token.hmac, (1 << 63) - 1), 2)
    assert answer.expiry_timestamp_ms == token.max_timestamp_ms
    answer = await alice.ask(ExpireDelegationTokenRequest(token.hmac, 10), 2)
    assert answer.expiry_timestamp_ms == now_ms + 10
    broker.timer.advance(11)
    for kind in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
        assert (await alice.ask(kind(token.hmac, 1_000), 2)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert (await alice.ask(ExpireDelegationTokenRequest(token.hmac, -1), 2)).error_code == 0
    assert (await alice.ask(RenewDelegationTokenRequest(token.hmac, 1), 2)).error_code == (
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    )
    assert await described(alice) == []


async def test_it_is_renewed_up_to_its_longest_life_and_removed_when_it_is_over(broker: SocketlessBroker) -> None:
    alice = await log_in(broker)
    token, short = await create(alice), await create(alice, lifetime_ms=1_000)
    assert short.expiry_timestamp_ms == short.max_timestamp_ms == short.issue_timestamp_ms + 1_000
    for _ in range(3):
        broker.timer.advance(3_000)
        answer = await alice.ask(RenewDelegationTokenRequest(token.hmac, -1), 2)
    assert answer.expiry_timestamp_ms == token.max_timestamp_ms
    image = broker.server.metadata.current_image
    assert len(image().delegation_tokens) == 2
    broker.timer.advance(60_000)
    await until(lambda: not image().delegation_tokens)


async def test_tokens_for_others_and_the_sight_of_them_are_rights(broker: SocketlessBroker) -> None:
    alice, bob, carol, admin = [await log_in(broker, user) for user in ("alice", "bob", "carol", "admin")]
    refused = await create(alice, owner="bob")
    assert (refused.error_code, refused.principal_name, refused.hmac) == (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "bob",
        b"",
    )
    rules = (
        AclCreation(7, "User:bob", 3, "User:alice", "*", 13, 3),  # CREATE_TOKENS on a USER
        AclCreation(7, "User:alice", 3, "User:carol", "*", 14, 3),  # DESCRIBE_TOKENS
    )
    assert all(each.error_code == 0 for each in (await admin.ask(CreateAclsRequest(rules), 3)).results)
    of_bob, of_alice = await create(alice, "carol", owner="bob"), await create(alice)
    assert (of_bob.principal_name, of_bob.token_requester_principal_name) == ("bob", "alice")
    everything = sorted([of_bob.token_id, of_alice.token_id])
    assert await described(alice) == everything  # who asked for it sees it
    assert await described(bob) == [of_bob.token_id]
    assert await described(carol) == everything  # a renewer, and one who may
    assert await described(admin) == everything
    assert await described(admin, "bob") == [of_bob.token_id]
    assert await described(admin, "nobody") == []
    peer, _ = await log_in_by_token(broker, of_bob)
    assert str(peer._handler.principal) == "User:bob"


async def test_what_is_asked_for_has_limits(broker: SocketlessBroker) -> None:
    alice = await log_in(broker)
    many = await create(alice, *(f"r{number}" for number in range(101)))
    assert many.error_code == ErrorCode.INVALID_REQUEST
    assert (await create(alice, "x" * 256)).error_code == ErrorCode.INVALID_REQUEST
    other = CreateDelegationTokenRequest(None, None, (CreatableRenewers("Group", "g"),), -1)
    assert (await alice.ask(other, 3)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


async def test_without_a_key_there_are_none(tmp_path: Path) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "delegation.token.secret.key"}
    broker = await SocketlessBroker(tmp_path, settings).open()
    alice = await log_in(broker)
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert (await create(alice)).error_code == disabled
    assert (await alice.ask(DescribeDelegationTokenRequest(None), 3)).error_code == disabled
    assert (await alice.ask(RenewDelegationTokenRequest(b"x", -1), 2)).error_code == disabled
    await broker.close()


async def test_tokens_outlive_a_restart_and_their_secrets_lie_nowhere(tmp_path: Path) -> None:
    broker = await SocketlessBroker(tmp_path, SETTINGS).open()
    token = await create(await log_in(broker), "bob")
    await broker.close()
    for path in tmp_path.rglob("*"):  # noqa: ASYNC240
        content = path.read_bytes() if path.is_file() else b""
        assert token.hmac not in content
        assert base64.b64encode(token.hmac) not in content
        assert b"the key" not in content
    broker = await SocketlessBroker(tmp_path, SETTINGS).open()
    peer, _ = await log_in_by_token(broker, token)
    assert str(peer._handler.principal) == "User:alice"
    assert await described(await log_in(broker, "bob")) == [token.token_id]
    await broker.close()
