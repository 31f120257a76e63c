from pathlib import Path

import pytest

from ottla.client.admin.admin import Admin
from ottla.client.errors import BrokerUnreachableError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.network.listening_socket import ListenError
from tests.unit.server.whole_broker import alter, broker, client, client_at

NAMED = {
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
}
ALSO = ",PLAINTEXT:PLAINTEXT"


async def told_at(address: object) -> tuple[str, int]:
    """What a client is told that comes to an address."""
    cluster = Cluster(ClientOptions.of(str(address), client_id="test"), AsyncioIo())
    try:
        await cluster.connect()
        [node] = (await Admin(cluster).describe_cluster()).brokers.values()
        return node.address.host, node.address.port
    finally:
        cluster.close()


async def test_every_listener_is_served_and_tells_its_clients_where_to_come(tmp_path: Path) -> None:
    settings = {**NAMED, "advertised.listeners": "EXTERNAL://kafka.example:9094"}
    async with broker(tmp_path, settings) as server:
        assert list(server.addresses) == ["INTERNAL", "EXTERNAL"]
        assert await told_at(server.addresses["INTERNAL"]) == server.addresses["INTERNAL"]
        assert await told_at(server.addresses["EXTERNAL"]) == ("kafka.example", 9094)


async def test_an_address_that_is_taken_stops_the_start_whichever_listener_wants_it(tmp_path: Path) -> None:
    async with broker(tmp_path / "a", {}) as first:
        settings = {**NAMED, "listeners": f"INTERNAL://127.0.0.1:0,EXTERNAL://{first.address}"}
        with pytest.raises(ListenError, match="another program listens there"):
            async with broker(tmp_path / "b", settings):
                pass


async def test_listeners_come_and_go_while_the_broker_runs_and_are_there_after_its_restart(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        was = server.address
        await alter(cluster, "1", "listener.security.protocol.map", NAMED["listener.security.protocol.map"] + ALSO)
        await alter(cluster, "1", "listeners", "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0")
        assert server.addresses["PLAINTEXT"] == was
        internal = server.addresses["INTERNAL"]
        assert await told_at(internal) == internal
        async with client_at(internal) as own:  # it is answered though the listener it came by goes
            await alter(own, "1", "listeners", "PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0")
        assert list(server.addresses) == ["PLAINTEXT", "EXTERNAL"]
        with pytest.raises(BrokerUnreachableError):
            await told_at(internal)
    async with broker(tmp_path, {}) as server:
        assert list(server.addresses) == ["PLAINTEXT", "EXTERNAL"]
        assert await told_at(server.addresses["EXTERNAL"]) == server.addresses["EXTERNAL"]


async def test_nobody_is_locked_out_what_a_broker_was_started_with_stays_open(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        await alter(cluster, "1", "listener.security.protocol.map", NAMED["listener.security.protocol.map"] + ALSO)
        for without in ("INTERNAL://127.0.0.1:0", "PLAINTEXT://10.255.255.1:9092,INTERNAL://127.0.0.1:0"):
            with pytest.raises(
                AssertionError, match=r"leaves out PLAINTEXT://127\.0\.0\.1:0, with which the broker was"
            ):
                await alter(cluster, "1", "listeners", without)
        await alter(cluster, "1", "listeners", "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0")
        await alter(cluster, "1", "max.connections", "9")
    async with broker(tmp_path, {"listeners": "PLAINTEXT://localhost:0"}) as server:
        assert list(server.addresses) == ["PLAINTEXT", "INTERNAL"]
    elsewhere = {"listeners": "MAIN://127.0.0.1:0", "listener.security.protocol.map": "MAIN:PLAINTEXT"}
    async with broker(tmp_path, elsewhere) as server:
        assert list(server.addresses) == ["MAIN"]
        assert server.services.broker.configs.broker_settings().integer("max.connections") == 9


async def test_an_address_that_is_taken_leaves_the_other_listeners_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(tmp_path / "a", {}) as other, broker(tmp_path / "b", {}) as server, client(server) as cluster:
        was = server.addresses
        await alter(cluster, "1", "listener.security.protocol.map", NAMED["listener.security.protocol.map"] + ALSO)
        await alter(cluster, "1", "listeners", f"PLAINTEXT://127.0.0.1:0,INTERNAL://{other.address}")
        assert server.addresses == was
        assert await told_at(server.address) == server.address
        assert f"could not open the listener INTERNAL://{other.address}: cannot listen" in caplog.text


async def test_listeners_are_set_on_one_broker_never_on_all_and_only_such_as_can_be(tmp_path: Path) -> None:
    async with broker(tmp_path, {}) as server, client(server) as cluster:
        with pytest.raises(AssertionError, match="Cannot update listeners at default cluster level"):
            await alter(cluster, "", "listeners", "PLAINTEXT://127.0.0.1:0")
        with pytest.raises(AssertionError, match="add INTERNAL:PLAINTEXT to listener"):
            await alter(cluster, "1", "listeners", "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0")
        assert list(server.addresses) == ["PLAINTEXT"]
