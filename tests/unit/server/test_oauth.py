"""Clients log in with a token that an issuer signed, for as long as the token is good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.signing_keys import SOONER_MS
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.settings.broker_oauth_table import UNSIGNED_CLASS
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from tests.tokens import TokenIssuer, write_jwks
from tests.unit.server.socketless_broker import Peer, SocketlessBroker, decoded

SASL = "SASL_PLAINTEXT"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.expected.audience": "ottla",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
}
NOW = int(time.time())


@pytest.fixture
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture
async def broker(tmp_path: Path, issuer: TokenIssuer) -> AsyncIterator[SocketlessBroker]:
    url = write_jwks(tmp_path / "keys.json", issuer)
    broker = SocketlessBroker(tmp_path / "data", {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": url})
    broker.timer.clock.set_now(NOW * 1_000)
    await broker.open()
    yield broker
    await broker.close()


async def say(broker: SocketlessBroker, peer: Peer, message: bytes, version: int = 2) -> Any:
    slot = peer.send(SaslAuthenticateRequest(message), version)
    if slot.frame is None:
        broker.timer.advance(100)
    return decoded(slot, ApiKey.SASL_AUTHENTICATE, version)


async def show(broker: SocketlessBroker, peer: Peer, token: str) -> Any:
    assert (await peer.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)).error_code == 0
    return await say(broker, peer, f"n,,\x01auth=Bearer {token}\x01\x01".encode())


async def test_a_token_says_who_it_is_and_for_how_long(broker: SocketlessBroker, issuer: TokenIssuer) -> None:
    peer = broker.connect(SASL)
    answer = await show(broker, peer, issuer.token("alice", iat=NOW, exp=NOW + 90))
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 90_000)
    assert str(peer._handler.principal) == "User:alice"
    assert (await peer.ask(ListGroupsRequest(), 4)).error_code == 0
    broker.timer.advance(89_000)
    assert (await show(broker, peer, issuer.token("alice", iat=NOW, exp=NOW + 300))).session_lifetime_ms == 211_000
    broker.timer.advance(210_999)
    assert (await peer.ask(ListGroupsRequest(), 4)).error_code == 0
    broker.timer.advance(1)
    peer.send(ListGroupsRequest(), 4)
    assert peer.closed_because == "a request of LIST_GROUPS after the end of its session"


async def test_a_session_is_no_longer_than_the_listener_says(tmp_path: Path, issuer: TokenIssuer) -> None:
    url = write_jwks(tmp_path / "keys.json", issuer)
    settings = {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": url, "connections.max.reauth.ms": "60000"}
    broker = SocketlessBroker(tmp_path, settings)
    broker.timer.clock.set_now(NOW * 1_000)
    await broker.open()
    for lives_s, session_ms in ((3_600, 60_000), (20, 20_000), (-10, 0)):
        peer = broker.connect(SASL)
        answer = await show(broker, peer, issuer.token(iat=1, exp=NOW + lives_s))
        assert (answer.error_code, answer.session_lifetime_ms) == (0, session_ms)
    broker.timer.advance(0)
    peer.send(ListGroupsRequest(), 4)  # good for the clock's skew, and its session is over
    assert peer.is_closed
    await broker.close()


async def test_another_user_may_not_go_on_with_the_connection(broker: SocketlessBroker, issuer: TokenIssuer) -> None:
    peer = broker.connect(SASL)
    await show(broker, peer, issuer.token("alice", iat=NOW, exp=NOW + 300))
    broker.timer.advance(2_000)
    answer = await show(broker, peer, issuer.token("bob", iat=NOW, exp=NOW + 300))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in answer.error_message
    assert str(peer._handler.principal) == "User:alice"
    peer.send(ListGroupsRequest(), 4)
    assert peer.is_closed


async def test_a_token_that_is_not_believed_is_refused_in_two_steps(
    broker: SocketlessBroker, issuer: TokenIssuer
) -> None:
    for token in (
        issuer.token(aud="other"),
        issuer.token(iss="other"),
        TokenIssuer("1").token(),
        issuer.token(exp=NOW - 31, iat=1),
    ):
        peer = broker.connect(SASL)
        answer = await show(broker, peer, token)
        assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
        slot = peer.send(ListGroupsRequest(), 4)
        assert slot.frame is None
        assert peer.closed_because == "a request of LIST_GROUPS before the client has logged in"
        peer = broker.connect(SASL)
        await show(broker, peer, token)
        answer = await say(broker, peer, b"\x01")
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            '{"status":"invalid_token"}',
        )
        assert peer.is_drained
        assert str(peer._handler.principal) == "User:ANONYMOUS"


async def test_a_new_key_is_known_a_while_after_it_was_first_seen(
    broker: SocketlessBroker, issuer: TokenIssuer, tmp_path: Path
) -> None:
    new = TokenIssuer("2")
    broker.timer.advance(SOONER_MS)
    write_jwks(tmp_path / "keys.json", issuer, new)
    assert (await show(broker, broker.connect(SASL), new.token(iat=NOW))).auth_bytes
    async with asyncio.timeout(60):
        while (await show(broker, broker.connect(SASL), new.token(iat=NOW))).auth_bytes:  # noqa: ASYNC110 (reading knows no events)
            await asyncio.sleep(0)
    assert not (await show(broker, broker.connect(SASL), issuer.token(iat=NOW))).auth_bytes


async def test_tokens_that_nobody_signed_are_taken_where_the_setting_says_so(tmp_path: Path) -> None:
    line = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredValidatorAllowableClockSkewMs="3000" unsecuredValidatorPrincipalClaimName="who";'
    )
    settings = {
        **SETTINGS,
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSIGNED_CLASS,
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": line,
    }
    broker = SocketlessBroker(tmp_path, settings)
    broker.timer.clock.set_now(NOW * 1_000)
    await broker.open()
    from tests.unit.security.test_access_token import made

    peer = broker.connect(SASL)
    answer = await show(broker, peer, made({"alg": "none"}, {"who": "alice", "exp": NOW + 5}))
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 5_000)
    assert str(peer._handler.principal) == "User:alice"
    answer = await show(broker, broker.connect(SASL), made({"alg": "none"}, {"who": "alice", "exp": NOW - 3}))
    assert answer.auth_bytes
    await broker.close()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({}, "endpoint.url is missing"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://a/b"}, "must be a URL as"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://user:secret@a/b"}, "without a name or a password"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file://host/b"}, "must be file:///PATH"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://a:x/"}, "must be a URL"),
        ({"sasl.server.callback.handler.class": "com.example.Mine"}, "OAuthBearerValidatorCallbackHandler"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
    ],
)
def test_a_broker_does_not_start_where_it_is_not_said_whose_tokens_it_takes(
    settings: dict[str, str], what: str
) -> None:
    with pytest.raises(InvalidSettingError, match=what):
        BrokerSettings({**SETTINGS, **settings})


def test_what_kafkas_brokers_need_to_log_in_to_each_other_is_ignored() -> None:
    own = "listener.name.sasl_plaintext.oauthbearer."
    settings = BrokerSettings(
        {
            **SETTINGS,
            "sasl.oauthbearer.jwks.endpoint.url": "https://issuer:8443/keys?a=b",
            f"{own}sasl.login.callback.handler.class": "org.apache.kafka.OAuthBearerLoginCallbackHandler",
            f"{own}sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
            "sasl.oauthbearer.header.urlencode": "true",
        }
    )
    assert len(settings.warnings) == 3
    with pytest.raises(InvalidSettingError, match="Kerberos"):
        BrokerSettings({f"{own}sasl.kerberos.service.name": "kafka"})


async def test_a_broker_does_not_start_without_its_keys(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/none.json"
    broker = SocketlessBroker(tmp_path, {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": url})
    with pytest.raises(InvalidSettingError, match=r"none\.json cannot be read: No such file"):
        await broker.open()
    await broker.close()
