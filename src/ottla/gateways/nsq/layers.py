"""What lies between the socket and the commands of a connection where its client asks for it: TLS, then compression.

```
socket --> TLS --> snappy or deflate --> commands            an "OK" is sent through each as it begins
```

Sans-I/O: bytes in, bytes out. What a client sends expands piece by piece: never more than `PIECE_BYTES` at a time.
"""

import ssl
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from ottla.native import crc32c, decompress, snappy_chunks
from ottla.native.errors import KernelError
from ottla.network.tls_transport import FIRST_BYTES, REPLIES_BYTES_MAX

PIECE_BYTES: Final = 64 * 1024
SNAPPY_CODEC: Final = 2
STREAM_IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
CHUNK_BYTES_MAX: Final = 4 + 32 + PIECE_BYTES + PIECE_BYTES // 6
"""The largest chunk of a snappy stream: a checksum, and a block that did not get smaller."""
_COMPRESSED, _PLAIN, _SKIPPABLE, _IDENTIFIER = 0x00, 0x01, 0x80, 0xFF


class LayerError(Exception):
    """What the client sends is not what it agreed on; the connection ends."""


class Layer(Protocol):
    """One of them. After a LayerError it is not used any more."""

    @property
    def is_ready(self) -> bool:
        """Whether something can be sent through it."""
        ...

    def received(self, data: bytes) -> Iterator[bytes]:
        """What the client means by what it sent. Raises LayerError."""
        ...

    def sent(self, data: bytes) -> bytes:
        """What is to be sent for it."""
        ...

    def take_output(self) -> bytes:
        """What the layer itself has to send."""
        ...


class DeflateLayer:
    """Raw deflate (RFC 1951); what is sent ends with a flush."""

    is_ready = True

    def __init__(self, level: int) -> None:
        self._deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)

    def received(self, data: bytes) -> Iterator[bytes]:
        """Inflate, piece by piece."""
        while True:
            try:
                piece = self._inflate.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise LayerError(f"the deflate stream is damaged: {error}") from None
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                raise LayerError("the deflate stream has ended")
            if len(piece) < PIECE_BYTES and not data:
                return

    def sent(self, data: bytes) -> bytes:
        """Deflate."""
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def take_output(self) -> bytes:
        """Nothing."""
        return b""


class SnappyLayer:
    """The framing format of snappy (google/snappy, framing_format.txt).

    ```
    chunk: type, 1 byte | length, 3 bytes, little-endian | masked CRC-32C of what is meant, 4 bytes | block or bytes
    ```
    """

    is_ready = True

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._has_begun = False
        self._has_sent = False

    def received(self, data: bytes) -> Iterator[bytes]:
        """The chunks that are whole by now."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) >= at + 4:
            kind, length = buffer[at], int.from_bytes(buffer[at + 1 : at + 4], "little")
            if length > CHUNK_BYTES_MAX and kind < _SKIPPABLE:
                raise LayerError(f"a chunk of the snappy stream has {length} bytes, at most {CHUNK_BYTES_MAX} can be")
            end = at + 4 + length
            if len(buffer) < end:
                if kind >= _SKIPPABLE and length > CHUNK_BYTES_MAX:
                    raise LayerError("a chunk of the snappy stream that says nothing is too large")
                break
            chunk = bytes(buffer[at + 4 : end])
            at = end
            opened = self._opened(kind, chunk)
            if opened:
                yield opened
        del buffer[:at]

    def _opened(self, kind: int, chunk: bytes) -> bytes:
        if kind == _IDENTIFIER:
            if chunk != STREAM_IDENTIFIER[4:]:
                raise LayerError("the snappy stream has another identifier")
            self._has_begun = True
            return b""
        if not self._has_begun:
            raise LayerError("the snappy stream does not begin with its identifier")
        if kind >= _SKIPPABLE:
            return b""
        if kind not in (_COMPRESSED, _PLAIN) or len(chunk) < 4:
            raise LayerError(f"a chunk of the snappy stream is of type {kind:#04x}, or has no checksum")
        meant = chunk[4:]
        if kind == _COMPRESSED:
            try:
                meant = decompress(meant, SNAPPY_CODEC, max_bytes=PIECE_BYTES)
            except KernelError as error:
                raise LayerError(f"a block of the snappy stream is damaged: {error}") from None
        if _masked_crc(meant) != chunk[:4]:
            raise LayerError("a checksum of the snappy stream does not match")
        return meant

    def sent(self, data: bytes) -> bytes:
        """In chunks that are compressed where they get smaller."""
        chunks = snappy_chunks(data)
        if self._has_sent:
            return chunks
        self._has_sent = True
        return STREAM_IDENTIFIER + chunks

    def take_output(self) -> bytes:
        """Nothing."""
        return b""


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


class TlsLayer:
    """TLS, as the server. It is ready once the handshake is done."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_ready = False

    @property
    def cipher(self) -> str:
        """The cipher suite, once it is agreed on."""
        cipher = self._tls.cipher()
        return "" if cipher is None else cipher[0]

    @property
    def version(self) -> str:
        """The version of the protocol, once it is agreed on."""
        return self._tls.version() or ""

    @property
    def common_name(self) -> str:
        """That of the client's certificate, if it has shown one that was looked at."""
        shown: Any = self._tls.getpeercert() or {}
        names = [value for part in shown.get("subject", ()) for name, value in part if name == "commonName"]
        return str(names[-1]) if names else ""

    def received(self, data: bytes) -> Iterator[bytes]:
        """Go on with the handshake, or decrypt: a little at a time, for OpenSSL does all that it is asked in what it is
        given before it returns (`ottla.network.tls_transport`).
        """
        for at in range(0, len(data), FIRST_BYTES):
            self._incoming.write(data[at : at + FIRST_BYTES])
            yield from self._opened()

    def _opened(self) -> Iterator[bytes]:
        try:
            if not self.is_ready:
                self._tls.do_handshake()
                self.is_ready = True
            while piece := self._read():
                yield piece
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise LayerError(f"TLS: {error.reason or error}") from None

    def _read(self) -> bytes:
        before = self._outgoing.pending
        try:
            return self._tls.read(PIECE_BYTES)
        finally:
            if self._outgoing.pending - before > REPLIES_BYTES_MAX:
                raise LayerError("TLS: it asks for other keys again and again")

    def sent(self, data: bytes) -> bytes:
        """Encrypt."""
        self._tls.write(data)
        return self._outgoing.read()

    def take_output(self) -> bytes:
        """What the handshake has to say."""
        return self._outgoing.read()


def tls_context(cert: str, key: str, root_ca: str, client_auth: str) -> ssl.SSLContext:
    """The context of files in PEM. Raises OSError, ssl.SSLError.

    `client_auth` is nsqd's policy: empty, `require` for any certificate of a client, `require-verify` for one that is
    signed by `root_ca`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(cert, key or None, "")  # without a password OpenSSL asks for one at the terminal
    if root_ca:
        context.load_verify_locations(root_ca)
    if client_auth:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Layers:
    """The layers of one connection, in the order from the socket, and those that begin next."""

    def __init__(self, write: Callable[[bytes], None], greeting: bytes) -> None:
        """`write` sends bytes to the socket; `greeting` is what goes out first through each layer."""
        self._write = write
        self._greeting = greeting
        self._active: list[Layer] = []
        self._next: deque[Layer] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether bytes are commands as they are."""
        return not self._active

    @property
    def is_changing(self) -> bool:
        """Whether one begins, and nothing else may be sent."""
        return bool(self._next)

    @property
    def tls(self) -> TlsLayer | None:
        """That of TLS, if there is one."""
        return next((each for each in self._active if isinstance(each, TlsLayer)), None)

    def add(self, layers: Sequence[Layer], rest: bytes) -> Iterator[bytes]:
        """Begin layers, one when the one before is ready; what they make of bytes that have arrived already."""
        before = len(self._active)
        self._next.extend(layers)
        self._begin_next()
        if rest:
            yield from self._through(before, rest)

    def received(self, data: bytes) -> Iterator[bytes]:
        """What the client means by what it sent. Raises LayerError."""
        return self._through(0, data)

    def send(self, data: bytes) -> None:
        """Send through all of them."""
        for layer in reversed(self._active):
            data = layer.sent(data)
        self._write(data)

    def _through(self, index: int, data: bytes) -> Iterator[bytes]:
        if index == len(self._active):
            yield data
            return
        layer = self._active[index]
        try:
            for piece in layer.received(data):
                self._follow(layer)
                yield from self._through(index + 1, piece)
        except LayerError:
            if output := layer.take_output():
                self._write(output)  # the alert, by which the client learns what was wrong
            raise
        self._follow(layer)

    def _follow(self, layer: Layer) -> None:
        if output := layer.take_output():
            self._write(output)  # only TLS has any, and lies at the socket
        self._begin_next()

    def _begin_next(self) -> None:
        while self._next:
            layer = self._next[0]
            if layer not in self._active:
                self._active.append(layer)
            if not layer.is_ready:
                return
            self._next.popleft()
            self.send(self._greeting)
