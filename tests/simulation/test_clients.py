"""Producers of the simulated cluster send as real ones do."""

from ottla.simulation.clients import IN_FLIGHT_MAX, Producer, produce
from ottla.simulation.running import run
from ottla.simulation.schedule import schedule_of


def sent_by(producer: Producer) -> list[int]:
    world = run(schedule_of(0)).world
    world.network.clear()
    for _ in range(2 * IN_FLIGHT_MAX):
        produce(world, producer, 1, 1, at_once=False)
    return sorted({message[4] for message in world.network})


def test_before_the_first_acknowledgement_one_value_is_on_its_way() -> None:
    assert sent_by(Producer(9, 0, idempotent=True)) == [0]


def test_as_many_values_are_on_their_way_as_brokers_remember() -> None:
    producer = Producer(9, 0, idempotent=True)
    producer.next_number, producer.acknowledged = 1, [(0, 0)]

    assert sent_by(producer) == [1, 2, 3, 4, 5]


def test_nothing_is_sent_that_is_further_from_the_oldest_outstanding_value_though_others_are_acknowledged() -> None:
    producer = Producer(9, 0, idempotent=True)
    producer.next_number, producer.outstanding = 5, [1]
    producer.acknowledged = [(0, 0), (2, 2), (3, 3), (4, 4)]

    assert sent_by(producer) == [1, 5]
