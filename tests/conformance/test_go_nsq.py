"""go-nsq's own tests, as they are in its module, against a broker in place of nsqd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.peer_programs import go_nsq_sources
from tests.conformance.needed_peers import needed_peer
from tests.system.test_nsq import LISTENERS, address, http_address

WITHIN_S = 600


def sources_that_ask(tcp_port: int, http_port: int, folder: Path) -> Path:
    """A copy of its sources whose tests use these ports; they name nsqd's."""
    shutil.copytree(go_nsq_sources(), folder, copy_function=shutil.copyfile)
    for test in folder.glob("*_test.go"):
        test.write_text(re.sub(r"\b4150\b", str(tcp_port), re.sub(r"\b4151\b", str(http_port), test.read_text())))
    return folder


@pytest.mark.peer
@pytest.mark.long
def test_go_nsq_passes_its_own_tests(tmp_path: Path) -> None:
    with needed_peer():
        certificates = go_nsq_sources() / "test"
    key = tmp_path / "server.key"
    key.write_bytes((certificates / "server.key").read_bytes())
    key.chmod(0o600)  # the module's is readable to all, which a broker refuses
    settings = {
        **LISTENERS,
        "nsq.tls.cert": str(certificates / "server.pem"),
        "nsq.tls.key": str(key),
        "nsq.tls.root.ca.file": str(certificates / "ca.pem"),
    }
    with BrokerProcess(tmp_path / "data", settings) as broker:
        folder = sources_that_ask(address(broker)[1], http_address(broker)[1], tmp_path / "go-nsq")
        done = subprocess.run(
            ["go", "test", "-v", "-count=1", "-mod=mod"],
            cwd=folder,
            env={**os.environ, "GODEBUG": "x509sha1=1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
    passed = re.findall(r"^--- PASS: (\w+)", done.stdout, re.MULTILINE)
    assert done.returncode == 0, (
        "\n".join(re.findall(r"^.*FAIL.*$|^panic.*$", done.stdout, re.MULTILINE)) or done.stderr
    )
    assert "TestConsumerTLSSnappy" in passed
    assert len(passed) >= 20, passed
