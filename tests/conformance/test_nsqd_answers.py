"""Every exchange of `nsqd_exchanges` with a broker, beside what nsqd 1.3.0 answered."""

import json
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.conformance.nsqd_exchanges import all_answers
from tests.system.test_nsq import address, http_address

ANSWERS = Path(__file__).parent / "facts" / "nsqd_answers.json"
SIZES = "the sizes of the messages do not go with that of the body: nsqd reads on behind the body"
PATHS = "nsqd sends to the clean path, which clients do not need"
LOOKUPD = "an address is looked at before it is used"
DIFFERENCES = {
    "GET //ping '' 0": PATHS,
    "GET /../ping '' 0": PATHS,
    "POST /pub/ '' 0": PATHS,
    "PUT /config/nsqlookupd_tcp_addresses '[\"x\"]' 5": LOOKUPD,
    "PUT /config/nsqlookupd_tcp_addresses 'null' 4": LOOKUPD,
    "GET /config/nsqlookupd_tcp_addresses '' 0": LOOKUPD,
    "MPUB %t\n\x00\x00\x00\t\x00\x00\x00\x02\x00\x00\x00\x01x": SIZES,
}


def test_a_broker_answers_as_nsqd_does(tmp_path: Path) -> None:
    expected = json.loads(ANSWERS.read_text())
    listeners = {"nsq.listener": "127.0.0.1:0", "nsq.http.listener": "127.0.0.1:0"}
    with BrokerProcess(tmp_path / "data", listeners) as broker:
        found = all_answers(address(broker), http_address(broker), "run")
    assert [each[0] for each in found] == [each[0] for each in expected], "the exchanges changed: record nsqd's answers"
    differs = {mine[0]: (mine[1], theirs[1]) for mine, theirs in zip(found, expected, strict=True) if mine != theirs}
    assert differs.keys() == DIFFERENCES.keys(), {each: differs[each] for each in differs if each not in DIFFERENCES}
    assert len(expected) > 800
