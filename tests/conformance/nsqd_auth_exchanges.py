"""Commands to an NSQ server whose clients need AUTH, and what it answers; the auth server is that of the tests.

    python -m tests.conformance.nsqd_auth_exchanges PATH_OF_NSQD > tests/conformance/facts/nsqd_auth_answers.json

records the answers of nsqd 1.3.0. Each exchange is one connection.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from tests.cluster import wait_until
from tests.conformance.nsqd_exchanges import SUB, answers, identify
from tests.system.nsq_auth_server import ANSWERS, auth_server
from tests.system.nsq_client import sized
from tools.ports import free_ports

PUB, MPUB = b"PUB %t\n" + sized(b"x"), b"MPUB %t\n" + sized(struct.pack(">i", 1) + sized(b"x"))
DPUB = b"DPUB %t 1\n" + sized(b"x")
OTHERS = (SUB, PUB, MPUB, DPUB, b"NOP\n", b"RDY 1\n", b"CLS\n")
NAMES = (b"clicks", b"clicks-2", b"my-clicks", b"logs", b"my.logs", b"logs-2", b"other", b"nowhere")
CHANNELS = (b"archive", b"archive-2", b"details", b"tai", b"other")


def secret(name: str) -> bytes:
    """AUTH."""
    return b"AUTH\n" + sized(name.encode())


def commands() -> Iterator[bytes]:
    """What is sent on a connection after the magic; %t stands for a topic of its own."""
    yield identify()
    for name in ("unknown", *ANSWERS):
        yield secret(name)
        for each in OTHERS:
            yield secret(name) + each
        yield secret(name) + secret("all")
    for each in OTHERS:
        yield each
        yield identify() + each
    yield secret("all") + identify() + PUB + SUB
    yield SUB + secret("all")
    yield PUB + secret("all")
    yield b"MPUB bad$topic\n" + sized(b"x")
    yield b"MPUB %t\n" + struct.pack(">i", -1)
    yield b"PUB %t\n" + struct.pack(">i", -1)
    yield b"SUB %t bad$\n"
    yield b"SUB %t\n"
    for topic in NAMES:
        yield secret("some") + b"PUB " + topic + b"\n" + sized(b"x")
        yield secret("some") + b"MPUB " + topic + b"\n" + sized(struct.pack(">i", 1) + sized(b"x"))
        yield secret("some") + b"DPUB " + topic + b" 1\n" + sized(b"x")
        for channel in CHANNELS:
            yield secret("some") + b"SUB " + topic + b" " + channel + b"\nCLS\n"
    yield secret("some") + b"PUB logs\n" + sized(b"x") + PUB + b"PUB logs\n" + sized(b"y")
    yield secret("") + PUB


def all_answers(address: tuple[str, int], run: str) -> list[list[Any]]:
    """Every exchange with its answers, topics of its own by their stand-in."""
    found: list[list[Any]] = []
    for number, each in enumerate(commands()):
        topic = f"{run}-{number}"
        seen = answers(address, each.replace(b"%t", topic.encode()))
        found.append([each.decode("latin-1"), [line.replace(topic, "%t") for line in seen]])
    return found


def main(nsqd: str) -> None:
    """Record."""
    tcp, web = free_ports(2)
    with auth_server() as server, tempfile.TemporaryDirectory() as directory:
        flags = [f"--tcp-address=127.0.0.1:{tcp}", f"--http-address=127.0.0.1:{web}", f"--data-path={directory}"]
        process = subprocess.Popen([nsqd, *flags, f"--auth-http-address={server.address}"], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: _listens(tcp), "nsqd listens")
            found = all_answers(("127.0.0.1", tcp), "run")
        finally:
            process.terminate()
            process.wait()
    print("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
