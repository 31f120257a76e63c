"""The store in a ZooKeeper server that speaks TLS, and what is said where the two do not agree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.location import open_store
from ottla.metadata.store.zookeeper import ZooKeeperStore
from ottla.metadata.store.zookeeper_security import ZooKeeperSecurity
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from tests.certificates import Authority
from tools.zookeeper import ZooKeeperServers

pytestmark = pytest.mark.slow

REFUSED_WITHIN_MS = 900

Given = Mapping[str, str | None]

NOTHING: Given = {}

PKCS12: Given = {
    "zookeeper.ssl.keystore.location": "ottla.p12",
    "zookeeper.ssl.keystore.type": "PKCS12",
    "zookeeper.ssl.keystore.password": "changeit",
}


class Encrypted:
    """A server that wants certificates, and what a broker is given for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        trusted = self.authority.write(directory / "ca.pem")
        self.servers = ZooKeeperServers(
            directory / "servers",
            tls={
                "ssl.keyStore.location": str(self.authority.identity("zookeeper").write_pem(directory / "server.pem")),
                "ssl.trustStore.location": str(trusted),
            },
        )
        self.authority.identity("ottla").write_pem(directory / "ottla.pem")
        self.authority.identity("ottla").write_pkcs12(directory / "ottla.p12", "changeit")
        self.authority.identity("stranger").write_pem(directory / "stranger.pem")
        Authority("another").write(directory / "other-ca.pem")

    def store(
        self, node: str, given: Given = NOTHING, *, timeout_ms: int = 30_000, where: str | None = None
    ) -> ZooKeeperStore:
        """One with settings over those of a broker that is let in; None for one that is not set."""
        wanted: dict[str, str | None] = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": "ottla.pem",
            "zookeeper.ssl.truststore.location": "ca.pem",
            **given,
        }
        settings = {
            name: str(self.directory / value) if name.endswith(".location") else value
            for name, value in wanted.items()
            if value is not None
        }
        security = ZooKeeperSecurity.from_settings(BrokerSettings(settings).__getitem__)
        location = self.servers.location(node) if where is None else f"zookeeper://{where}/{node}"
        store = open_store(location, Path(), session_timeout_ms=timeout_ms, zookeeper=security)
        assert isinstance(store, ZooKeeperStore)
        return store


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    made = Encrypted(tmp_path_factory.mktemp("zookeeper-tls"))
    with made.servers:
        yield made


async def test_a_store_over_tls_keeps_what_it_is_given_for_its_certificate_alone(encrypted: Encrypted) -> None:
    """Long answers are many records of TLS, of which OpenSSL has decrypted more than was asked for."""
    records = [bytes([number]) * 1_000 for number in range(256)] * 4
    for key_store in ({}, PKCS12):
        store = encrypted.store("mine", {"zookeeper.set.acl": "true", **key_store})
        try:
            await store.open("cluster")
            end = await store.probe()
            seen = (await store.controller()).epoch
            epoch = await store.elect(await store.register_broker(1, b""), seen_epoch=seen)
            end = await store.append(records, controller_epoch=epoch, expected_end_offset=end)
            read = asyncio.ensure_future(store.read(end - len(records)))
            await asyncio.gather(*(store.probe() for _ in range(100)))
            assert list((await read).records) == records
        finally:
            await store.close()
    stranger = encrypted.store("mine", {"zookeeper.ssl.keystore.location": "stranger.pem"})
    with pytest.raises(StoreError, match="ZooKeeper does not let this broker read or write there"):
        await stranger.open("cluster")
    await stranger.close()


async def test_nodes_for_everybody_are_refused_where_they_are_to_be_for_a_certificate(encrypted: Encrypted) -> None:
    store = encrypted.store("everybody")
    await store.open("cluster")
    await store.close()
    closed = encrypted.store("everybody", {"zookeeper.set.acl": "true"})
    with pytest.raises(StoreError, match=r"others than the subject of zookeeper\.ssl\.keystore\.location.*setAcl -R"):
        await closed.open("cluster")
    await closed.close()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"zookeeper.ssl.truststore.location": "other-ca.pem"}, r"not believed.*zookeeper\.ssl\.truststore\.location"),
        ({"zookeeper.ssl.keystore.location": None}, r"or wants one: see zookeeper\.ssl\.keystore\.location"),
    ],
)
async def test_a_handshake_that_fails_is_the_reason_why_nothing_was_reached(
    encrypted: Encrypted, given: Given, reason: str
) -> None:
    store = encrypted.store("none", given, timeout_ms=REFUSED_WITHIN_MS)
    with pytest.raises(StoreError, match=reason):
        await store.open("cluster")
    await store.close()


async def test_a_server_that_is_not_named_by_its_certificate_is_not_believed(encrypted: Encrypted) -> None:
    with ZooKeeperServers(
        encrypted.directory / "elsewhere",
        host="127.0.0.2",
        tls={
            "ssl.keyStore.location": str(encrypted.directory / "server.pem"),
            "ssl.trustStore.location": str(encrypted.directory / "ca.pem"),
        },
    ) as elsewhere:
        where = elsewhere.hosts
        wary = encrypted.store("none", timeout_ms=REFUSED_WITHIN_MS, where=where)
        with pytest.raises(StoreError, match=r"mismatch.*127\.0\.0\.2"):
            await wary.open("cluster")
        await wary.close()
        trusting = encrypted.store("none", {"zookeeper.ssl.endpoint.identification.algorithm": ""}, where=where)
        await trusting.open("cluster")
        await trusting.close()


async def test_the_port_without_tls_is_told_from_the_other(encrypted: Encrypted) -> None:
    store = encrypted.store("none", timeout_ms=REFUSED_WITHIN_MS, where=f"127.0.0.1:{encrypted.servers.ports[0]}")
    with pytest.raises(StoreError, match="secureClientPort"):
        await store.open("cluster")
    await store.close()


async def test_a_key_that_cannot_be_used_is_named_as_it_is_set(encrypted: Encrypted) -> None:
    store = encrypted.store("none", {**PKCS12, "zookeeper.ssl.keystore.password": "wrong"})
    with pytest.raises(InvalidSettingError, match=r"^zookeeper\.ssl\.keystore\.location=.*zookeeper\.ssl\.keystore\."):
        await store.open("cluster")
    await store.close()
