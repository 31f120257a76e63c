"""Brokers that died stay with clients for a while; those that stopped do not."""

import pytest
from msgspec.structs import replace

from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.peers.lingering_brokers import LINGERS_MS, LingeringBrokers
from ottla.runtime.timer import ManualTimer

THREE = MetadataImage("c", brokers={each: BrokerImage(each, 7, "h", 9092, None) for each in (1, 2, 3)})


def changed(image: MetadataImage, broker_id: int, **fields: object) -> MetadataImage:
    return replace(image, brokers={**image.brokers, broker_id: replace(image.brokers[broker_id], **fields)})


class World:
    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.told: list[set[int]] = []
        self.lingering = LingeringBrokers(self.timer, lambda broker_ids: self.told.append(set(broker_ids)))
        self.lingering.on_image(THREE)


def test_who_died_lingers_for_a_while() -> None:
    world = World()
    world.lingering.on_image(changed(THREE, 2, fenced=True))
    world.timer.advance(LINGERS_MS - 1)
    assert world.told == [{2}]
    world.timer.advance(1)
    assert world.told == [{2}, set()]


def test_each_has_a_while_of_its_own() -> None:
    world = World()
    first = changed(THREE, 2, fenced=True)
    world.lingering.on_image(first)
    world.timer.advance(LINGERS_MS - 1)
    world.lingering.on_image(changed(first, 3, fenced=True))
    world.timer.advance(1)
    assert world.told == [{2}, {2, 3}, {3}]


@pytest.mark.parametrize("news", ["serves", "removed"])
def test_it_ends_with_the_death(news: str) -> None:
    world = World()
    world.lingering.on_image(changed(THREE, 2, fenced=True))
    without = replace(THREE, brokers={each: THREE.brokers[each] for each in (1, 3)})
    world.lingering.on_image(THREE if news == "serves" else without)
    assert world.told == [{2}, set()]
    world.timer.advance(LINGERS_MS)
    assert world.told == [{2}, set()]


def test_who_stopped_by_itself_and_who_was_never_there_go_at_once() -> None:
    world = World()
    stopping = changed(THREE, 2, shutting_down=True)
    world.lingering.on_image(stopping)
    world.lingering.on_image(changed(stopping, 2, fenced=True))
    world.lingering.on_image(
        replace(THREE, brokers={**THREE.brokers, 4: BrokerImage(4, 9, "h", 9092, None, fenced=True)})
    )
    assert world.told == []
