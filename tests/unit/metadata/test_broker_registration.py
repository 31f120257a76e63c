import json

from ottla.metadata.controller.broker_registration import decide_registrations
from ottla.metadata.image.delta import apply_records
from ottla.metadata.store.interface import LiveBroker
from tests.unit.metadata.images import image_of


def live(broker_id: int, broker_epoch: int, host: str | None = None) -> LiveBroker:
    return LiveBroker(broker_id, broker_epoch, json.dumps({"host": host, "port": 9092, "rack": "r"}).encode())


def test_the_metadata_shows_the_brokers_that_are_there():
    image = image_of(brokers=(1, 2, 3))
    records = decide_registrations(image, [live(1, 1), live(2, 9, "b2"), live(4, 10)])
    after, delta = apply_records(image, records)
    assert set(after.brokers) == {1, 2, 4}
    assert delta.changed_brokers == {2, 3, 4}
    back = after.brokers[2]
    assert (back.broker_epoch, back.host, back.port, back.rack) == (9, "b2", 9092, "r")


def test_nothing_is_decided_when_nobody_came_or_went():
    assert decide_registrations(image_of(brokers=(1, 2)), [live(1, 1), live(2, 2)]) == []
