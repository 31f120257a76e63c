"""What is wrong with a compacted topic is found: lost and old values, wrong keys, changed bytes, another order."""

import pytest

from chaos.history import Send
from chaos.keyed_producer import KEYS, TOPIC, check_compacted, key_of
from chaos.read_back import ReadRecord
from ottla.simulation.anomaly import Anomaly
from ottla.simulation.history import Outcome
from workload.payload import Payload, value_of


def sent(number: int, outcome: Outcome = Outcome.OK) -> Send:
    return Send(Payload("keyed", number), (TOPIC, 0), 0.0, outcome, number)


def kept(number: int, key: bytes | None = None) -> ReadRecord:
    return ReadRecord(number, key or key_of(number), value_of("keyed", number, 100))


def found(sends: list[Send], records: list[ReadRecord]) -> list[Anomaly]:
    return [violation.anomaly for violation in check_compacted(sends, records)]


def test_the_newest_of_each_key_is_enough() -> None:
    sends = [sent(number) for number in range(3 * KEYS)]
    assert found(sends, [kept(number) for number in range(2 * KEYS, 3 * KEYS)]) == []


def test_a_newer_value_than_the_last_acknowledged_one_is_fine() -> None:
    assert found([sent(0), sent(KEYS, Outcome.UNKNOWN)], [kept(KEYS)]) == []


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([kept(0)], Anomaly.LOST),
        ([], Anomaly.LOST),
        ([kept(2 * KEYS), kept(KEYS)], Anomaly.REORDERED),
        ([kept(KEYS, b"another"), kept(2 * KEYS)], Anomaly.CHANGED),
        ([ReadRecord(3, key_of(3), b"no such value"), kept(2 * KEYS)], Anomaly.CHANGED),
    ],
)
def test_what_is_wrong_is_found(records: list[ReadRecord], kind: Anomaly) -> None:
    assert found([sent(0), sent(KEYS)], records) == [kind]
