"""Who gets in, how the listener closes, and what is said when it cannot open."""

import asyncio
import errno
import socket
from functools import partial

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.listening_socket import ListenError
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import Collect, Echo, Peer, framed, opened, turns, until
from tools.ports import free_ports


def listener_at(host: str, port: int = 0, **options: object) -> Listener:
    timer = ManualTimer()
    protocol = WireProtocol("test", Echo, LengthPrefixReader)
    return Listener(host, port, protocol, config=NetworkConfig(), clock=timer.clock, timer=timer, **options)  # type: ignore[arg-type]


async def test_connections_above_the_limit_are_closed_as_they_come(caplog: pytest.LogCaptureFixture):
    async with opened(config=NetworkConfig(max_connections=2)) as server:
        first, _second, third = [await server.peer() for _ in range(3)]
        assert await third.receive_end() == b""
        assert "max.connections" in caplog.text
        assert server.listener.metrics.connections_refused == 1
        first.close()
        await until(lambda: server.listener.metrics.connections_open == 1)
        fourth = await server.peer()
        await fourth.send(framed(b"in"))
        assert await fourth.receive_frame() == b"in"


async def test_one_address_may_not_take_all_connections(caplog: pytest.LogCaptureFixture):
    async with opened(config=NetworkConfig(max_connections_per_ip=1)) as server:
        await server.peer()
        refused = await server.peer()
        assert await refused.receive_end() == b""
        assert "max.connections.per.ip" in caplog.text
        other = socket.socket()
        other.setblocking(False)
        other.bind(("127.0.0.2", 0))
        await asyncio.get_running_loop().sock_connect(other, tuple(server.listener.address))
        await until(lambda: server.listener.metrics.connections_open == 2)
        other.close()


async def test_listeners_can_share_one_limit():
    quotas = ConnectionQuotas(1, 10)
    first, second = listener_at("127.0.0.1", quotas=quotas), listener_at("127.0.0.1", quotas=quotas)
    await first.start()
    await second.start()
    try:
        held = socket.create_connection((first.address.host, first.address.port))
        await until(lambda: first.metrics.connections_open)
        refused = socket.create_connection((second.address.host, second.address.port))
        await until(lambda: second.metrics.connections_refused)
        held.close()
        refused.close()
    finally:
        await first.close()
        await second.close()
    assert quotas.open_count == 0


async def test_without_file_descriptors_the_loop_does_not_spin_and_clients_get_in_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async with opened() as server:
        attempts = 0
        real_accept = socket.socket.accept

        def accept(self: socket.socket) -> tuple[socket.socket, object]:
            nonlocal attempts
            attempts += 1
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(socket.socket, "accept", accept)
        client = socket.create_connection((server.listener.address.host, server.listener.address.port))
        await until(lambda: attempts)
        await turns(100)
        assert attempts == 1
        assert "ulimit -n" in caplog.text
        monkeypatch.setattr(socket.socket, "accept", real_accept)
        server.timer.advance(200)
        await until(lambda: server.listener.metrics.connections_open == 1)
        client.close()


async def test_a_taken_port_is_an_error_that_names_the_address_and_what_to_do():
    async with opened() as server:
        host, port = server.listener.address
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}.*another program.*another port") as caught:
            await listener_at(host, port).start()
        assert caught.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize(
    ("host", "said"),
    [("203.0.113.7", "does not have that address"), ("no.such.host.invalid", "is not the name of an address")],
)
async def test_an_address_that_is_not_ours_is_an_error_that_says_so(host: str, said: str):
    with pytest.raises(ListenError, match=said):
        await listener_at(host).start()


async def test_a_name_with_two_addresses_is_listened_at_on_both_with_one_port():
    listener = listener_at("localhost")
    await listener.start()
    try:
        ports = {sock.getsockname()[1] for sock in listener._sockets}
        assert len(ports) == 1
        for sock in listener._sockets:
            with socket.create_connection(sock.getsockname()[:2]):
                await until(
                    partial(
                        lambda before: listener.metrics.connections_accepted > before,
                        listener.metrics.connections_accepted,
                    )
                )
    finally:
        await listener.close()


async def test_an_empty_host_is_every_interface_and_an_ipv4_peer_has_its_ipv4_address():
    listener = listener_at("")
    await listener.start()
    try:
        client = socket.create_connection(("127.0.0.1", listener.address.port))
        await until(lambda: listener.connections)
        (connection,) = listener.connections
        assert connection.peer.host == "127.0.0.1"
        assert connection.local.host == "127.0.0.1"
        client.close()
    finally:
        await listener.close()


# Closing.


async def test_closing_lets_answers_leave_that_are_given_in_time():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b"))
        await until(lambda: len(handler.requests) == 2)
        closing = asyncio.ensure_future(server.listener.close(drain_ms=5_000))
        await turns()
        await peer.send(framed(b"too late"))
        handler.answer(1)
        await turns()
        assert not closing.done()
        handler.answer(0)
        assert await peer.receive(10) == framed(b"a") + framed(b"b")
        assert await peer.receive_end() == b""
        await closing
        assert len(handler.requests) == 2
        assert handler.closed == 1
        assert len(server.timer) == 0


async def test_requests_that_were_received_but_not_begun_are_not_begun_by_closing():
    async with opened(Collect, NetworkConfig(in_flight_requests_max=2)) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b") + framed(b"c"))
        await until(lambda: len(handler.requests) == 2)
        closing = asyncio.ensure_future(server.listener.close(drain_ms=5_000))
        await turns()
        handler.answer(0)
        handler.answer(1)
        assert await peer.receive_end() == framed(b"a") + framed(b"b")
        await closing
        assert len(handler.requests) == 2
        assert server.memory.pool.in_use_bytes == 0


async def test_closing_does_not_wait_longer_than_it_was_told():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"never answered"))
        await until(lambda: handler.requests)
        closing = asyncio.ensure_future(server.listener.close(drain_ms=3_000))
        await turns()
        server.timer.advance(2_999)
        await turns()
        assert not closing.done()
        server.timer.advance(1)
        await closing
        assert await peer.receive_end() == b""
        assert handler.closed == 1


async def test_idle_connections_do_not_delay_closing():
    async with opened() as server:
        peers = [await server.peer() for _ in range(5)]
        await asyncio.wait_for(server.listener.close(drain_ms=120_000), 60)
        for peer in peers:
            assert await peer.receive_end() == b""


async def test_whoever_comes_before_the_start_is_refused_instead_of_waiting():
    listener = listener_at("127.0.0.1")
    await listener.bind()
    address = (listener.address.host, listener.address.port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    await listener.start()
    socket.create_connection(address).close()
    await listener.close()


async def test_an_address_that_another_took_before_the_start_is_named():
    listener = listener_at("127.0.0.1")
    await listener.bind()
    port = listener.address.port
    with socket.create_server(("127.0.0.1", port)):  # which may share an address that nobody listens at
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}.*another program"):
            await listener.start()
        await listener.close()


async def test_after_closing_the_port_is_free_again():
    (port,) = free_ports(1)  # not one that the kernel gives to the next who asks for any
    listener = listener_at("127.0.0.1", port)
    await listener.start()
    await listener.close()
    again = listener_at("127.0.0.1", port)
    await again.start()
    await again.close()


async def test_a_handler_that_cannot_be_made_costs_only_its_connection(caplog: pytest.LogCaptureFixture):
    def failing(connection: object) -> Echo:
        raise RuntimeError("no handler today")

    async with opened(failing) as server:
        peer = await server.peer()
        assert await peer.receive_end() == b""
        assert "no handler today" in caplog.text
        assert server.listener.metrics.connections_open == 0


async def test_an_address_that_comes_too_often_waits_unheard_and_is_closed(caplog: pytest.LogCaptureFixture):
    async with opened() as server:
        quotas = server.listener._quotas
        quotas.creation_rate_of = {"127.0.0.1": 0.1}.get
        served = await server.peer()
        early = await server.peer()
        await early.send(framed(b"too early"))
        await served.send(framed(b"in"))
        assert await served.receive_frame() == b"in"
        await turns()
        assert (server.listener.metrics.requests, quotas.open_count) == (1, 2)
        assert "connection_creation_rate" in caplog.text
        server.timer.advance(1_000)
        assert await early.receive_end() == b""
        assert quotas.open_count == 1
        quotas.creation_rate_of = None
        again = await server.peer()
        await again.send(framed(b"in"))
        assert await again.receive_frame() == b"in"


async def test_who_waits_to_be_closed_is_closed_with_the_listener():
    quotas = ConnectionQuotas(10, 10)
    quotas.creation_rate_of = {"127.0.0.1": 0.01}.get
    listener = listener_at("127.0.0.1", quotas=quotas)
    await listener.start()
    held = [socket.create_connection((listener.address.host, listener.address.port)) for _ in range(2)]
    await until(lambda: quotas.open_count == 2)
    await listener.close()
    assert quotas.open_count == 0
    for sock in held:
        sock.close()


async def test_connections_beyond_the_rate_of_the_broker_are_accepted_when_it_is_their_turn():
    async with opened() as server:
        server.listener._quotas.creation_rate_max = 1
        peers = [await server.peer() for _ in range(11)]  # as many as the windows hold, and one that has the next wait
        waiting = await Peer.connect(server.listener)
        await waiting.send(framed(b"in"))
        await turns()
        assert server.listener.metrics.connections_accepted == len(peers)
        server.timer.advance(1_000)
        assert await waiting.receive_frame() == b"in"
        waiting.close()
