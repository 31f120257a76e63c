"""NSQ's web interface in a browser, over a broker's HTTP API and the broker's own lookup service."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.conformance.clients.peer_programs import chromium_program, nsqadmin_program
from tests.conformance.needed_peers import needed_peer
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, address
from tools.ports import free_ports

SETTINGS = {**LISTENERS, "nsq.lookupd.http.listener": "127.0.0.1:0", "nsq.broadcast.address": "127.0.0.1"}


class Nsqadmin:
    """It runs; what it shows is read as a browser draws it."""

    def __init__(self, port: int, browser: str, profile: Path) -> None:
        self._port = port
        self._browser = browser
        self._profile = profile

    def page(self, path: str) -> str:
        """The text of a page once its scripts have run, without tags, its white space as single blanks."""
        command = [self._browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self._profile}"]
        command += ["--virtual-time-budget=10000", "--dump-dom", f"http://127.0.0.1:{self._port}{path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        _, _, container = done.stdout.partition('<div id="container">')
        text = re.sub(r"<[^>]*>", " ", re.sub(r"<script.*?</script>", " ", container, flags=re.DOTALL))
        return " ".join(text.split())

    def wait_for(self, path: str, *texts: str) -> str:
        """The text of a page that has all of these."""
        seen = ""

        def has_them() -> bool:
            nonlocal seen
            seen = self.page(path)
            return all(each in seen for each in texts)

        wait_until(has_them, f"{path} shows {texts}")
        return seen

    def press(self, path: str, **said: Any) -> int:
        """What a button of a page does."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", f"/api{path}", json.dumps(said))
            return connection.getresponse().status
        finally:
            connection.close()

    def answers(self) -> bool:
        """Whether it listens by now."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == 200
        except ConnectionError:
            return False
        finally:
            connection.close()


@contextmanager
def nsqadmin(broker: BrokerProcess, directory: Path) -> Iterator[Nsqadmin]:
    """It, over the lookup service of a broker."""
    with needed_peer():
        program, browser = nsqadmin_program(), chromium_program()
    found = re.search(r"nsq-lookupd (\S+:\d+)", broker.ready_line)
    assert found is not None, broker.ready_line
    (port,) = free_ports(1)
    command = [str(program), f"--http-address=127.0.0.1:{port}", f"--lookupd-http-address={found[1]}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        running = Nsqadmin(port, browser, directory / "profile")
        wait_until(running.answers, "nsqadmin listens")
        yield running
    finally:
        process.terminate()
        process.wait()


@pytest.mark.peer
def test_nsqadmin_shows_and_changes_topics_and_channels(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, nsqadmin(broker, tmp_path) as admin:
        publisher = NsqClient(address(broker))
        publisher.publish("clicks", b"m0", b"m1", b"m2")
        reader = NsqClient(address(broker))
        reader.identify(client_id="worker", hostname="a-host", user_agent="by-hand")
        reader.subscribe("clicks", "archive", 1).message()
        admin.wait_for("/", "clicks")
        admin.wait_for("/nodes", "127.0.0.1", str(address(broker)[1]))
        admin.wait_for("/topics/clicks", "Pause Topic", "archive")
        admin.wait_for("/topics/clicks/archive", "Pause Channel", "a-host", "by-hand")
        assert admin.press("/topics/clicks/archive", action="pause") == 200
        admin.wait_for("/topics/clicks/archive", "UnPause Channel")
        assert admin.press("/topics/clicks/archive", action="unpause") == 200
        assert admin.press("/topics/clicks/archive", action="empty") == 200
        assert admin.press("/topics", topic="made", channel="here") == 200
        admin.wait_for("/topics/made", "here")
