"""Sessions that came and went, and what they mean for the brokers of the image and for partitions."""

import logging
from uuid import UUID

import pytest
from msgspec.structs import replace

from ottla.metadata.controller.broker_registration import decide_registrations, flush_refusal
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import (
    BrokerRegisteredRecord,
    ConfigRecord,
    PartitionState,
    ReplicaDirectoriesRecord,
    TopicRecord,
    topic_id_text,
)
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store.interface import LiveBroker
from tests.unit.metadata.images import image_of

A = UUID(int=1)


def live(broker_id: int, broker_epoch: int, **said) -> LiveBroker:
    given = {"host": None, "port": 9092, "rack": "r", "incarnation": f"i{broker_id}-{broker_epoch}"} | said
    return LiveBroker(broker_id, broker_epoch, BrokerRegistration(**given).encode())


def known(broker_id, broker_epoch, *, directories=("d",), flush=True, fenced=False, incarnation="before"):
    return BrokerRegisteredRecord(
        broker_id, broker_epoch, "h", 9092, None, {}, incarnation, directories, flush, fenced, False
    )


def decided(image, sessions, own_id=1, *, takes_over=False):
    decision = decide_registrations(image, sessions, {}, own_id=own_id, takes_over=takes_over)
    after, _ = apply_records(image, decision.records)
    return after, decision


def test_who_came_is_registered_and_fenced_until_it_is_heard_and_who_went_is_fenced():
    image = image_of(brokers=(1, 2, 3))
    after, decision = decided(image, [live(1, 1), live(2, 9, host="b2", endpoints={"L": ("b2", 9092)}), live(4, 10)])
    assert {broker_id: broker.fenced for broker_id, broker in after.brokers.items()} == {
        1: False, 2: True, 3: True, 4: True
    }  # fmt: skip
    back = after.brokers[2]
    assert (back.broker_epoch, back.host, back.port, back.rack) == (9, "b2", 9092, "r")
    assert back.endpoints == {"L": ("b2", 9092)}
    assert [line.text for line in decision.lines] == ["broker 3 is fenced: its session has expired"]


def test_the_end_of_a_broker_that_said_that_it_stops_is_no_warning():
    image = image_of(brokers=(1, 2, 3))
    stopping = {**image.brokers, 3: replace(image.brokers[3], shutting_down=True)}
    _, decision = decided(replace(image, brokers=stopping), [live(1, 1)])
    assert [(line.level, line.text[:8]) for line in decision.lines] == [
        (logging.WARNING, "broker 2"),
        (logging.INFO, "broker 3"),
    ]


def test_nothing_is_decided_when_nobody_came_or_went():
    assert (
        decide_registrations(image_of(brokers=(1, 2)), [live(1, 1), live(2, 2)], {}, own_id=1, takes_over=False).records
        == ()
    )


def test_brokers_that_went_lead_nothing_and_what_was_in_sync_together_waits_for_any_of_them():
    led = PartitionState(2, 5, (2, 3, 1), (2, 3), 7)
    image = image_of(TopicRecord("a", A, (led,)), brokers=(1, 2, 3))
    after, _ = decided(image, [live(1, 1)])
    partition = after.partition("a", 0)
    assert partition.state == PartitionState(-1, 6, (2, 3, 1), (), 8, elr=(2, 3), last_known_leader=2)


def test_another_process_of_a_broker_is_another_leader():
    led = PartitionState(2, 5, (2, 1), (2, 1), 7)
    image = image_of(TopicRecord("a", A, (led,)), known(2, 2), brokers=(1,))
    after, decision = decided(image, [live(1, 1), live(2, 9, directories=("d",), previous_epoch=2)])
    assert after.partition("a", 0).state == PartitionState(1, 6, (2, 1), (1,), 8)
    assert "broker 2 was restarted" in decision.lines[0].text


def test_the_same_process_with_another_session_keeps_what_it_leads():
    led = PartitionState(2, 5, (2, 1), (2, 1), 7)
    image = image_of(TopicRecord("a", A, (led,)), known(2, 2, incarnation="same"), brokers=(1,))
    after, _ = decided(image, [live(1, 1), live(2, 9, incarnation="same", directories=("d",))])
    assert after.partition("a", 0).state == led
    assert (after.brokers[2].broker_epoch, after.brokers[2].fenced) == (9, False)


@pytest.mark.parametrize(
    ("said", "flush", "elr", "last"),
    [
        ({"previous_epoch": 2, "clean_since": 2}, True, (2,), 2),  # it stopped cleanly
        ({"previous_epoch": 5, "clean_since": 1}, False, (2,), 2),  # and again, in a session that nobody registered
        ({"previous_epoch": 5, "clean_since": 5}, False, (), 2),  # that one came after a crash
        ({}, True, (2,), 2),  # killed: all that it acknowledged was flushed
        ({}, False, (), 2),  # killed: it may miss some, and is still the last who led
        ({"previous_epoch": 1, "clean_since": 1}, True, (), -1),  # an old copy of its directory
        ({"directories": ("new",)}, True, (), -1),  # an empty one
        ({"directories": ("new", "d")}, True, (2,), 2),  # one more
    ],
)
def test_what_a_broker_has_in_its_directories_decides_whether_it_is_eligible(said, flush, elr, last):
    waiting = PartitionState(-1, 5, (2, 1), (), 7, elr=(2,), last_known_leader=2)
    image = image_of(TopicRecord("a", A, (waiting,)), known(2, 2, flush=flush, fenced=True), brokers=(1,))
    after, _ = decided(image, [live(1, 1), live(2, 9, **{"directories": ("d",), **said})])
    partition = after.partition("a", 0)
    assert (partition.elr, partition.last_known_leader, partition.leader) == (elr, last, -1)


def test_of_several_directories_only_what_lay_in_the_one_that_was_replaced_is_lost():
    first, second = UUID(int=1), UUID(int=2)
    waiting = PartitionState(-1, 5, (2, 1), (), 7, elr=(2,), last_known_leader=2)
    had = known(2, 2, directories=(topic_id_text(first), topic_id_text(second)), fenced=True)
    places = ReplicaDirectoriesRecord(2, A, ((0, first), (1, second)))
    image = image_of(TopicRecord("a", A, (waiting, waiting, waiting)), had, places, brokers=(1,))
    after, _ = decided(image, [live(1, 1), live(2, 9, directories=(topic_id_text(second),))])
    assert [each.elr for each in after.topic("a").partitions] == [(), (2,), ()]
    later, _ = decided(image, [live(1, 1), live(2, 9, directories=(topic_id_text(first),))])
    assert [each.elr for each in later.topic("a").partitions] == [(2,), (2,), (2,)]


def test_a_broker_that_flushes_otherwise_than_those_that_run_is_refused():
    image = image_of(brokers=(1,))
    after, decision = decided(image, [live(1, 1), live(2, 9, flush=False)])
    assert set(after.brokers) == {1}
    refusal = decision.result[2]
    assert refusal.broker_epoch == 9
    assert "start it with log.flush.before.ack=true" in refusal.reason
    assert flush_refusal(image, 2, flush=True) is None
    assert flush_refusal(image_of(known(1, 1, fenced=True), brokers=()), 2, flush=False) is None
    assert flush_refusal(image_of(known(2, 1), brokers=()), 2, flush=False) is None


def test_a_registration_that_cannot_be_read_stops_nobody_else():
    after, decision = decided(image_of(brokers=(1,)), [live(1, 1), LiveBroker(2, 9, b"{"), live(3, 10)])
    assert set(after.brokers) == {1, 3}
    assert decision.result[2].broker_epoch == 9


def test_a_broker_that_is_alone_is_there_at_once_and_what_only_it_holds_stays_as_it_is():
    alone = PartitionState(1, 0, (1,), (1,), 0)
    shared = PartitionState(2, 5, (1, 2), (2,), 7, elr=(1,))
    offline = PartitionState(-1, 5, (1,), (), 7, elr=(1,), last_known_leader=1)
    image = image_of(TopicRecord("a", A, (alone, shared, offline)), known(1, 1), brokers=(2, 3))
    after, _ = decided(image, [live(1, 9, directories=("d",))], takes_over=True)
    assert [each.state for each in after.topic("a").partitions] == [
        alone,
        PartitionState(-1, 6, (1, 2), (), 8, elr=(1, 2), last_known_leader=2)._replace(
            leader=1, leader_epoch=7, isr=(1,), partition_epoch=9, elr=(), last_known_leader=-1
        ),
        PartitionState(1, 6, (1,), (1,), 8),
    ]
    assert not after.brokers[1].fenced
    assert after.brokers[2].fenced
    assert 3 not in after.brokers  # it held nothing


def test_a_controller_that_is_not_alone_fences_who_has_no_session_at_once():
    led = PartitionState(1, 5, (1, 2), (1, 2), 7)
    image = image_of(TopicRecord("a", A, (led,)), brokers=(1, 2, 3))
    after, _ = decided(image, [live(2, 2), live(3, 3)], own_id=3, takes_over=True)
    assert after.partition("a", 0).state == PartitionState(2, 6, (1, 2), (2,), 8)
    assert set(after.live_brokers()) == {2, 3}


HERE = {"PLAINTEXT": ("b2", 9092)}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"min_isr": 1}, "broker 2 has min.insync.replicas=1, and broker 1, which runs, has 2: start it with"),
        ({"endpoints": {"OTHER": ("b2", 1)}}, "has no listener PLAINTEXT, by which broker 1 reaches others"),
        ({"endpoints": HERE | {"B": ("b1", 9092)}}, "its listener B is reached at b1:9092, and so does broker 1"),
    ],
)
def test_a_broker_that_contradicts_one_that_runs_is_refused_with_what_to_do(said, reason):
    image = image_of(brokers=(1,))
    running = live(1, 1, min_isr=2, between="PLAINTEXT", endpoints={"PLAINTEXT": ("b1", 9092)})
    fits = {"min_isr": 2, "endpoints": HERE}
    after, decision = decided(image, [running, live(2, 9, **fits, between="PLAINTEXT")])
    assert decision.result == {}
    assert 2 in after.brokers
    after, decision = decided(image, [running, live(2, 9, **fits | said)])
    assert reason in decision.result[2].reason
    assert 2 not in after.brokers


def test_what_all_brokers_are_told_stands_above_what_each_was_started_with():
    image, _ = apply_records(image_of(brokers=(1,)), [ConfigRecord(4, "", "min.insync.replicas", "2")])
    _, decision = decided(image, [live(1, 1, min_isr=2), live(2, 9, min_isr=1)])
    assert decision.result == {}


def test_a_release_that_does_not_say_is_not_compared():
    _, decision = decided(image_of(brokers=(1,)), [live(1, 1), live(2, 9, min_isr=3, endpoints=HERE)])
    assert decision.result == {}
