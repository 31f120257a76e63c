"""Strangers who say that they are a broker, at every kind of listener: the secret of the cluster alone is believed."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker import share_read_messages as messages
from ottla.model.error_code import ErrorCode
from ottla.peers.cluster_secret import BrokerIdentity, introduction
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.share_reads import ShareReadsRequest
from ottla.security.scram import SCRAM_SHA_512, salted_password
from ottla.security.scram_client import ScramClient
from tests.certificates import Authority
from tests.cluster import Cluster
from tests.hostile.raw_peer import RawPeer
from tools.ports import free_ports

SECRET = "what only brokers know"
PASSWORD = "pencil"
LISTENERS = ("PLAINTEXT", "MUTUAL", "SASL_SSL")


class Strangers:
    """Broker 1 of two, which speak to each other over SASL_SSL, and peers of it."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        key = authority.identity("broker").write_pem(directory / "broker.pem")
        trust = authority.write(directory / "ca.pem")
        self.context = ssl.create_default_context(cafile=str(trust))
        self.context.load_cert_chain(str(authority.identity("2").write_pem(directory / "2.pem")))
        self.cluster = Cluster(directory, 2)
        for number, broker in self.cluster.brokers.items():
            ports = free_ports(3)
            if number == 1:
                self.ports = dict(zip(LISTENERS, ports, strict=True))
            broker.protocol, broker.port = "SASL_SSL", ports[2]  # what `listeners` says comes after it
            broker.environment = {"OTTLA_SCRAM_USERS": f"SCRAM-SHA-512=[name=2,password={PASSWORD}]"}
            broker.settings |= {
                "listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in zip(LISTENERS, ports, strict=True)),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MUTUAL:SSL,SASL_SSL:SASL_SSL",
                "inter.broker.listener.name": "SASL_SSL",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "cluster.secret": SECRET,
                "connection.failed.authentication.delay.ms": "0",
                "authorizer.class.name": "StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:2",  # whatever ACLs may give, they have
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(key),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(trust),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/L,DEFAULT",
            }

    def peer(self, listener: str) -> RawPeer:
        """One that comes by a listener, over TLS where that speaks it."""
        peer = RawPeer(self.ports[listener])
        if listener != "PLAINTEXT":
            peer.sock = self.context.wrap_socket(peer.sock, server_hostname="127.0.0.1")
        return peer

    @property
    def log(self) -> str:
        return self.cluster.brokers[1].log_path.read_text()


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    made = Strangers(tmp_path_factory.mktemp("strangers"))
    with made.cluster:
        yield made


def said(peer: RawPeer, message: bytes) -> SaslAuthenticateResponse:
    return peer.ask(SaslAuthenticateRequest(message), 2)


def proof(peer: RawPeer, cluster_id: str, secret: str, *, is_broker: bool = True) -> tuple[bytes, bytes, int]:
    """Say that one is broker 2, or a user of that name: the two messages, and what the second is answered."""
    extensions = introduction(BrokerIdentity(2, cluster_id, b""), 1) if is_broker else None
    client = ScramClient(SCRAM_SHA_512, "2", "n" * 24, extensions)
    assert peer.ask(SaslHandshakeRequest("SCRAM-SHA-512"), 1).error_code == 0
    first = client.first()
    final = client.final(
        salted_password(SCRAM_SHA_512, secret.encode(), *client.challenged(said(peer, first).auth_bytes))
    )
    return first, final, said(peer, final).error_code


def heartbeat(peer: RawPeer) -> int:
    """What the broker answers to one that speaks for broker 2."""
    return peer.ask(BrokerHeartbeatRequest(broker_id=2, broker_epoch=-1), 1).error_code


@pytest.fixture(scope="module")
def cluster_id(strangers: Strangers) -> str:
    with strangers.peer("PLAINTEXT") as peer:
        return peer.ask(DescribeClusterRequest(), 0).cluster_id


@pytest.mark.parametrize("listener", LISTENERS)
def test_who_guesses_or_repeats_is_no_broker_and_who_proves_the_secret_is_one(
    strangers: Strangers, cluster_id: str, listener: str
) -> None:
    with strangers.peer(listener) as peer:
        first, final, error = proof(peer, cluster_id, SECRET)
        assert error == 0
        assert heartbeat(peer) != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with strangers.peer(listener) as peer:
        assert peer.ask(SaslHandshakeRequest("SCRAM-SHA-512"), 1).error_code == 0
        assert said(peer, first).error_code == 0
        assert said(peer, final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        peer.closed_with()
    with strangers.peer(listener) as peer:
        assert proof(peer, cluster_id, "a guess")[2] == ErrorCode.SASL_AUTHENTICATION_FAILED
        peer.closed_with()
        address = peer.address
    assert f"{address} to" in strangers.log


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_user_named_as_a_broker_is_none(strangers: Strangers, cluster_id: str, listener: str) -> None:
    with strangers.peer(listener) as peer:
        if listener == "SASL_SSL":
            assert proof(peer, cluster_id, PASSWORD, is_broker=False)[2] == 0
        assert heartbeat(peer) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


TOPIC = bytes(15) + b"\7"
SHARE_READS = {
    "nothing": b"",
    "garbage": bytes(range(256)) * 40,
    "no kind of message": b"\x93\xa4what\x01\x02",
    "an array that is said to be long": b"\xdd\xff\xff\xff\xff",
    "a topic id": messages.encode(messages.Readers("g", b"short")),
    "offsets": messages.encode(messages.Settle(1, [messages.Settlement(1, "r", [(-1, 1 << 63, 1)], 0, 0, 0, 0)])),
    "a time": messages.encode(messages.Settle(1, [messages.Settlement(1, "r", [(0, 0, 1)], 1 << 60, 0, 0, 0)])),
}


def test_what_a_broker_says_of_its_readers_that_cannot_be_is_refused_and_the_next_is_answered(
    strangers: Strangers, cluster_id: str
) -> None:
    take = messages.Take(1, 1, "g", TOPIC, 0, 1_000, [messages.Wanted("r", 1, 1_000)])
    settle = messages.Settle(1, [messages.Settlement(1, "r", [(0, 5, 1)], 1_000, 0, 0, 0)])
    with strangers.peer("PLAINTEXT") as peer:
        refused = peer.ask(ShareReadsRequest(messages.encode(take)), 0)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert proof(peer, cluster_id, SECRET)[2] == 0
        for name, data in SHARE_READS.items():
            assert peer.ask(ShareReadsRequest(data), 0).error_code == ErrorCode.INVALID_REQUEST, name
        taken = messages.decode_taken(peer.ask(ShareReadsRequest(messages.encode(take)), 0).data)
        assert taken.error == ErrorCode.UNKNOWN_TOPIC_ID
        told = peer.ask(ShareReadsRequest(messages.encode(settle)), 0)
        assert messages.decode_codes(told.data) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        for message in (messages.Store(1, [1, 9]), messages.Leave(1, [(1, "r")], [1]), messages.Watch(2, 0)):
            assert peer.ask(ShareReadsRequest(messages.encode(message)), 0).error_code == 0
    assert "Traceback" not in strangers.log
