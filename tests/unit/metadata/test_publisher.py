import logging

from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from tests.unit.metadata.images import topic_record


async def test_subscribers_are_called_in_order_and_awaited():
    publisher = MetadataPublisher(MetadataImage("c"))
    calls = []

    async def slow(image, delta):
        calls.append("slow")

    publisher.subscribe(slow)
    publisher.subscribe(lambda image, delta: calls.append("fast"))
    image, delta = apply_records(publisher.image, [topic_record("a", 1)])
    await publisher.publish(image, delta)
    assert calls == ["slow", "fast"]
    assert publisher.image is image


async def test_a_subscriber_that_fails_is_logged_and_stops_nobody(caplog):
    publisher = MetadataPublisher(MetadataImage("c"))
    calls = []

    def broken(image, delta):
        raise OSError("the disk is full")

    publisher.subscribe(broken)
    publisher.subscribe(lambda image, delta: calls.append("after"))
    image, delta = apply_records(publisher.image, [topic_record("a", 1)])
    with caplog.at_level(logging.ERROR):
        await publisher.publish(image, delta)
    assert calls == ["after"]
    assert publisher.image is image
    assert "the disk is full" in caplog.text
