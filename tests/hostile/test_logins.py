"""Strangers where clients log in: messages of every size, in every state of the exchange, and none at all."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.scram import MECHANISMS, salted_password
from ottla.security.scram_client import ScramClient
from tests.broker_process import BrokerProcess
from tests.hostile.process_memory import own_mib
from tests.hostile.raw_peer import RawPeer, framed
from tests.tokens import TokenIssuer, write_jwks

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LIMIT = 524_288
"""`sasl.server.max.receive.size`."""
SCRAM = "SCRAM-SHA-512"
MECHANISM_NAMES = ("PLAIN", SCRAM, "OAUTHBEARER")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("logins")
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISM_NAMES),
        "sasl.oauthbearer.jwks.endpoint.url": write_jwks(directory / "keys.json", TokenIssuer()),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_admin="root";',
        "connection.failed.authentication.delay.ms": "0",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:admin",
    }
    users = {"OTTLA_SCRAM_USERS": f"{SCRAM}=[name=anna,password=pencil]"}
    with BrokerProcess(directory / "data", settings, protocol="SASL_PLAINTEXT", environment=users) as broker:
        yield broker


def serves(broker: BrokerProcess) -> None:
    """Whoever knows a password comes in, by each way."""
    with RawPeer(broker.port) as peer:
        assert peer.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
        assert peer.ask(SaslAuthenticateRequest(b"\0admin\0root"), 2).error_code == 0
        assert peer.ask(ListGroupsRequest(), 4).error_code == 0
    with RawPeer(broker.port) as peer:
        assert peer.ask(SaslHandshakeRequest(SCRAM), 1).error_code == 0
        client = ScramClient(MECHANISMS[SCRAM], "anna", "n" * 24)
        salting = client.challenged(peer.ask(SaslAuthenticateRequest(client.first()), 2).auth_bytes)
        proof = client.final(salted_password(MECHANISMS[SCRAM], b"pencil", *salting))
        client.verify(peer.ask(SaslAuthenticateRequest(proof), 2).auth_bytes)


def is_gone(peer: RawPeer) -> bool:
    """Whether the broker has closed the connection, whatever it said before."""
    try:
        while peer.sock.recv(1 << 16):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    return True


def sent(peer: RawPeer, data: bytes) -> None:
    """As far as the broker lets it be sent."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        peer.send(data)


NO_REQUESTS = {
    "nothing": b"",
    "one byte": b"\0",
    "a letter": b"x" * 8,
    "zeros": bytes(40),
    "ones": b"\xff" * 40,
    "produce": struct.pack(">hhih", 0, 9, 1, -1) + bytes(60),
    "as large as may be": b"\0\x24\0\2" + b"\xff" * (LIMIT - 4),
    "HTTP": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("version", [None, 0, 1])
@pytest.mark.parametrize("mechanism", MECHANISM_NAMES)
def test_whatever_is_sent_in_place_of_a_login_ends_its_connection(
    secured: BrokerProcess, mechanism: str, version: int | None
) -> None:
    for data in NO_REQUESTS.values():
        with RawPeer(secured.port) as peer:
            if version is not None:
                assert peer.ask(SaslHandshakeRequest(mechanism), version).error_code == 0
            sent(peer, framed(data) * 2)
            assert is_gone(peer)
    serves(secured)


@pytest.mark.parametrize("size", [LIMIT + 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_a_frame_above_the_limit_is_refused_by_its_length(secured: BrokerProcess, size: int) -> None:
    for steps in ((), (ApiVersionsRequest("a", "b"),), (SaslHandshakeRequest("PLAIN"),)):
        with RawPeer(secured.port) as peer:
            for step in steps:
                peer.ask(step, 3 if isinstance(step, ApiVersionsRequest) else 1)
            sent(peer, struct.pack(">I", size) + b"\0\x24\0\2")
            assert is_gone(peer)
    serves(secured)


SIZES = (0, 1, 15, 4_096, 4_097, 65_536, 65_537, LIMIT - 64)


@pytest.mark.parametrize("mechanism", MECHANISM_NAMES)
def test_messages_of_every_size_are_answered_with_a_refusal_or_not_at_all(
    secured: BrokerProcess, mechanism: str
) -> None:
    for size in SIZES:
        for filler in (b"a", b"\0", b"\x01", b",", b"=", b"\xff"):
            with RawPeer(secured.port) as peer:
                assert peer.ask(SaslHandshakeRequest(mechanism), 1).error_code == 0
                answer = peer.ask(SaslAuthenticateRequest(filler * size), 2)
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
                assert is_gone(peer)
    serves(secured)


def test_half_logins_by_the_hundred_keep_nobody_out_and_cost_little(secured: BrokerProcess) -> None:
    serves(secured)
    before = own_mib(secured)
    peers: list[RawPeer] = []
    try:
        for number in range(400):
            peer = RawPeer(secured.port, f"127.0.{number % 4}.2")
            peers.append(peer)
            step = number % 4
            if step:
                peer.ask(SaslHandshakeRequest(SCRAM), 1)
            if step == 2:
                client = ScramClient(MECHANISMS[SCRAM], f"nobody{number}", "n" * 24)
                assert peer.ask(SaslAuthenticateRequest(client.first()), 2).error_code == 0
            if step == 3:
                peer.send(struct.pack(">i", LIMIT) + b"\0\x24")  # a large message, of which no more comes
        serves(secured)
        assert own_mib(secured) - before < 40
    finally:
        for peer in peers:
            peer.sock.close()
    serves(secured)


def test_the_log_of_it_has_only_lines_of_the_broker_and_no_secret(secured: BrokerProcess) -> None:
    with RawPeer(secured.port) as peer:
        peer.ask(SaslHandshakeRequest("PLAIN\r\nforged"), 1)
        assert is_gone(peer)
    lines = Path(secured.log_path).read_text().splitlines()
    assert not any(line.startswith("forged") for line in lines)
    assert not any("pencil" in line or "root" in line for line in lines)
