"""Each anomaly is found where it is planted in a clean history, and nothing else is; a clean history has none."""

import inspect
import re

import pytest
from msgspec.structs import replace

from ottla.simulation import anomalies
from ottla.simulation.anomalies import check
from ottla.simulation.anomaly import Anomaly
from ottla.simulation.comparison import value_name
from ottla.simulation.history import Commit, History, Outcome, Poll, Send
from ottla.simulation.producer_batches import VALUES_MAX
from ottla.simulation.running import run
from ottla.simulation.schedule import schedule_of

T = ("t", 0)
OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN


def send(number: int, offset: int, *, producer: str = "p", outcome: Outcome = OK, at: float = 0) -> Send:
    return Send(producer, number, T, f"{producer}{number}", outcome, offset, 1, 0, at, at + 0.5 if at else 0)


def poll(*records: tuple[int, str], reader: str = "r", at: float = 10, high_watermark: int = 3) -> Poll:
    return Poll(reader, T, records, 1, 0, high_watermark, invoked=at, completed=at + 0.5)


SENDS = (send(0, 0, at=1), send(1, 1, at=2), send(2, 2, at=3))
POLLS = (poll((0, "p0"), (1, "p1")), poll((2, "p2"), at=11))
LOG = ((0, "p0"), (1, "p1"), (2, "p2"))
COMMITS = (
    Commit("g", T, 1, OK, invoked=1, completed=2),
    Commit("g", T, 2, OK, invoked=3, completed=4),
    Commit("g", T, 2, OK, is_fetch=True, invoked=5, completed=6),
)
CLEAN = History(SENDS, POLLS, COMMITS, {T: {1: LOG, 2: LOG, 3: LOG}})


def final(*records: tuple[int, str]) -> dict[tuple[str, int], dict[int, tuple[tuple[int, str], ...]]]:
    return {T: {1: records, 2: records}}


PLANTED = {
    Anomaly.INCONSISTENT_OFFSET: replace(CLEAN, polls=(*POLLS, poll((1, "p2"), reader="s"))),
    Anomaly.LOST: replace(CLEAN, polls=(), final=final((0, "p0"), (1, "p1"))),
    Anomaly.UNREAD: replace(CLEAN, sends=(*SENDS[:2], send(2, -1, outcome=UNKNOWN)), final=final(*LOG[:2])),
    Anomaly.DUPLICATE: replace(CLEAN, final=final(*LOG, (3, "p1"))),
    Anomaly.REORDERED: replace(
        CLEAN, sends=(SENDS[0], send(1, 2), send(2, 1)), polls=(), final=final((0, "p0"), (1, "p2"), (2, "p1"))
    ),
    Anomaly.REAL_TIME_INVERSION: replace(
        CLEAN,
        sends=(*SENDS[:1], send(1, 2, at=2), replace(send(0, 1, producer="q", at=4), leader_epoch=1)),
        polls=(),
        final=final((0, "p0"), (1, "q0"), (2, "p1")),
    ),
    Anomaly.PHANTOM: replace(CLEAN, final=final(*LOG, (3, "x"))),
    Anomaly.REFUSED: replace(CLEAN, sends=(*SENDS, send(3, -1, outcome=FAIL)), final=final(*LOG, (3, "p3"))),
    Anomaly.WRONG_PARTITION: replace(
        CLEAN,
        sends=(*SENDS, replace(send(3, -1, outcome=UNKNOWN), partition=("t", 1))),
        final=final(*LOG, (3, "p3")),
    ),
    Anomaly.READ_FROM_FUTURE: replace(CLEAN, polls=(poll((0, "p0"), at=0.2),)),
    Anomaly.READ_ABOVE_HIGH_WATERMARK: replace(CLEAN, polls=(poll((0, "p0"), (1, "p1"), high_watermark=1),)),
    Anomaly.HIGH_WATERMARK_FELL: replace(CLEAN, polls=(*POLLS, poll(at=20, high_watermark=2))),
    Anomaly.NONMONOTONIC_POLL: replace(CLEAN, polls=(*POLLS, poll((1, "p1"), at=20))),
    Anomaly.SKIPPED: replace(CLEAN, polls=(poll((0, "p0")), poll((2, "p2"), at=20))),
    Anomaly.TWO_LEADERS: replace(CLEAN, sends=(*SENDS[:2], replace(SENDS[2], node=2))),
    Anomaly.EPOCH_FELL: replace(CLEAN, polls=(replace(POLLS[0], leader_epoch=5), POLLS[1])),
    Anomaly.REPLICAS_DIFFER: replace(CLEAN, final={T: {1: LOG, 2: LOG[:2]}}),
    Anomaly.GAP: replace(CLEAN, sends=(SENDS[0], SENDS[2]), polls=(), final=final(LOG[0], LOG[2])),
    Anomaly.COMMIT_LOST: replace(CLEAN, commits=(*COMMITS[:2], replace(COMMITS[2], offset=1))),
    Anomaly.COMMIT_INVENTED: replace(CLEAN, commits=(*COMMITS[:2], replace(COMMITS[2], offset=7))),
}


COMES_WITH = {Anomaly.INCONSISTENT_OFFSET: {Anomaly.UNREAD}}
"""Of two values at an offset one is not there in the end."""


def test_everything_that_is_looked_for_is_planted() -> None:
    named = re.findall(r"Anomaly\.([A-Z_]+)", inspect.getsource(anomalies))

    assert {anomaly.name for anomaly in PLANTED} == set(named)


def test_a_clean_history_has_no_anomaly() -> None:
    assert check(CLEAN) == []


@pytest.mark.parametrize("anomaly", PLANTED, ids=lambda anomaly: anomaly.name.lower())
def test_a_planted_anomaly_is_found_and_nothing_else(anomaly: Anomaly) -> None:
    assert {violation.anomaly for violation in check(PLANTED[anomaly])} == {anomaly, *COMES_WITH.get(anomaly, ())}


def test_what_nobody_knows_of_may_be_there_or_not() -> None:
    unknown = (*SENDS, send(3, -1, outcome=UNKNOWN))

    assert check(replace(CLEAN, sends=unknown)) == []
    assert check(replace(CLEAN, sends=unknown, final=final(*LOG, (3, "p3")))) == []


def test_a_reader_that_seeks_may_go_back() -> None:
    assert check(replace(CLEAN, polls=(*POLLS, replace(poll((0, "p0"), at=20), sought=True)))) == []


def test_a_value_may_be_there_twice_where_producers_are_not_idempotent() -> None:
    assert check(replace(CLEAN, final=final(*LOG, (3, "p1")), is_idempotent=False)) == []


def test_a_commit_that_was_under_way_may_be_told() -> None:
    late = Commit("g", T, 1, OK, invoked=1, completed=9)

    assert check(replace(CLEAN, commits=(late, COMMITS[1], replace(COMMITS[2], offset=1)))) == []


def test_histories_of_simulated_clusters_have_no_anomaly() -> None:
    checked = 0
    for seed in range(150):
        world = run(schedule_of(seed)).world
        if world.ledgers[0].floor_epoch:
            continue
        sends = []
        for producer in world.producers:
            acknowledged = dict(producer.acknowledged)
            for number in range(producer.next_number):
                value = producer.index * VALUES_MAX + number
                offset = acknowledged.get(value, -1)
                outcome = UNKNOWN if offset < 0 else OK
                sends.append(Send(str(producer.index), number, T, value_name(value), outcome, offset))
        polls = [
            Poll("r", T, ((offset, value_name(value)),))
            for partition, offset, value in world.consumer.read
            if partition == 0
        ]
        replicas = {
            broker_id: [
                (offset, value_name(value))
                for offset, (_, value) in enumerate(world.brokers[broker_id].replicas[0].records)
            ]
            for broker_id in world.image.partitions[0].replicas
        }
        assert check(History(sends, polls, (), {T: replicas}, world.swarm.idempotent)) == []
        checked += len(sends)
    assert checked > 300
