from pathlib import Path

import pytest

from ottla.client.admin import Admin
from ottla.client.asyncio_io import AsyncioIo
from ottla.client.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.network.listening_socket import ListenError
from tests.unit.server.whole_broker import broker

NAMED = {
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
}


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
