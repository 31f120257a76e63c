"""What a broker believes of others whose process is gone, until the metadata say it too."""

import pytest
from msgspec.structs import replace

from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.metadata.records import BrokerRemovedRecord
from ottla.peers.departed_brokers import BELIEVED_MS, DepartedBrokers
from ottla.runtime.timer import ManualTimer

EPOCH = 7


def cluster() -> MetadataImage:
    return MetadataImage(
        "c", brokers={broker_id: BrokerImage(broker_id, EPOCH, "h", 9092, None) for broker_id in (1, 2, 3)}
    )


def changed(image: MetadataImage, broker_id: int, **fields: object) -> MetadataImage:
    return replace(image, brokers={**image.brokers, broker_id: replace(image.brokers[broker_id], **fields)})


class World:
    def __init__(self) -> None:
        self.timer, self.image = ManualTimer(), cluster()
        self.told: list[set[int]] = []
        self.departed = DepartedBrokers(self.timer, lambda broker_ids: self.told.append(set(broker_ids)))

    def is_gone(self, broker_id: int, epoch: int = EPOCH) -> None:
        self.departed.add(broker_id, epoch, self.image)


def test_who_is_gone_is_told_once() -> None:
    world = World()
    world.is_gone(2)
    world.is_gone(2)
    world.is_gone(3)
    assert world.told == [{2}, {2, 3}]


def test_it_is_believed_for_a_while_only() -> None:
    world = World()
    world.is_gone(2)
    world.timer.advance(BELIEVED_MS - 1)
    assert world.told == [{2}]
    world.timer.advance(1)
    assert world.told == [{2}, set()]


@pytest.mark.parametrize("news", ["fenced", "started anew", "removed"])
def test_the_metadata_have_the_last_word(news: str) -> None:
    world = World()
    world.is_gone(2)
    world.departed.on_image(world.image)
    assert world.told == [{2}]
    if news == "removed":
        image, _ = apply_records(world.image, [BrokerRemovedRecord(2)])
    else:
        image = changed(world.image, 2, **{"fenced": True} if news == "fenced" else {"broker_epoch": EPOCH + 1})
    world.departed.on_image(image)
    assert world.told == [{2}, set()]
    world.timer.advance(BELIEVED_MS)
    assert world.told == [{2}, set()]


def test_what_is_known_already_or_was_said_of_an_earlier_life_is_no_news() -> None:
    world = World()
    world.is_gone(2, EPOCH - 1)
    world.is_gone(4)
    world.image = changed(world.image, 3, fenced=True)
    world.is_gone(3)
    assert world.told == []
