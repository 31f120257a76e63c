"""Exchanges of `nsqd_tls_exchanges` with a broker, beside what nsqd 1.3.0 answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.nsqd_tls_exchanges import SERVERS, Certificates, Server, http_answers, tcp_answers
from tests.conformance.test_nsqd_answers import DIFFERENCES
from tests.system.test_nsq import address, http_address
from tools.ports import free_ports

ANSWERS = Path(__file__).parent / "facts" / "nsqd_tls_answers.json"


def differing(directory: Path, which: str, *, all_of_them: bool) -> list[Any]:
    """What a broker answers otherwise than nsqd did: each with both answers."""
    expected = {tuple(each[:3]): each[3] for each in json.loads(ANSWERS.read_text())}
    certificates = Certificates(directory)
    settings = {f"nsq.{name}": value for name, value in certificates.server_options(which).items()}
    (port,) = free_ports(1)
    settings |= {"nsq.listener": "127.0.0.1:0", "nsq.http.listener": "127.0.0.1:0"}
    settings["nsq.https.listener"] = f"127.0.0.1:{port}"
    with BrokerProcess(directory / "data", settings) as broker:
        server = Server(address(broker), http_address(broker), ("127.0.0.1", port))
        found = tcp_answers(server, which, certificates, all_of_them=all_of_them)
        found += http_answers(server, which, certificates)
    assert len(found) > 50
    differs = [(each, expected[tuple(each[:3])]) for each in found if each[3] != expected[tuple(each[:3])]]
    return [each for each in differs if each[0][2] not in DIFFERENCES]


@pytest.mark.parametrize("which", SERVERS)
def test_a_broker_answers_over_tls_as_nsqd_does(tmp_path: Path, which: str) -> None:
    assert not differing(tmp_path, which, all_of_them=False)


@pytest.mark.long
@pytest.mark.parametrize("which", SERVERS)
def test_a_broker_answers_all_commands_over_tls_as_nsqd_does(tmp_path: Path, which: str) -> None:
    assert not differing(tmp_path, which, all_of_them=True)
