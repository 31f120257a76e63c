"""Another transport than a socket: TLS, by the standard library, over real sockets."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection import ResponseSlot
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from ottla.network.response_queue import Buffer
from ottla.runtime.file_slice import FileSlice
from tests.unit.network.peers import Collect, Echo, OpenListener, framed, opened, turns, until

MIB = 1024 * KIB
RECORD = 16 * KIB


def context(side: int) -> ssl.SSLContext:
    """Encrypted, with nobody asked who they are: a test needs no certificate."""
    made = ssl.SSLContext(side)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers("aNULL:@SECLEVEL=0")
    return made


class TlsTransport:
    """What a server would put between a connection and its socket: records of at most 16 KiB, sent whole."""

    sends_files = False
    is_plain = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context(ssl.PROTOCOL_TLS_SERVER).wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = b""
        self.is_ready = False

    @property
    def has_input(self) -> bool:
        return bool(self._incoming.pending or (self.is_ready and self._tls.pending()))

    @property
    def has_output(self) -> bool:
        return bool(self._unsent or self._outgoing.pending)

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        if not self.has_input:
            data = self._socket.recv(64 * KIB)
            self._incoming.write(data) if data else self._incoming.write_eof()
        try:
            if not self.is_ready:
                self._tls.do_handshake()
                self.is_ready = True
            count = self._tls.read(len(buffer), buffer)
            assert isinstance(count, int)
            return count
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        finally:
            self.flush()

    def send(self, data: Buffer, flags: int = 0) -> int:
        self.flush()
        if self.has_output or not self.is_ready:
            raise BlockingIOError
        sent = self._tls.write(memoryview(data)[:RECORD])
        self.flush()
        return sent

    def sendmsg(self, buffers: Iterable[Buffer], ancdata: tuple[()] = (), flags: int = 0) -> int:
        return self.send(b"".join(buffers)[:RECORD])

    def flush(self) -> None:
        self._unsent += self._outgoing.read()
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        self._socket.close()


class LateTransport(TlsTransport):
    """Takes an answer before the socket does, which is asked for room first."""

    def send(self, data: Buffer, flags: int = 0) -> int:
        if self.has_output or not self.is_ready:
            raise BlockingIOError
        return self._tls.write(memoryview(data)[:RECORD])


class TlsPeer:
    """A client that speaks TLS by asyncio's own implementation."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, server: OpenListener) -> "TlsPeer":
        made = context(ssl.PROTOCOL_TLS_CLIENT)
        return cls(*await asyncio.open_connection(*server.listener.address, ssl=made, limit=64 * MIB))

    async def receive_frame(self) -> bytes:
        async with asyncio.timeout(60):
            return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))


async def test_pipelined_requests_are_answered_in_order():
    async with opened(transport=TlsTransport) as server:
        peer = await TlsPeer.connect(server)
        peer.writer.write(b"".join(framed(b"request %d" % number) for number in range(5_000)))
        assert [await peer.receive_frame() for _ in range(5_000)] == [b"request %d" % n for n in range(5_000)]
        peer.writer.close()


async def test_a_request_of_megabytes_and_its_answer_arrive_whole():
    payload = os.urandom(5 * MIB)
    async with opened(transport=TlsTransport) as server:
        peer = await TlsPeer.connect(server)
        peer.writer.write(framed(payload))
        assert await peer.receive_frame() == payload
        await turns()
        assert server.memory.pool.in_use_bytes == 0
        peer.writer.close()


@pytest.mark.parametrize("size", [10, 60_000, 3 * MIB])
async def test_slices_of_files_are_read_and_encrypted(size: int, tmp_path: Path):
    content = os.urandom(4 * MIB)
    (tmp_path / "log").write_bytes(content)
    with (tmp_path / "log").open("rb") as file:

        class Files(Echo):
            def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
                pieces = [FileSlice(file.fileno(), position, size, None) for position in (0, 1_000)]
                slot.send(((2 * size).to_bytes(4, "big"), *pieces))

        async with opened(Files, transport=TlsTransport) as server:
            peer = await TlsPeer.connect(server)
            for _ in range(3):
                peer.writer.write(framed(b"fetch"))
                assert await peer.receive_frame() == content[:size] + content[1_000 : 1_000 + size]
            peer.writer.close()


async def test_what_is_pushed_before_the_handshake_is_sent_after_it():
    class Greeting(Echo):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            asyncio.get_running_loop().call_soon(self.greet)

        def greet(self) -> None:
            assert self.connection.push((framed(b"hello"),), pytest.fail)

    async with opened(Greeting, transport=TlsTransport) as server:
        silent = await server.peer()
        await until(lambda: server.handlers[0].connection.pending_bytes)
        await turns()
        assert not server.handlers[0].connection.is_blocked, "the loop would call it all the time"
        peer = await TlsPeer.connect(server)
        assert await peer.receive_frame() == b"hello"
        peer.writer.close()
        silent.close()


async def test_what_the_transport_keeps_of_a_late_answer_leaves_when_there_is_room():
    async with opened(Collect, transport=LateTransport) as server:
        peer = await TlsPeer.connect(server)
        for number in range(3):
            peer.writer.write(framed(b"%d" % number))
            await until(lambda: len(server.handlers[0].requests) > number)  # noqa: B023 (asked at once)
            server.handlers[0].answer(number)
            assert await peer.receive_frame() == b"%d" % number
        peer.writer.close()


async def test_requests_that_wait_for_their_turn_lie_in_the_transport_and_are_not_forgotten():
    config = NetworkConfig(out_bytes_max=64 * KIB, socket_send_buffer_bytes=16 * KIB)
    async with opened(transport=TlsTransport, config=config) as server:
        peer = await TlsPeer.connect(server)
        peer.writer.write(framed(bytes(30_000)) * 200)
        await turns()
        for _ in range(200):
            assert await peer.receive_frame() == bytes(30_000)
        peer.writer.close()


async def test_what_is_no_tls_closes_the_connection():
    async with opened(transport=TlsTransport) as server:
        peer = await server.peer()
        await peer.send(framed(b"plain text on a port for TLS"))
        await peer.receive_end()
        await until(lambda: not server.listener.connections)
