"""TLS and compression of a connection, against the clients of other implementations."""

import contextlib
import socket
import ssl
import subprocess
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.nsq.layers import (
    CHUNK_BYTES_MAX,
    PIECE_BYTES,
    STREAM_IDENTIFIER,
    DeflateLayer,
    LayerError,
    Layers,
    SnappyLayer,
    TlsLayer,
    tls_context,
)
from tests.unit.network.key_updates import AskingClient, openssl

TEXT = b"the same again and again, " * 20_000
CODES = bytes(range(256)) * 300


def meant(pieces: Iterable[bytes]) -> bytes:
    found = list(pieces)
    assert all(len(each) <= PIECE_BYTES for each in found)
    return b"".join(found)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
@pytest.mark.parametrize("data", [b"x", TEXT[:5000], CODES])
def test_what_other_clients_compress_is_read_in_whatever_pieces(data: bytes, size: int) -> None:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    deflated = deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)
    snapped = snappy.StreamCompressor().add_chunk(data)
    for layer, sent in ((DeflateLayer(6), deflated), (SnappyLayer(), snapped)):
        assert b"".join(meant(layer.received(piece)) for piece in cut(sent, size)) == data


def test_what_is_sent_is_read_by_other_clients() -> None:
    deflating, inflate = DeflateLayer(6), zlib.decompressobj(-15)
    snapping, unsnap = SnappyLayer(), snappy.StreamDecompressor()
    for data in (b"x", TEXT, CODES):
        deflated, snapped = deflating.sent(data), snapping.sent(data)
        assert inflate.decompress(deflated) == data
        assert unsnap.decompress(snapped) == data
        if data is TEXT:
            assert len(deflated) < len(data) // 10
            assert len(snapped) < len(data) // 10


@pytest.mark.parametrize(
    "sent",
    [
        b"\x01\x05\x00\x00aaaab",
        STREAM_IDENTIFIER[:-1] + b"X",
        STREAM_IDENTIFIER + b"\x01\x05\x00\x00aaaab",
        STREAM_IDENTIFIER + b"\x00\x05\x00\x00aaaa\xff",
        STREAM_IDENTIFIER + b"\x01\x03\x00\x00aaa",
        STREAM_IDENTIFIER + b"\x02\x05\x00\x00aaaab",
        STREAM_IDENTIFIER + b"\x00" + (CHUNK_BYTES_MAX + 1).to_bytes(3, "little"),
        STREAM_IDENTIFIER + b"\xfe\xff\xff\xff",
    ],
)
def test_a_damaged_snappy_stream_is_refused(sent: bytes) -> None:
    with pytest.raises(LayerError):
        meant(SnappyLayer().received(sent))


def test_chunks_that_say_nothing_are_passed_over() -> None:
    layer = SnappyLayer()
    padded = STREAM_IDENTIFIER + b"\xfe\x02\x00\x00zz" + snappy.StreamCompressor().add_chunk(b"x")
    assert meant(layer.received(padded)) == b"x"


def test_a_damaged_or_ended_deflate_stream_is_refused_and_a_bomb_comes_in_pieces() -> None:
    with pytest.raises(LayerError, match="damaged"):
        meant(DeflateLayer(6).received(b"\xff" * 100))
    ended = zlib.compressobj(6, zlib.DEFLATED, -15)
    with pytest.raises(LayerError, match="has ended"):
        meant(DeflateLayer(6).received(ended.compress(b"x") + ended.flush()))
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    small = bomb.compress(bytes(8 << 20)) + bomb.flush(zlib.Z_SYNC_FLUSH)
    assert len(small) < 10_000
    assert len(meant(DeflateLayer(6).received(small))) == 8 << 20


@given(st.binary(max_size=300))
def test_no_bytes_make_a_layer_fail_otherwise(data: bytes) -> None:
    for layer in (DeflateLayer(6), SnappyLayer()):
        with contextlib.suppress(LayerError):
            meant(layer.received(STREAM_IDENTIFIER * isinstance(layer, SnappyLayer) + data))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


def self_signed(directory: Path) -> Path:
    """A certificate for 127.0.0.1 and its key, in one file."""
    path = directory / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    cert = directory / "cert.pem"
    subprocess.run([*command, "-keyout", str(path), "-out", str(cert)], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + cert.read_bytes())
    return path


class TlsClient:
    """The other side of a TLS layer."""

    def __init__(self, certificate: Path) -> None:
        context = ssl.create_default_context(cafile=str(certificate))
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    def turn(self, act: Callable[[], bytes | None]) -> bytes | None:
        """Do something; None while more is needed for it."""
        try:
            return act()
        except ssl.SSLWantReadError:
            return None


def test_layers_begin_one_after_the_other_each_with_its_greeting(certificate: Path) -> None:
    client, written = TlsClient(certificate), bytearray()
    layers = Layers(written.extend, b"OK")
    assert list(layers.add([TlsLayer(tls_context(str(certificate), "", "", "")), DeflateLayer(6)], b"")) == []
    assert (layers.is_changing, bytes(written)) == (True, b"")
    inflate, deflate = zlib.decompressobj(-15), zlib.compressobj(6, zlib.DEFLATED, -15)

    def exchange() -> None:
        for piece in cut(client.outgoing.read(), 50):
            assert list(layers.received(piece)) == []
        client.incoming.write(bytes(written))
        written.clear()

    client.turn(client.tls.do_handshake)
    exchange()
    client.turn(client.tls.do_handshake)
    exchange()
    assert client.turn(lambda: client.tls.read(2)) == b"OK"
    assert inflate.decompress(client.turn(lambda: client.tls.read(1000)) or b"") == b"OK"
    assert layers.is_changing is False
    layers.send(b"to the client")
    client.incoming.write(bytes(written))
    assert inflate.decompress(client.turn(lambda: client.tls.read(1000)) or b"") == b"to the client"
    client.tls.write(deflate.compress(b"to the broker") + deflate.flush(zlib.Z_SYNC_FLUSH))
    assert meant(layers.received(client.outgoing.read())) == b"to the broker"
    assert layers.tls is not None
    assert layers.tls.version == "TLSv1.3"


def test_a_client_whose_certificate_is_not_believed_is_told_why(certificate: Path) -> None:
    context = tls_context(str(certificate), "", str(certificate), "require-verify")
    client, written = TlsClient(certificate), bytearray()
    layers = Layers(written.extend, b"OK")
    assert list(layers.add([TlsLayer(context)], b"")) == []

    def exchange() -> None:
        assert list(layers.received(client.outgoing.read())) == []
        client.incoming.write(bytes(written))
        written.clear()

    client.turn(client.tls.do_handshake)
    exchange()
    client.turn(client.tls.do_handshake)
    with pytest.raises(LayerError, match="CERTIFICATE"):
        exchange()
    client.incoming.write(bytes(written))
    with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REQUIRED"):
        client.tls.read(2)


def test_what_is_no_tls_is_refused(certificate: Path) -> None:
    with pytest.raises(LayerError, match="TLS"):
        meant(TlsLayer(tls_context(str(certificate), "", "", "")).received(b"SUB t c\n" * 10))


OPENSSL = openssl()


@pytest.mark.skipif(OPENSSL is None, reason="Python has its OpenSSL inside")
def test_who_asks_for_other_keys_again_and_again_is_refused_and_who_does_now_and_then_is_not(certificate: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def ask() -> int:
            client = AskingClient(OPENSSL, listening.getsockname())
            for _ in range(5):
                assert client.asks()
                assert client.says(b"now and then") == b"now and then"
            count = next((number for number in range(200_000) if not client.asks()), -1)
            client.close()
            return count

        def echo() -> None:
            while data := connection.recv(1 << 16):
                for piece in layer.received(data):
                    received.append(piece)
                    connection.sendall(layer.sent(piece))
                connection.sendall(layer.take_output())

        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(ask)
            connection, _ = listening.accept()
            layer, received = TlsLayer(tls_context(str(certificate), "", "", "")), list[bytes]()
            with connection, pytest.raises(LayerError, match="asks for other keys again and again"):
                echo()
            assert received == [b"now and then"] * 5
            assert asked.result(60) >= 0
