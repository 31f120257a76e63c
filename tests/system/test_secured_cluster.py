"""Three brokers that log in to each other on the listener of their clients, where clients log in as well."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ottla.client.admin.acls import create_acls, describe_acls
from ottla.client.admin.scram_users import describe_scram_users, set_scram_credential
from ottla.client.errors import BrokerError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.model.acl import AclBinding
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tools.ports import adjacent_free_ports

pytestmark = pytest.mark.slow

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

SETTINGS = ("authorizer.class.name=StandardAuthorizer", "super.users=User:admin", "delegation.token.secret.key=the key")


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[list[str]]:
    """Where the brokers listen."""
    port = adjacent_free_ports(3)[0]
    command = [sys.executable, "-m", "ottla.cli", "serve", "--brokers", "3", "--data", str(tmp_path / "data")]
    for setting in (f"listeners=SASL_PLAINTEXT://127.0.0.1:{port}", *SETTINGS):
        command += ["--set", setting]
    environment = {**os.environ, "OTTLA_SCRAM_USERS": "SCRAM-SHA-512=[name=admin,password=root]"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stdout is not None
        yield _addresses(process.stdout)
    finally:
        process.terminate()
        process.wait()


async def test_users_and_acls_are_the_same_on_all_brokers_whichever_was_asked(addresses: list[str]) -> None:
    clusters = [Cluster(_options(each, "admin", "root"), AsyncioIo()) for each in addresses]
    for number, cluster in enumerate(clusters):
        await cluster.connect()
        await create_acls(cluster, [AclBinding(2, f"t{number}", 3, "User:anna", "*", 3, 3)])
        await set_scram_credential(cluster, f"user{number}", "SCRAM-SHA-256", "pencil", 4_096)
    async with asyncio.timeout(60):
        for cluster in clusters:  # those that were not asked hear of it a moment later
            while {each.resource_name for each in await describe_acls(cluster)} != {"t0", "t1", "t2"}:
                continue
            while set(await describe_scram_users(cluster)) != {"admin", "user0", "user1", "user2"}:
                continue
        tokens = [await _token(cluster) for cluster in clusters]
        for token in tokens:
            for address in addresses:
                await _log_in_by(token, address)
        for cluster in clusters:
            cluster.close()


async def _token(cluster: Cluster) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest("User", "bert")
    token = await cluster.ask_any(request, CreateDelegationTokenResponse)
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "bert", "admin")
    return token


async def _log_in_by(token: CreateDelegationTokenResponse, address: str) -> None:
    """As soon as the broker has heard of the token."""
    secret = base64.b64encode(token.hmac).decode()
    line = f'{SCRAM} required username="{token.token_id}" password="{secret}" tokenauth="true";'
    options = ClientOptions.of(address, security_protocol="SASL_PLAINTEXT", sasl_jaas_config=line)
    while True:
        try:
            connection = await AsyncioIo().connect(options.bootstrap[0], options)
        except BrokerError as error:
            if error.code != ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            continue
        connection.close()
        return


def _addresses(lines: Iterable[str]) -> list[str]:
    """Where the brokers listen, from the line that says that all are ready."""
    for line in lines:
        if line.startswith("a cluster of 3 brokers is ready: kafka "):
            return line.split("kafka ")[1].split(", in ")[0].split(",")
    raise AssertionError("the brokers did not start")


def _options(address: str, user: str, password: str) -> ClientOptions:
    return ClientOptions.of(address, security_protocol="SASL_PLAINTEXT", sasl_username=user, sasl_password=password)
