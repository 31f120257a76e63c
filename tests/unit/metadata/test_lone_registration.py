"""A broker that is alone, and always was."""

from uuid import UUID

import pytest

from ottla.metadata.controller.lone_registration import decide_lone_registration
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import BrokerRegisteredRecord, PartitionState, TopicRecord
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store.interface import LiveBroker
from tests.unit.metadata.images import image_of

A = UUID(int=1)
ALONE = PartitionState(1, 0, (1,), (1,), 0)
SESSION = LiveBroker(1, 9, BrokerRegistration(host="h", port=9092, directories=("d",)).encode())


def test_it_is_registered_and_there_at_once_and_what_it_leads_stays():
    image = image_of(TopicRecord("a", A, (ALONE, ALONE)), brokers=(1, 2))
    records = decide_lone_registration(image, [SESSION], 1)
    after, delta = apply_records(image, records or ())
    assert list(after.brokers) == [1], "the other one held nothing"
    broker = after.brokers[1]
    assert (broker.broker_epoch, broker.host, broker.directories, broker.fenced) == (9, "h", ("d",), False)
    assert delta.touched_topics == {}
    assert decide_lone_registration(after, [SESSION], 1) == ()


@pytest.mark.parametrize(
    ("state", "sessions", "brokers"),
    [
        (ALONE, [SESSION, LiveBroker(2, 10, SESSION.registration)], (1,)),
        (ALONE, [LiveBroker(2, 10, SESSION.registration)], (1,)),
        (PartitionState(1, 0, (1, 2), (1,), 0), [SESSION], (1, 2)),
        (PartitionState(-1, 1, (1,), (), 1, elr=(1,), last_known_leader=1), [SESSION], (1,)),
        (PartitionState(2, 0, (2,), (2,), 0), [SESSION], (1, 2)),
    ],
)
def test_where_there_were_others_there_is_more_to_decide(state, sessions, brokers):
    assert decide_lone_registration(image_of(TopicRecord("a", A, (state,)), brokers=brokers), sessions, 1) is None


def test_a_broker_that_was_fenced_is_not_there_by_itself():
    fenced = BrokerRegisteredRecord(1, 9, "h", 9092, None, fenced=True)
    assert decide_lone_registration(image_of(fenced, brokers=()), [SESSION], 1) is None
