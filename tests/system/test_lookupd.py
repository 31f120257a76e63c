"""`ottla lookupd`: brokers register, clients of any kind find them, errors are those of nsqlookupd."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, PYNSQ_ROUND, address

Address = tuple[str, int]


class LookupdProcess:
    """A lookup service, and how it is asked."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "ottla.cli", "lookupd", "--tcp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        command += ["--broadcast-address", "127.0.0.1"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"tcp (\S+):(\d+), http (\S+):(\d+)", line)
        assert found is not None, line
        self.tcp: Address = (found[1], int(found[2]))
        self.http: Address = (found[3], int(found[4]))

    def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """Status and document."""
        connection = http.client.HTTPConnection(*self.http, timeout=60)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
            return response.status, json.loads(body) if body.startswith(b"{") else body
        finally:
            connection.close()

    def close(self) -> None:
        """Stop it, which takes SIGTERM and no error."""
        self._process.terminate()
        assert self._process.wait(60) == 0


@pytest.fixture(scope="module")
def lookupd() -> Iterator[LookupdProcess]:
    process = LookupdProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def registered(lookupd: LookupdProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        **LISTENERS,
        "nsq.lookupd.tcp.addresses": f"{lookupd.tcp[0]}:{lookupd.tcp[1]}",
        "nsq.broadcast.address": "127.0.0.1",
    }
    with BrokerProcess(tmp_path_factory.mktemp("lookupd") / "data", settings) as broker:
        yield broker


def test_topics_and_channels_of_a_broker_are_found_and_forgotten(
    lookupd: LookupdProcess, registered: BrokerProcess
) -> None:
    topic = f"clicks-{uuid4().hex[:8]}"
    assert lookupd.ask(f"/lookup?topic={topic}") == (404, {"message": "TOPIC_NOT_FOUND"})
    reader = NsqClient(address(registered)).subscribe(topic, "archive", 1)

    def looked_up() -> Any:
        return lookupd.ask(f"/lookup?topic={topic}")[1]

    wait_until(lambda: looked_up().get("channels") == ["archive"], "the channel is registered")
    [found] = looked_up()["producers"]
    assert (found["broadcast_address"], found["tcp_port"]) == address(registered)
    [node] = [each for each in lookupd.ask("/nodes")[1]["producers"] if topic in each["topics"]]
    assert len(node["topics"]) == len(node["tombstones"])
    where = f"{node['broadcast_address']}:{node['http_port']}"
    assert lookupd.ask(f"/topic/tombstone?topic={topic}&node={where}", "POST")[0] == 200
    assert looked_up()["producers"] == []
    reader.close()


def test_the_official_python_client_finds_the_broker(lookupd: LookupdProcess, registered: BrokerProcess) -> None:
    topic = f"clicks-{uuid4().hex[:8]}"
    host, port = address(registered)
    command = [sys.executable, str(PYNSQ_ROUND), f"{host}:{port}", topic, f"http://{lookupd.http[0]}:{lookupd.http[1]}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)) == sorted([[f"m{number}", 1] for number in range(10)] + [["m3", 2]])


def test_the_channels_that_others_have_of_a_topic_get_its_first_message_here(
    lookupd: LookupdProcess, registered: BrokerProcess
) -> None:
    topic = f"clicks-{uuid4().hex[:8]}"
    wait_until(lambda: len(lookupd.ask("/nodes")[1]["producers"]) == 1, "the broker is registered")
    for channel in ("archive", "metrics", "gone%23ephemeral"):
        assert lookupd.ask(f"/channel/create?topic={topic}&channel={channel}", "POST")[0] == 200
    NsqClient(address(registered)).publish(topic, b"first")
    for channel in ("archive", "metrics"):
        reader = NsqClient(address(registered)).subscribe(topic, channel, 1)
        assert reader.message().body == b"first"
        reader.close()
    wait_until(
        lambda: lookupd.ask(f"/lookup?topic={topic}")[1]["channels"] == ["archive", "gone#ephemeral", "metrics"],
        "they are registered",
    )


IDENTITY = {"broadcast_address": "h", "hostname": "hh", "tcp_port": 1, "http_port": 2, "version": "1.3.0"}


def said(document: Any) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return b"IDENTIFY\n" + struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"  V1PING\nPING x\r\n", [b"OK", b"OK"]),
        (b"  V2PING\n", [b"E_BAD_PROTOCOL"]),
        (b"  V1nope\n", [b"E_INVALID invalid command nope"]),
        (b"  V1REGISTER t\n", [b"E_INVALID client must IDENTIFY"]),
        (b"  V1" + said(b"x"), [b"E_BAD_BODY IDENTIFY failed to decode JSON body"]),
        (b"  V1" + said({**IDENTITY, "tcp_port": "1"}), [b"E_BAD_BODY IDENTIFY failed to decode JSON body"]),
        (b"  V1" + said({}), [b"E_BAD_BODY IDENTIFY missing fields"]),
        (b"  V1" + said(IDENTITY) + said(IDENTITY), [b"{", b"E_INVALID cannot IDENTIFY again"]),
        (b"  V1" + said(IDENTITY) + b"REGISTER\n", [b"{", b"E_INVALID REGISTER insufficient number of params"]),
        (b"  V1" + said(IDENTITY) + b"REGISTER b$\n", [b"{", b"E_BAD_TOPIC REGISTER topic name 'b$' is not valid"]),
        (
            b"  V1" + said(IDENTITY) + b"REGISTER t b$\n",
            [b"{", b"E_BAD_CHANNEL REGISTER channel name 'b$' is not valid"],
        ),
        (b"  V1" + said(IDENTITY) + b"REGISTER t c\nUNREGISTER t c\nUNREGISTER zz q\n", [b"{", b"OK", b"OK", b"OK"]),
    ],
)
def test_servers_are_answered_as_nsqlookupd_does(lookupd: LookupdProcess, sent: bytes, answers: list[bytes]) -> None:
    with socket.create_connection(lookupd.tcp, timeout=60) as connection, connection.makefile("rb") as received:
        connection.sendall(sent)
        with contextlib.suppress(OSError):  # who has been hung up on already is told here
            connection.shutdown(socket.SHUT_WR)
        found = []
        while size := received.read(4):
            answer = received.read(int.from_bytes(size, "big"))
            found.append(b"{" if answer.startswith(b"{") else answer)
    assert found == answers
