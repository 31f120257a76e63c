"""Every exchange of `nsqd_auth_exchanges` with a broker, beside what nsqd 1.3.0 answered."""

import json
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.conformance.nsqd_auth_exchanges import all_answers
from tests.system.nsq_auth_server import auth_server
from tests.system.test_nsq import address

ANSWERS = Path(__file__).parent / "facts" / "nsqd_auth_answers.json"


def test_a_broker_that_asks_an_auth_server_answers_as_nsqd_does(tmp_path: Path) -> None:
    expected = json.loads(ANSWERS.read_text())
    with auth_server() as server:
        settings = {"nsq.listener": "127.0.0.1:0", "nsq.auth.http.addresses": server.address}
        with BrokerProcess(tmp_path / "data", settings) as broker:
            found = all_answers(address(broker), "run")
    assert [each[0] for each in found] == [each[0] for each in expected], "the exchanges changed: record nsqd's answers"
    differs = [(mine[0], mine[1], theirs[1]) for mine, theirs in zip(found, expected, strict=True) if mine != theirs]
    assert not differs
