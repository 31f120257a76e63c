import pytest

from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.records import BrokerRemovedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError


async def test_a_broker_that_started_is_registered_and_the_controller(start_broker):
    broker = await start_broker(node_id="7")
    (registered,) = broker.loader.image.brokers.values()
    assert (registered.broker_id, registered.host, registered.port) == (7, None, 9092)
    assert broker.loader.image.controller_id == 7
    assert [live.broker_id for live in await broker.store.live_brokers()] == [7]


async def test_a_broker_that_comes_back_has_a_higher_epoch(start_broker):
    first = await start_broker()
    before = first.loader.image.brokers[1].broker_epoch
    await first.close()
    second = await start_broker()
    assert second.loader.image.brokers[1].broker_epoch > before


async def test_after_the_end_nothing_is_decided(start_broker):
    broker = await start_broker()
    await broker.close()
    with pytest.raises(ApiError) as refused:
        await broker.controller.create_topics([NewTopic("a")])
    assert refused.value.code == ErrorCode.NOT_CONTROLLER


async def test_a_controller_that_resigned_decides_no_more(start_broker):
    broker = await start_broker()
    broker.controller.resign()
    with pytest.raises(ApiError) as refused:
        await broker.controller.create_topics([NewTopic("a")])
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert broker.loader.image.topic("a") is None


async def test_records_of_another_controller_are_acted_upon_as_ones_own(start_broker):
    broker = await start_broker()
    seen = []
    broker.loader.publisher.subscribe(lambda image, delta: seen.append(delta.changed_brokers))
    end_offset = broker.loader.image.end_offset
    image = await broker.loader.advance([BrokerRemovedRecord(1)], from_offset=end_offset)
    assert seen == [{1}]
    assert broker.loader.image is image
    assert image.brokers == {}
