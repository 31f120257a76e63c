"""Listeners that speak TLS, over real sockets, with clients that nobody of us wrote."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import threading
from typing import Any

import pytest

from ottla.model.principal import ANONYMOUS, Principal
from ottla.network import handshakes
from ottla.network.config import NetworkConfig
from ottla.network.handshakes import HANDSHAKE_MS
from ottla.network.receive_buffer import KIB
from ottla.security.tls_config import TLS_VERSIONS, Store, TlsConfig
from ottla.security.tls_context import client_context, server_context
from tests.certificates import DAY, Authority, Identity
from tests.unit.network.key_updates import AskingClient, openssl
from tests.unit.network.peers import Collect, Echo, OpenListener, framed, opened, turns, until

MIB = 1024 * KIB
AUTHORITY = Authority()
BROKER = AUTHORITY.identity("broker")
TRUSTED = Store(type="PEM", certificates=AUTHORITY.certificate_pem)
NOTHING = Store(type="PEM")


def key_of(identity: Identity) -> Store:
    return Store(type="PEM", key=identity.key_pem(), certificates=identity.certificate_pem)


def common_name(certificate: Any) -> str:
    return dict(field[0] for field in certificate["subject"])["commonName"]


class Acceptor:
    """A `TlsAcceptor` of one context."""

    def __init__(self, client_auth: str = "none", identity: Identity = BROKER) -> None:
        self.made = server_context(TlsConfig(key_of(identity), TRUSTED, client_auth=client_auth))

    def context(self) -> ssl.SSLContext:
        return self.made

    def principal_of(self, session: ssl.SSLObject) -> Principal:
        shown = session.getpeercert()
        if not shown:
            return ANONYMOUS
        name = common_name(shown)
        if name == "nobody":
            raise ValueError("no rule is for CN=nobody")
        return Principal("User", name)


def client(
    identity: Identity | None = None, trusted: Store = TRUSTED, versions: tuple[str, ...] = TLS_VERSIONS
) -> ssl.SSLContext:
    return client_context(TlsConfig(NOTHING if identity is None else key_of(identity), trusted, versions=versions))


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, server: OpenListener, context: ssl.SSLContext) -> "Peer":
        address = server.listener.address
        made = await asyncio.open_connection(*address, ssl=context, server_hostname="localhost", limit=64 * MIB)
        return cls(*made)

    async def receive_frame(self) -> bytes:
        async with asyncio.timeout(60):
            return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def ends(self) -> bool:
        async with asyncio.timeout(60):
            with contextlib.suppress(OSError):
                await self.reader.read()
            return True


@pytest.mark.parametrize("versions", [("TLSv1.2",), ("TLSv1.3",)])
async def test_requests_are_answered_in_order_whatever_their_size(versions):
    async with opened(tls=Acceptor()) as server:
        peer = await Peer.connect(server, client(versions=versions))
        payloads = [os.urandom(size) for size in (1, 5 * MIB, 16 * KIB - 4, 16 * KIB, 3, 40_000)]
        for payload in payloads:
            peer.writer.write(framed(payload))
        assert [await peer.receive_frame() for _ in payloads] == payloads
        await turns()
        assert server.memory.pool.in_use_bytes == 0
        peer.writer.close()


async def test_a_client_that_reads_slowly_gets_every_byte_of_its_answers():
    payloads = [os.urandom(size) for size in (100, 200_001, 16 * KIB)]
    config = NetworkConfig(socket_send_buffer_bytes=16 * KIB)
    async with opened(tls=Acceptor(), config=config) as server:
        sock = socket.create_connection(server.listener.address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
        loop = asyncio.get_running_loop()
        secured = await loop.run_in_executor(None, lambda: client().wrap_socket(sock, server_hostname="localhost"))

        def exchange(payload: bytes) -> bytes:
            secured.sendall(framed(payload))
            received = bytearray()
            while len(received) < 4 + len(payload):
                received += secured.recv(1_000)
            return bytes(received)

        secured.settimeout(60)
        for payload in payloads:
            assert await loop.run_in_executor(None, exchange, payload) == framed(payload)
        secured.close()


async def test_a_client_is_who_its_certificate_says():
    async with opened(Collect, tls=Acceptor("requested")) as server:
        named = await Peer.connect(server, client(AUTHORITY.identity("alice")))
        unnamed = await Peer.connect(server, client())
        await until(lambda: len(server.listener.connections) == 2)
        assert {each.principal for each in server.listener.connections} == {Principal("User", "alice"), ANONYMOUS}
        named.writer.close()
        unnamed.writer.close()


async def test_a_certificate_with_1000_names_is_of_its_subject_alone():
    names = tuple(f"{'x' * 40}{number}.admin.example" for number in range(1_000))
    async with opened(Collect, tls=Acceptor("required")) as server:
        peer = await Peer.connect(server, client(AUTHORITY.identity("mallory", ("admin", *names))))
        await until(lambda: len(server.listener.connections) == 1)
        assert {each.principal for each in server.listener.connections} == {Principal("User", "mallory")}
        peer.writer.close()


OTHER = Authority("other")


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (client, "the client shows no certificate, and ssl.client.auth is required"),
        (lambda: client(OTHER.identity("mallory")), "the certificate of the client is not believed"),
        (lambda: client(AUTHORITY.identity("late", lasts=-DAY)), "certificate has expired"),
        (lambda: client(AUTHORITY.identity("nobody")), "no rule is for CN=nobody"),
    ],
)
async def test_a_client_whose_certificate_is_not_good_is_turned_away_and_that_is_said(caplog, context, said):
    async with opened(Collect, tls=Acceptor("required")) as server:
        try:
            peer = await Peer.connect(server, context())
            assert await peer.ends()
        except OSError:
            pass
        await until(lambda: said in caplog.text)
        assert not server.listener.connections
        assert f"to {server.listener.address}" in caplog.text


async def test_a_client_that_does_not_trust_the_broker_is_named_in_the_log(caplog):
    async with opened(Collect, tls=Acceptor()) as server:
        context = client(trusted=Store(type="PEM", certificates=OTHER.certificate_pem))

        def connect() -> None:  # asyncio's own client does not say why it hangs up
            with socket.create_connection(server.listener.address) as sock:
                context.wrap_socket(sock, server_hostname="localhost")

        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.get_running_loop().run_in_executor(None, connect)
        await until(lambda: "the client does not trust the authority of this broker's certificate" in caplog.text)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\x00\x00\x00\x1f\x00\x12\x00\x03", "the peer speaks plaintext on a TLS listener"),
        (b"GET / HTTP/1.1\r\n\r\n", "the peer speaks HTTP without TLS on a TLS listener"),
        (b"\x16\x03\x01\x00\x04junk", "the handshake failed"),
    ],
)
async def test_what_is_no_tls_is_said_with_the_address_it_came_from(caplog, sent, said):
    async with opened(Collect, tls=Acceptor()) as server:
        reader, writer = await asyncio.open_connection(*server.listener.address)
        writer.write(sent)
        await until(lambda: said in caplog.text)
        host, port = writer.get_extra_info("sockname")
        assert f"{host}:{port}" in caplog.text
        assert await Peer(reader, writer).ends()
        writer.close()


async def test_who_only_looks_whether_the_port_is_open_is_not_worth_a_line(caplog):
    async with opened(Collect, tls=Acceptor()) as server:
        _, writer = await asyncio.open_connection(*server.listener.address)
        await until(lambda: under_way(server) == 1)
        writer.close()
        await until(lambda: under_way(server) == 0)
        assert not caplog.records


async def test_half_handshakes_end_in_time_and_let_others_in_meanwhile(caplog):
    async with opened(tls=Acceptor()) as server:
        half = [await asyncio.open_connection(*server.listener.address) for _ in range(100)]
        for _, writer in half:
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: under_way(server) == 100)
        peer = await Peer.connect(server, client())
        peer.writer.write(framed(b"hello"))
        assert await peer.receive_frame() == b"hello"
        assert under_way(server) == 100
        server.timer.advance(HANDSHAKE_MS)
        assert under_way(server) == 0
        assert all([await Peer(*each).ends() for each in half])
        assert f"its TLS handshake was not over after {HANDSHAKE_MS} ms" in caplog.text
        peer.writer.close()


async def test_of_too_many_half_handshakes_the_first_makes_room(caplog):
    async with opened(tls=Acceptor()) as server:
        handshakes = server.listener._handshakes
        assert handshakes is not None
        handshakes._handshakes_max = 3
        first = await asyncio.open_connection(*server.listener.address)
        others = [await asyncio.open_connection(*server.listener.address) for _ in range(3)]
        assert await Peer(*first).ends()
        assert under_way(server) == 3
        assert "more than 3 handshakes are under way" in caplog.text
        for _, writer in others:
            writer.close()


class HeldSteps:
    """Steps of handshakes that stop in their thread until `go` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.count = 0
        step = handshakes._step

        def held(handshake: Any) -> bool | str:
            self.count += 1
            assert self.go.wait(60)
            return step(handshake)

        monkeypatch.setattr(handshakes, "_step", held)


async def test_who_is_late_while_its_step_is_done_is_closed_when_that_is_over(caplog, monkeypatch):
    steps = HeldSteps(monkeypatch)
    async with opened(Collect, tls=Acceptor()) as server:
        reader, writer = await asyncio.open_connection(*server.listener.address)
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: steps.count == 1)
        made_by = server.listener._handshakes
        assert made_by is not None
        made_by._handshakes_max = 2
        others = [await asyncio.open_connection(*server.listener.address) for _ in range(2)]
        assert await Peer(*others[0]).ends(), "the first that no thread has makes room"
        server.timer.advance(HANDSHAKE_MS)
        assert (under_way(server), "was not over after" in caplog.text) == (1, True)
        steps.go.set()
        await until(lambda: under_way(server) == 0)
        assert await Peer(reader, writer).ends()
        for _, each in others:
            each.close()


async def test_a_listener_closes_when_the_thread_has_given_the_sockets_back(monkeypatch):
    steps = HeldSteps(monkeypatch)
    async with opened(Collect, tls=Acceptor()) as server:
        reader, writer = await asyncio.open_connection(*server.listener.address)
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: steps.count == 1)
        closing = asyncio.ensure_future(server.listener.close())
        await turns()
        assert (closing.done(), under_way(server)) == (False, 1)
        steps.go.set()
        await closing
        assert under_way(server) == 0
        assert await Peer(reader, writer).ends()


async def test_the_next_handshake_uses_the_context_that_holds_then():
    acceptor = Acceptor()
    async with opened(tls=acceptor) as server:
        before = await Peer.connect(server, client())
        acceptor.made = server_context(TlsConfig(key_of(AUTHORITY.identity("new")), TRUSTED))
        after = await Peer.connect(server, client())
        names = [common_name(peer.writer.get_extra_info("peercert")) for peer in (before, after)]
        assert names == ["broker", "new"]
        before.writer.write(framed(b"still here"))
        assert await before.receive_frame() == b"still here"
        before.writer.close()
        after.writer.close()


async def test_a_client_that_hangs_up_in_the_middle_of_a_record_ends_its_connection_only(caplog):
    caplog.set_level(logging.WARNING)
    async with opened(Echo, tls=Acceptor()) as server:
        peer = await Peer.connect(server, client())
        peer.writer.write(framed(b"x"))
        assert await peer.receive_frame() == b"x"
        raw = peer.writer.get_extra_info("socket").dup()
        os.write(raw.fileno(), b"\x17\x03\x03\x40\x00half a record")
        raw.shutdown(socket.SHUT_WR)
        await until(lambda: not server.listener.connections)
        raw.close()
        peer.writer.close()


def under_way(server: OpenListener) -> int:
    assert server.listener._handshakes is not None
    return len(server.listener._handshakes)


async def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered():
    async with opened(tls=Acceptor()) as server:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client().wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection(*server.listener.address)
        async with asyncio.timeout(60):
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(64 * KIB))
            session.write(framed(b"at once"))
            writer.write(outgoing.read())  # with the last message of the handshake
            received = b""
            while len(received) < len(framed(b"at once")):
                incoming.write(await reader.read(64 * KIB))
                with contextlib.suppress(ssl.SSLWantReadError):
                    while True:
                        received += session.read(64 * KIB)
        assert received == framed(b"at once")
        writer.close()


OPENSSL = openssl()
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="Python has its OpenSSL inside")


@needs_openssl
@pytest.mark.parametrize("first", [1, 100_000])
async def test_who_asks_for_other_keys_again_and_again_is_gone(caplog, first):
    async with opened(tls=Acceptor()) as server:

        def flood() -> bool:
            client = AskingClient(OPENSSL, server.listener.address)
            assert client.says(framed(bytes(first))) == framed(bytes(first))
            is_gone = any(not client.asks() for _ in range(200_000))
            client.close()
            return is_gone

        assert await asyncio.get_running_loop().run_in_executor(None, flood)
        await until(lambda: not server.listener.connections)
        assert "it asks for other keys again and again" in caplog.text


@needs_openssl
async def test_who_asks_for_other_keys_now_and_then_gets_its_answers():
    async with opened(tls=Acceptor()) as server:

        def exchange() -> int:
            client = AskingClient(OPENSSL, server.listener.address)
            for size in (10, 50_000, 7, 3 * MIB):
                for _ in range(5):
                    assert client.asks()
                payload = framed(os.urandom(size))
                assert client.says(payload) == payload
            client.close()
            return 20

        assert await asyncio.get_running_loop().run_in_executor(None, exchange) == 20
