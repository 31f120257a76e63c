"""NSQ clients that need AUTH or TLS at a running broker."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.system.nsq_auth_server import NsqAuthServer, auth_server
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, address, http_address
from tests.unit.gateways.nsq.test_layers import self_signed


@pytest.fixture(scope="module")
def server() -> Iterator[NsqAuthServer]:
    with auth_server() as running:
        yield running


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, server: NsqAuthServer) -> Iterator[BrokerProcess]:
    """A broker with an authorizer, AUTH, and TLS that is required."""
    directory = tmp_path_factory.mktemp("nsq-auth")
    settings = {
        **LISTENERS,
        "nsq.https.listener": "127.0.0.1:0",
        "nsq.tls.cert": str(self_signed(directory)),
        "nsq.tls.required": "true",
        "nsq.auth.http.addresses": f"127.0.0.1:1,http://{server.address}/auth",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:worker",
    }
    with BrokerProcess(directory / "data", settings) as process:
        yield process


def https_request(broker: BrokerProcess, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Ask the HTTP API over TLS."""
    match = re.search(r"nsq-https (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(match[1], int(match[2]), timeout=60, context=context)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def with_tls(broker: BrokerProcess) -> NsqClient:
    """A client that has asked for TLS."""
    client = NsqClient(address(broker))
    assert client.identify(tls_v1=True)["auth_required"] is True
    client.begin_tls()
    return client


def authenticated(broker: BrokerProcess, secret: bytes) -> tuple[NsqClient, Any]:
    """A client that has said AUTH, and what it was answered."""
    client = with_tls(broker)
    client.send(b"AUTH", secret)
    return client, json.loads(client.response())


def test_a_client_is_the_user_that_the_auth_server_names(secured: BrokerProcess, server: NsqAuthServer) -> None:
    client, told = authenticated(secured, b"all")
    assert told == {"identity": "worker", "identity_url": "http://auth.example/worker", "permission_count": 1}
    assert {"common_name": "", "remote_ip": "127.0.0.1", "secret": "all", "tls": "true"} in server.asked
    client.publish("clicks", b"m0")
    reader, _ = authenticated(secured, b"all")
    assert reader.subscribe("clicks", "archive", 1).message().body == b"m0"
    other, _ = authenticated(secured, b"other")
    other.send(b"PUB clicks", b"refused")
    assert other.error().startswith(b"E_UNAUTHORIZED PUB failed"), (
        "the auth server allows it, the broker's rules do not"
    )


def test_without_auth_a_client_may_nothing(secured: BrokerProcess) -> None:
    client = with_tls(secured)
    client.send(b"PUB clicks", b"x")
    assert client.error() == b"E_AUTH_FIRST AUTH required before PUB"
    with pytest.raises((EOFError, ConnectionError)):
        client.frame()


def test_without_tls_a_client_may_nothing(secured: BrokerProcess) -> None:
    client = NsqClient(address(secured))
    client.send(b"AUTH", b"all")
    assert client.error() == b"E_INVALID cannot AUTH in current state (TLS required)"


def test_the_http_api_is_served_over_tls_alone(secured: BrokerProcess) -> None:
    connection = http.client.HTTPConnection(*http_address(secured), timeout=60)
    connection.request("GET", "/ping")
    refused = connection.getresponse()
    told = json.loads(refused.read())
    connection.close()
    assert (refused.status, told["message"]) == (403, "TLS_REQUIRED")
    assert f":{told['https_port']}," in secured.ready_line
    assert https_request(secured, "GET", "/ping") == (200, b"OK")
    assert https_request(secured, "POST", "/pub?topic=clicks", b"x") == (403, b'{"message":"UNAUTHORIZED"}')


def test_statistics_tell_who_a_client_is(tmp_path: Path, server: NsqAuthServer) -> None:
    with BrokerProcess(tmp_path / "data", {**LISTENERS, "nsq.auth.http.addresses": server.address}) as broker:
        client = NsqClient(address(broker))
        client.send(b"AUTH", b"all")
        client.response()
        client.publish("clicks", b"x")
        connection = http.client.HTTPConnection(*http_address(broker), timeout=60)
        connection.request("GET", "/stats?format=json")
        [producer] = json.loads(connection.getresponse().read())["producers"]
        connection.close()
    assert [producer[name] for name in ("authed", "auth_identity", "auth_identity_url")] == [
        True,
        "worker",
        "http://auth.example/worker",
    ]
