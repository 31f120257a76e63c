"""Who may not, and what is wrong, is answered as by a real Kafka 4.3.1 with its StandardAuthorizer: the same requests
to both, one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.kafka_broker import kafka_broker
from tests.conformance.needed_peers import needed_peer
from tests.conformance.security_answers import PARTS, SETTINGS
from tools.peers import kafka_jars

DIFFERENT = {
    "acls: create of any type": "Kafka fails with UNKNOWN_SERVER_ERROR",
    "acls: create that matches": "as before",
    "acls: create of any pattern": "as before",
    "acls: create of any operation": "as before",
    "acls: create of any permission": "as before",
    "acls: create several": "as before, for all of the request",
    "users: set two mechanisms": "of a user in one request, as Kafka's documentation has it; Kafka refuses the second",
    "users: set and removed": "of both reasons Kafka gives the other",
    "denials: metadata by name, who may describe all": "a topic that there is not has no operations",
    "users: described": "there is one more, as before",
    "users: described by name": "as before",
    "users: removed": "as before",
    "users: described afterwards": "as before",
}
"""Answers that are another than Kafka's, and why."""

KAFKAS = {
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


@pytest.mark.long
@pytest.mark.peer
def test_every_answer_is_that_of_kafka_or_another_for_a_reason_that_is_written_down(tmp_path: Path) -> None:
    with needed_peer():
        kafka_jars()
    (tmp_path / "kafka").mkdir()

    ours = BrokerProcess(tmp_path / "ottla", SETTINGS, protocol="SASL_PLAINTEXT").start()
    try:
        with (
            kafka_broker(tmp_path / "kafka", {**SETTINGS, **KAFKAS}, "SASL_PLAINTEXT") as port,
            ThreadPoolExecutor() as pool,
        ):
            both = [pool.submit(_played, each) for each in (port, ours.port)]
            kafkas, ottlas = (each.result() for each in both)
    finally:
        ours.stop()
    differing = {name: (kafkas[name], ottlas[name]) for name in kafkas if kafkas[name] != ottlas[name]}
    unexpected = {name: answers for name, answers in differing.items() if name not in DIFFERENT}
    assert unexpected == {}, "\n".join(f"{name}\n  Kafka {a}\n  ours  {b}" for name, (a, b) in unexpected.items())
    assert DIFFERENT.keys() <= differing.keys()


def _played(port: int) -> dict[str, Any]:
    return {f"{part}: {name}": answer for part, script in PARTS.items() for name, answer in script(port)}
