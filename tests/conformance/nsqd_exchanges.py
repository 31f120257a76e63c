"""Commands and requests to an NSQ server, and what it answers: to compare two servers, or one with what nsqd said.

    python -m tests.conformance.nsqd_exchanges TCP_HOST:PORT HTTP_HOST:PORT > tests/conformance/facts/nsqd_answers.json

records the answers of nsqd 1.3.0 when these are nsqd's addresses. Each exchange is one connection. What differs by
nature (message ids, times) is not compared.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

from tests.system.nsq_client import NsqClient, sized

UNKNOWN = b"0123456789abcdef"
TOPICS = (
    b"",
    b"t",
    b"T.a-b_9",
    b"bad$topic",
    b"a" * 64,
    b"a" * 65,
    b"t#ephemeral",
    b"t#ephemera",
    b"#ephemeral",
    b"\xff",
    b'quo"te',
    b"a\tb",
    "ü".encode(),
)
NUMBERS = (
    b"",
    b"0",
    b"1",
    b"2500",
    b"2501",
    b"-1",
    b"x",
    b"1.5",
    b"00001",
    b"18446744073709551616",
    b"9223372036854775807",
    b"9223372036854775808",
    b"3600000",
    b"3600001",
)
SIZES = (-1, 0, -(1 << 31))
OPTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("heartbeat_interval", (0, -1, -2, 999, 1000, 60000, 60001, "x", 1.5, None, True)),
    ("output_buffer_size", (0, -1, -2, 63, 64, 65536, 65537, "x")),
    ("output_buffer_timeout", (0, -1, -2, 24, 25, 30000, 30001)),
    ("sample_rate", (0, 1, 99, 100, -1, 1 << 31)),
    ("msg_timeout", (0, -1, 999, 1000, 900000, 900001)),
    ("deflate_level", (0, 1, 6, 7, -1)),
    ("client_id", ("", "x", 5, None)),
    ("hostname", ("h", [])),
    ("user_agent", ("u", {})),
    ("feature_negotiation", (False, 1, "true")),
    ("CLIENT_ID", ("x", 5)),
    ("unknown", (1, "x")),
)
BODIES = (b"", b"{}", b"null", b"[]", b"x", b"{", b'"x"', b"5", b"\xff", b'{"client_id":"\xff"}', b'{"a":1}x', b" {} ")
SUB = b"SUB %t c\n"


def identify(**said: Any) -> bytes:
    """IDENTIFY with negotiation."""
    return b"IDENTIFY\n" + sized(json.dumps({"feature_negotiation": True, **said}).encode())


def commands() -> Iterator[bytes]:
    """What is sent on a connection after the magic; %t stands for a topic of its own."""
    yield from _parameters()
    yield from _sizes()
    yield from _identifications()
    yield from _states()


def _parameters() -> Iterator[bytes]:
    for name in TOPICS:
        yield b"PUB " + name + b"\n" + sized(b"x")
        yield b"MPUB " + name + b"\n" + sized(struct.pack(">i", 1) + sized(b"x"))
        yield b"DPUB " + name + b" 1\n" + sized(b"x")
        yield b"SUB " + name + b" c\n"
        yield b"SUB %t " + name + b"\n"
    for number in NUMBERS:
        yield SUB + b"RDY " + number + b"\nNOP\nCLS\n"
        yield SUB + b"REQ " + UNKNOWN + b" " + number + b"\n"
        yield b"DPUB %t " + number + b"\n" + sized(b"x")


def _sizes() -> Iterator[bytes]:
    for size in SIZES:
        for line in (b"PUB %t\n", b"MPUB %t\n", b"DPUB %t 1\n", b"IDENTIFY\n", b"AUTH\n"):
            yield line + struct.pack(">i", size)
    for line in (b"PUB %t\n", b"DPUB %t 1\n"):
        yield line + struct.pack(">i", 1024 * 1024 + 1)
        yield line + sized(bytes(1024 * 1024))
    for line in (b"MPUB %t\n", b"IDENTIFY\n", b"AUTH\n"):
        yield line + struct.pack(">i", 5 * 1024 * 1024 + 1)
    for count in (-1, 0, 1, 2, 1_048_576, 1_048_577):
        yield b"MPUB %t\n" + sized(struct.pack(">i", count) + sized(b"x"))
    for first in (*SIZES, 1024 * 1024 + 1):
        yield b"MPUB %t\n" + sized(struct.pack(">i", 2) + struct.pack(">i", first) + b"x" * 20)
        yield b"MPUB %t\n" + sized(struct.pack(">i", 2) + sized(b"a") + struct.pack(">i", first) + b"x" * 20)


def _identifications() -> Iterator[bytes]:
    for name, values in OPTIONS:
        for value in values:
            yield identify(**{name: value})
            yield identify(**{name: value}) + SUB + b"CLS\n"
    for body in BODIES:
        yield b"IDENTIFY\n" + sized(body)
    for some in (
        {"snappy": True, "deflate": True},
        {"tls_v1": True},
        {"feature_negotiation": False, "heartbeat_interval": 2000},
    ):
        yield identify(**some)


def _states() -> Iterator[bytes]:
    names = (b"IDENTIFY", b"AUTH", b"SUB", b"PUB", b"MPUB", b"DPUB", b"RDY", b"FIN", b"REQ", b"TOUCH", b"CLS", b"NOP")
    for name in names:
        for before in (b"", SUB, SUB + b"CLS\n", identify(), b"NOP\n", b"PUB %t\n" + sized(b"x")):
            yield before + name + b"\n"
            yield before + name + b" \n"
            yield before + name + b" a b c d\n"
        yield name.lower() + b"\n"
        yield b" " + name + b"\n"
        yield name + b"\r\n"
    for ident in (UNKNOWN, b"", b"short", b"x" * 16, b"x" * 17, b"0123456789ABCDEF"):
        for name in (b"FIN ", b"TOUCH ", b"REQ "):
            yield SUB + name + ident + b"\n"
            yield SUB + name + ident + b" 0\n"
            yield SUB + b"CLS\n" + name + ident + b" 0\n"
    yield SUB + SUB
    yield identify() + identify() + SUB + identify()
    yield b"\n"
    yield b"\r\n"
    yield b"NOP \x00\n"
    yield b"nonsense \xff\n"
    yield b"NOP" * 6000
    yield b"AUTH\n" + sized(b"secret")
    yield b"AUTH x\n" + sized(b"secret")
    yield identify(heartbeat_interval=-1) + b"PUB %t\n" + sized(b"x")


def requests() -> Iterator[tuple[str, str, bytes]]:
    """Method, path and body; %t is a topic of its own for the whole run."""
    yield from _paths()
    yield from _administration()
    yield from _publishing()
    for name in ("max_msg_size", "max_body_size", "max_rdy_count", "msg_timeout", "max_deflate_level", "nope"):
        yield "GET", f"/config/{name}", b""
        yield "PUT", f"/config/{name}", b"4"
    for body in (b"", b"x", b"[]", b'["x"]', b"[1]", b"{}", b"null"):
        yield "PUT", "/config/nsqlookupd_tcp_addresses", body
    yield "GET", "/config/nsqlookupd_tcp_addresses", b""


def _paths() -> Iterator[tuple[str, str, bytes]]:
    for path in ("/ping", "/nope", "/", "//ping", "/../ping", "/topic", "/config/nope", "/config/", "/pub/"):
        for method in ("GET", "POST", "PUT", "DELETE"):
            yield method, path, b""
    for path in ("/pub", "/mpub", "/topic/create", "/channel/pause", "/stats"):
        for method in ("GET", "PUT", "DELETE") if path != "/stats" else ("POST", "PUT"):
            yield method, path, b""
    for name in TOPICS:
        text = "".join(f"%{byte:02x}" for byte in name)
        for path in ("/pub", "/mpub", "/topic/delete", "/topic/empty", "/topic/pause", "/channel/create"):
            yield "POST", f"{path}?topic={text}", b"x" if name == b"bad$topic" or path == "/pub" else b""
        yield "POST", f"/channel/create?topic=%t&channel={text}", b""


def _administration() -> Iterator[tuple[str, str, bytes]]:
    yield "POST", "/topic/create?topic=%t", b""
    yield "POST", "/topic/create?topic=%t", b""
    yield "GET", "/stats?format=json&topic=%t&include_mem=false", b""
    for what in ("create", "pause", "unpause", "empty", "delete", "delete", "pause", "unpause", "empty"):
        yield "POST", f"/channel/{what}?topic=%t&channel=c", b""
        yield "GET", "/stats?format=json&topic=%t&include_mem=false", b""


def _publishing() -> Iterator[tuple[str, str, bytes]]:
    for defer in ("0", "x", "-1", "3600001", "", "1.5", "9" * 30):
        yield "POST", f"/pub?topic=%t&defer={defer}", b"x"
    for body in (b"", b"a", b"a\nb\n", b"\n\n", b"\nc"):
        yield "POST", "/mpub?topic=%t", body
        yield "POST", "/pub?topic=%t", body
    for body in (
        b"",
        b"x",
        struct.pack(">i", 0),
        struct.pack(">i", 1) + sized(b"x"),
        struct.pack(">i", 2) + sized(b"x"),
    ):
        for binary in ("true", "false", "1", "0", "x"):
            yield "POST", f"/mpub?topic=%t&binary={binary}", body
    yield "POST", "/pub?topic=%t", bytes(1024 * 1024)
    yield "POST", "/pub?topic=%t", bytes(1024 * 1024 + 1)
    yield "POST", "/mpub?topic=%t", bytes(5 * 1024 * 1024 + 1)
    yield "POST", "/mpub?topic=%t", b"x" * (1024 * 1024 + 1)
    for what in ("pause", "unpause", "empty", "delete", "delete"):
        yield "POST", f"/topic/{what}?topic=%t", b""


def answers(address: tuple[str, int], sent: bytes) -> list[str]:
    """The frames that come back until the connection is closed, or an unknown command at the end is answered."""
    client = NsqClient(address)
    found = []
    with contextlib.suppress(ConnectionError):  # it may answer, and close, before all is sent
        client._socket.sendall(sent + b"\nEND\n")
    try:
        while True:
            kind, data = client.frame()
            found.append(f"{kind} {data.decode('latin-1')}")
    except (EOFError, ConnectionError):
        client.close()
    return found


def http_answer(address: tuple[str, int], method: str, path: str, body: bytes) -> list[Any]:
    """Status and body."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        with contextlib.suppress(ConnectionError):  # it may answer before the body is sent to the end
            connection.request(method, path, body)
        response = connection.getresponse()
        return [response.status, response.getheader("Content-Type"), response.read().decode()]
    finally:
        connection.close()


def all_answers(tcp: tuple[str, int], web: tuple[str, int], run: str) -> list[list[Any]]:
    """Every exchange with its answers, topics of its own by their stand-in."""
    found: list[list[Any]] = []
    for number, each in enumerate(commands()):
        topic = f"{run}-{number}"
        seen = answers(tcp, each.replace(b"%t", topic.encode()))
        shown = each if len(each) < 300 else each[:300] + b"..."
        found.append([shown.decode("latin-1"), [line.replace(topic, "%t") for line in seen]])
    for method, path, body in requests():
        status, kind, text = http_answer(web, method, path.replace("%t", run), body)
        found.append(
            [f"{method} {path} {body[:40].decode('latin-1')!r} {len(body)}", [status, kind, shown_body(text, run)]]
        )
    return found


def shown_body(text: str, run: str) -> Any:
    """A body without what is of one server alone."""
    if not text.startswith("{"):
        return text.replace(run, "%t")
    document = json.loads(text.replace(run, "%t"))
    for name in ("start_time", "version"):
        document.pop(name, None)
    for topic in document.get("topics") or ():
        for name in ("message_count", "message_bytes", "depth", "backend_depth"):
            topic.pop(name, None)
    return document


def main(tcp: str, web: str) -> None:
    """Record."""
    places = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in (tcp, web))]
    found = all_answers(places[0], places[1], f"run-{time.time_ns()}")
    print("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
