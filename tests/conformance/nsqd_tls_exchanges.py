"""Commands over TLS, compressed or not, to an NSQ server, and what it answers: to compare a broker with what nsqd said.

    python -m tests.conformance.nsqd_tls_exchanges PATH_OF_NSQD > tests/conformance/facts/nsqd_tls_answers.json

records the answers of nsqd 1.3.0. Each exchange is one connection to one of several servers, which differ in what they
require; its client identifies itself in one of several ways. Certificates are made anew for each run.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import snappy

from tests.certificates import Authority
from tests.cluster import wait_until
from tests.conformance.nsqd_exchanges import SUB, UNKNOWN, identify, requests, shown_body
from tests.conformance.nsqd_exchanges import commands as plain_commands
from tests.system.nsq_client import NsqClient, sized
from tools.ports import free_ports

Address = tuple[str, int]

SERVERS: Mapping[str, Mapping[str, str]] = {
    "optional": {},
    "required": {"tls.required": "true"},
    "tcp-https": {"tls.required": "tcp-https"},
    "verify": {"tls.client.auth.policy": "require-verify"},
}
"""What each server requires, beside its certificate and authority; a setting without `nsq.`, or a flag with dots."""


class Way(NamedTuple):
    """How a client comes."""

    said: Mapping[str, Any] | None = None
    """What it asks for by IDENTIFY; None if it sends none."""
    certificate: str = ""
    """Whose certificate it shows, if any."""
    is_old: bool = False
    """Whether it speaks TLS 1.2, with one cipher suite."""


WAYS: Mapping[str, Way] = {
    "plain": Way(),
    "identified": Way({}),
    "snappy": Way({"snappy": True}),
    "deflate": Way({"deflate": True, "deflate_level": 3}),
    "tls": Way({"tls_v1": True}),
    "tls, snappy": Way({"tls_v1": True, "snappy": True}),
    "tls, deflate": Way({"tls_v1": True, "deflate": True, "deflate_level": 1}),
    "tls, snappy, deflate": Way({"tls_v1": True, "snappy": True, "deflate": True}),
    "tls 1.2": Way({"tls_v1": True}, is_old=True),
    "tls, not negotiated": Way({"tls_v1": True, "feature_negotiation": False}),
    "tls, known": Way({"tls_v1": True}, "known"),
    "tls, snappy, known": Way({"tls_v1": True, "snappy": True}, "known"),
    "tls, stranger": Way({"tls_v1": True}, "stranger"),
    "tls, expired": Way({"tls_v1": True}, "expired"),
    "tls 1.2, known": Way({"tls_v1": True}, "known", is_old=True),
    "tls 1.2, stranger": Way({"tls_v1": True}, "stranger", is_old=True),
}
PUB = b"PUB %t\n" + sized(b"x")
Script = tuple[bytes, ...]
"""What is sent; each part but the first after an answer."""
ROUNDS: tuple[Script, ...] = (
    (PUB + SUB, b"", b"RDY 1\n", b"FIN %i\nFIN %i\n"),
    (SUB + PUB + b"RDY 2\n", b"", b"", b"TOUCH %i\nREQ %i 0\n", b"FIN %i\nCLS\n"),
    (b"MPUB %t\n" + sized(struct.pack(">i", 2) + sized(b"a" * 100_000) + sized(b"b")), SUB, b"RDY 1\n", b"FIN %i\n"),
    (PUB + b"PUB bad$\n" + sized(b"x") + PUB,),
)
SINGLE: tuple[Script, ...] = tuple(
    (each,)
    for each in (
        SUB,
        SUB + SUB,
        SUB + b"RDY 2501\n",
        SUB + b"CLS\nRDY 1\n",
        PUB + PUB,
        b"MPUB %t\n" + sized(struct.pack(">i", 1) + sized(b"x")),
        b"DPUB %t 0\n" + sized(b"x"),
        b"PUB %t\n" + sized(b""),
        b"PUB %t\n" + struct.pack(">i", 1024 * 1024 + 1),
        b"RDY 1\n",
        b"FIN " + UNKNOWN + b"\n",
        b"REQ " + UNKNOWN + b" 0\n",
        b"TOUCH " + UNKNOWN + b"\n",
        b"CLS\n",
        b"NOP\n",
        b"nop\n",
        b"AUTH\n" + sized(b"s"),
        identify(),
        identify(sample_rate=100),
        b"IDENTIFY\n" + sized(b"x"),
    )
)


class Exchange(NamedTuple):
    """One of them; the server is that of `SERVERS`, the way that of `WAYS`."""

    server: str
    way: str
    script: Script

    @property
    def name(self) -> list[str]:
        return [self.server, self.way, " | ".join(map(_shown, self.script))]


def _shown(part: bytes) -> str:
    return part.decode("latin-1") if len(part) < 300 else f"{part[:50].decode('latin-1')}... {len(part)}"


def exchanges() -> Iterator[Exchange]:
    """All that are compared."""
    for server in SERVERS:
        for way in WAYS:
            if server in ("optional", "verify") or not WAYS[way].certificate:
                some = SINGLE if way in ("plain", "identified", "tls") else SINGLE[::5]
                for script in (*ROUNDS, *some):
                    yield Exchange(server, way, script)
    for each in plain_commands():
        # nsqd begins TLS within TLS, and answers beside it once it has another buffer.
        if b'"tls_v1"' not in each and b'"output_buffer_size"' not in each:
            yield Exchange("optional", "tls", (each,))


def short(number: int, exchange: Exchange) -> bool:
    """Whether an exchange is one of the few that are tried each time."""
    if exchange.server == "optional" and exchange.way == "tls":
        return number % 20 == 0 or exchange.script in ROUNDS
    return exchange.script in (ROUNDS[0], SINGLE[0])


class Certificates:
    """Files of a server and its clients."""

    def __init__(self, directory: Path) -> None:
        authority, other = Authority(), Authority("other")
        self.authority = authority.write(directory / "authority.pem")
        self.server = authority.identity("server").write_pem(directory / "server.pem")
        clients = {
            "known": authority.identity("known"),
            "stranger": other.identity("stranger"),
            "expired": authority.identity("expired", lasts=-timedelta(days=1)),
        }
        self.clients = {name: each.write_pem(directory / f"{name}.pem") for name, each in clients.items()}

    def server_options(self, server: str) -> dict[str, str]:
        """The settings of a server, without `nsq.`."""
        files = {"tls.cert": str(self.server), "tls.key": str(self.server), "tls.root.ca.file": str(self.authority)}
        return {**files, **SERVERS[server]}

    def context(self, way: Way) -> ssl.SSLContext:
        """How a client speaks TLS."""
        context = ssl.create_default_context(cafile=self.authority)
        if way.certificate:
            context.load_cert_chain(self.clients[way.certificate])
        if way.is_old:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        return context


class Codec(Protocol):
    """A compressed stream."""

    def sent(self, data: bytes) -> bytes: ...

    def received(self, data: bytes) -> bytes: ...


class Deflate:
    """Raw deflate."""

    def __init__(self) -> None:
        self._out, self._in = zlib.compressobj(6, zlib.DEFLATED, -15), zlib.decompressobj(-15)

    def sent(self, data: bytes) -> bytes:
        return self._out.compress(data) + self._out.flush(zlib.Z_SYNC_FLUSH)

    def received(self, data: bytes) -> bytes:
        return self._in.decompress(data)


class Snappy:
    """Snappy's framing format, its blocks by another implementation than the broker's."""

    def __init__(self) -> None:
        self._out = snappy.StreamCompressor()
        self._buffer = b""

    def sent(self, data: bytes) -> bytes:
        return self._out.add_chunk(data)

    def received(self, data: bytes) -> bytes:
        self._buffer += data
        found = b""
        while len(self._buffer) >= 4:
            kind, end = self._buffer[0], 4 + int.from_bytes(self._buffer[1:4], "little")
            if len(self._buffer) < end:
                break
            block, self._buffer = self._buffer[8:end], self._buffer[end:]
            if kind < 2:  # the others mean nothing
                found += block if kind else snappy.decompress(block)
        return found


class LayeredClient(NsqClient):
    """A client over TLS, compressed, or both."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._codec: Codec | None = None

    def begin(self, answered: Mapping[str, Any], context: ssl.SSLContext) -> Iterator[tuple[int, bytes]]:
        """Begin what was negotiated; the frames that come first within each layer."""
        if answered["tls_v1"]:
            self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")
            yield self.frame()
        if answered["snappy"] or answered["deflate"]:
            self._codec = Snappy() if answered["snappy"] else Deflate()
            self._received = self._codec.received(self._received)  # the server does not wait
            yield self.frame()

    def send_bytes(self, data: bytes) -> None:
        """Send commands."""
        self._socket.sendall(data if self._codec is None else self._codec.sent(data))

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._received += data if self._codec is None else self._codec.received(data)
        taken, self._received = self._received[:size], self._received[size:]
        return taken


def answers(address: Address, way: Way, context: ssl.SSLContext, script: Script) -> list[str]:
    """The frames that come back until the connection is closed, or an unknown command at the end is answered."""
    client, found, last_id = LayeredClient(address), [], b""

    def show(kind: int, data: bytes) -> None:
        nonlocal last_id
        if kind == 2:
            last_id = data[10:26]
            found.append(f"2 attempt {data[9]} {data[26:].decode() if len(data) < 100 else len(data)}")
        else:
            found.append(f"{kind} {data.decode('latin-1')}".replace(last_id.decode() or "%i", "%i"))

    try:
        if way.said is not None:
            client.send_bytes(identify(**way.said))
            kind, data = client.frame()
            show(kind, data)
            if kind == 0 and data != b"OK":
                for frame in client.begin(json.loads(data), context):
                    show(*frame)
        for number, part in enumerate(script):
            if number:
                show(*client.frame())
            if part:
                client.send_bytes(part.replace(b"%i", last_id))
        with contextlib.suppress(ConnectionError):  # it may answer, and close, before all is sent
            client.send_bytes(b"\nEND\n")
        while True:
            show(*client.frame())
    except (EOFError, ConnectionError, ssl.SSLError):
        found.append("closed")
    finally:
        client.close()
    return found


def https_answer(address: Address, context: ssl.SSLContext | None, method: str, path: str, body: bytes) -> list[Any]:
    """Status, type and body; over TLS if there is a context."""
    connection = (
        http.client.HTTPConnection(*address, timeout=60)
        if context is None
        else http.client.HTTPSConnection(*address, timeout=60, context=context)
    )
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may answer before the body is sent
            connection.request(method, path, body)
        response = connection.getresponse()
        return [response.status, response.getheader("Content-Type"), response.read().decode()]
    except (ssl.SSLError, ConnectionError, http.client.HTTPException):
        return ["closed"]
    finally:
        connection.close()


class Server(NamedTuple):
    """Where one listens."""

    tcp: Address
    http: Address
    https: Address


def tcp_answers(server: Server, which: str, certificates: Certificates, *, all_of_them: bool) -> list[list[Any]]:
    """Exchanges with one server, each with its answers, topics of its own by their stand-in."""
    found: list[list[Any]] = []
    contexts = {name: certificates.context(way) for name, way in WAYS.items()}
    for number, each in enumerate(exchanges()):
        if each.server != which or not (all_of_them or short(number, each)):
            continue
        topic = f"topic{number}"
        script = tuple(part.replace(b"%t", topic.encode()) for part in each.script)
        seen = answers(server.tcp, WAYS[each.way], contexts[each.way], script)
        if seen[0].startswith("0 {") and each.script != ROUNDS[0]:
            seen[0] = "0 {...}"  # it is compared once for each way
        found.append([*each.name, [line.replace(topic, "%t") for line in seen]])
    return found


def http_answers(server: Server, which: str, certificates: Certificates) -> list[list[Any]]:
    """Requests to one server, with TLS and without; and what it tells of clients with TLS."""
    found: list[list[Any]] = []
    ways = {"no certificate": Way(), "known": Way(certificate="known"), "stranger": Way(certificate="stranger")}
    for name, address, way in (
        ("http", server.http, None),
        *((f"https, {name}", server.https, way) for name, way in ways.items()),
    ):
        context = None if way is None else certificates.context(way)
        for number, (method, path, body) in enumerate(requests()):
            is_own = "topic=" not in path or "topic=%t" in path  # not a topic that commands may have made
            if is_own and (number % 10 == 0 or path.startswith(("/ping", "/stats"))):
                told = https_answer(address, context, method, path.replace("%t", "web"), body)
                if len(told) > 1:
                    told[2] = _without_depths(shown_body(told[2].replace(str(server.https[1]), "0"), "web"))
                found.append([which, name, f"{method} {path} {body[:40].decode('latin-1')!r} {len(body)}", told])
    told_of = ("snappy", "tls, deflate", "tls 1.2", "tls 1.2, known")
    return [*found, *([which, name, "/stats", _told_of_client(server, name, certificates)] for name in told_of)]


def _without_depths(body: Any) -> Any:
    for topic in (body.get("topics") or ()) if isinstance(body, dict) else ():
        for channel in topic["channels"]:
            channel.pop("backend_depth")  # nsqd's messages are in memory
    return body


def _told_of_client(server: Server, way_name: str, certificates: Certificates) -> dict[str, Any] | str:
    """What statistics say of a client that has subscribed in some way."""
    way = WAYS[way_name]
    client = LayeredClient(server.tcp)
    topic = "".join(each for each in way_name if each.isalnum())
    context = certificates.context(WAYS["tls, known"])
    try:
        client.send_bytes(identify(**way.said or {}))
        for _ in client.begin(json.loads(client.frame()[1]), certificates.context(way)):
            pass
        client.send_bytes(SUB.replace(b"%t", topic.encode()))
        assert client.frame() == (0, b"OK")
        told = https_answer(server.https, context, "GET", f"/stats?format=json&topic={topic}", b"")
    except (AssertionError, EOFError, ConnectionError, ssl.SSLError):
        return "closed"
    finally:
        client.close()
    [document] = json.loads(told[2])["topics"][0]["channels"][0]["clients"]
    names = ["tls", "snappy", "deflate", *(("tls_version", "tls_cipher_suite") if way.is_old else ())]
    return {name: document[name] for name in names}


@contextlib.contextmanager
def nsqd(path: str, directory: Path, options: Mapping[str, str]) -> Iterator[Server]:
    """One that runs."""
    directory.mkdir()
    server = Server(*(("127.0.0.1", port) for port in free_ports(3)))
    flags = {"tcp.address": server.tcp, "http.address": server.http, "https.address": server.https}
    given = {name: f"{host}:{port}" for name, (host, port) in flags.items()} | {**options, "data.path": str(directory)}
    command = [path, *(f"--{name.replace('.', '-')}={value}" for name, value in given.items())]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(server.https), "nsqd listens")
        yield server
    finally:
        process.terminate()
        process.wait()


def _listens(address: Address) -> bool:
    try:
        NsqClient(address).close()
    except OSError:
        return False
    return True


def main(path: str) -> None:
    """Record."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        certificates = Certificates(directory)
        for which in SERVERS:
            with nsqd(path, directory / which, certificates.server_options(which)) as server:
                found += tcp_answers(server, which, certificates, all_of_them=True)
                found += http_answers(server, which, certificates)
    print("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]")


if __name__ == "__main__":
    main(sys.argv[1])
