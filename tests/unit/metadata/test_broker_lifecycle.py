import asyncio

import pytest

from ottla.metadata import broker_lifecycle, loader
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.records import BrokerRemovedRecord
from ottla.metadata.registration import decode_registration
from ottla.metadata.store.interface import StoreError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.timer import ManualTimer


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


async def test_one_broker_decides_and_the_others_follow(start_broker):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    assert [broker.lifecycle.is_controller for broker in (first, second)] == [True, False]
    await first.controller.create_topics([NewTopic("a")])
    await until(lambda: second.loader.image.topic("a") is not None)
    assert second.loader.image.controller_id == 1
    assert set(first.loader.image.brokers) == {1, 2}
    with pytest.raises(ApiError) as refused:
        await second.controller.create_topics([NewTopic("b")])
    assert refused.value.code == ErrorCode.NOT_CONTROLLER


async def test_when_the_controller_ends_another_broker_decides(start_broker):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    epochs = []
    second.lifecycle.on_became_controller.append(epochs.append)
    await first.controller.create_topics([NewTopic("a")])
    await first.close()
    await until(lambda: bool(epochs))
    assert second.lifecycle.is_controller
    await second.controller.create_topics([NewTopic("b")])
    image = second.loader.image
    assert (image.controller_id, image.controller_epoch) == (2, 2)
    assert image.topic("a") is not None


async def test_a_controller_that_is_fenced_resigns_and_follows(start_broker):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    resigned = []
    first.lifecycle.on_resigned.append(lambda: resigned.append(1))
    second.lifecycle.controller_unreachable(1)
    await until(lambda: second.lifecycle.is_controller and not first.lifecycle.is_controller)
    assert resigned == [1]
    await second.controller.create_topics([NewTopic("a")])
    await until(lambda: first.loader.image.topic("a") is not None)


async def test_a_controller_that_cannot_find_out_whether_it_is_one_resigns_until_it_can(start_broker, monkeypatch):
    broker = await start_broker()
    resigned, elected = [], []
    broker.lifecycle.on_resigned.append(lambda: resigned.append(1))
    broker.lifecycle.on_became_controller.append(elected.append)
    controller = broker.store.controller
    monkeypatch.setattr(broker.store, "controller", fails)
    broker.lifecycle._on_election()
    await until(lambda: bool(resigned))
    monkeypatch.setattr(broker.store, "controller", controller)
    await until(lambda: bool(elected))
    assert elected == [2]


async def test_a_controller_that_is_cut_off_has_another_elected_and_follows_it(start_broker):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    assert first.controller.on_cut_off()
    await until(lambda: second.lifecycle.is_controller)
    assert not first.lifecycle.is_controller
    await second.controller.create_topics([NewTopic("a")])
    await until(lambda: first.loader.image.topic("a") is not None)
    assert first.loader.image.controller_id == 2


async def test_a_controller_that_is_cut_off_and_for_whom_nobody_stands_decides_again_and_stays(start_broker):
    broker = await start_broker()
    timer = broker.lifecycle._timer = ManualTimer()
    elected = []
    broker.lifecycle.on_became_controller.append(elected.append)
    assert broker.controller.on_cut_off()
    await until(lambda: broker.lifecycle._stands_back_from == 1)
    assert not (await broker.store.controller()).alive
    timer.advance(broker_lifecycle.STAND_BACK_MS)
    await until(lambda: elected == [2])
    assert not broker.controller.on_cut_off(), "not twice within a while"
    assert broker.lifecycle.is_controller
    timer.advance(broker_lifecycle.STAY_MS)
    assert broker.controller.on_cut_off()


@pytest.mark.parametrize("is_heard", [True, False])
async def test_who_was_cut_off_stands_at_once_when_the_next_controller_is_and_had_heard_it(start_broker, is_heard):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    for each in (first, second):
        each.lifecycle._timer = ManualTimer()
    assert first.controller.on_cut_off()
    await until(lambda: second.lifecycle.is_controller)
    if not is_heard:
        await second.controller.broker_unreachable(1, first.lifecycle.session.broker_epoch)
        await until(lambda: first.loader.image.brokers[1].fenced)
    assert second.controller.on_cut_off()
    if is_heard:
        await until(lambda: first.lifecycle.is_controller)
    else:
        await until(lambda: first.lifecycle._stands_back_from == 2)
        assert not first.lifecycle.is_controller


async def test_a_controller_that_heard_enough_since_it_was_cut_off_resigns_when_it_is_so_again(start_broker):
    broker = await start_broker()
    timer = broker.lifecycle._timer = ManualTimer()
    elected = []
    broker.lifecycle.on_became_controller.append(elected.append)
    for epoch in (1, 2):
        assert broker.controller.on_cut_off()
        await until(lambda: broker.lifecycle._stands_back_from == epoch)  # noqa: B023
        timer.advance(broker_lifecycle.STAND_BACK_MS)
        await until(lambda: elected == [*range(2, epoch + 2)])  # noqa: B023
        broker.controller.on_heard()
    timer.advance(broker_lifecycle.STAY_MS - broker_lifecycle.STAND_BACK_MS - 1)
    assert broker.controller.on_cut_off()
    timer.advance(2)
    assert broker.lifecycle._stands_back is not None, "the time of the first two is over, that of the third is not"


async def test_a_controller_that_is_cut_off_resigns_in_the_store_when_that_can_be_asked_again(
    start_broker, monkeypatch
):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    resign, asked = first.store.resign, []

    async def fails_once(**epoch):
        asked.append(epoch)
        monkeypatch.setattr(first.store, "resign", resign)
        raise StoreError("nobody answers")

    monkeypatch.setattr(first.store, "resign", fails_once)
    assert first.controller.on_cut_off()
    await until(lambda: second.lifecycle.is_controller)
    assert asked == [{"controller_epoch": 1}]


async def fails():
    raise StoreError("nobody answers")


async def test_a_broker_whose_session_ended_registers_anew(start_broker):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    lost, registered = [], []
    second.lifecycle.on_session_lost.append(lambda: lost.append(1))
    second.lifecycle.on_registered.append(registered.append)
    before = second.lifecycle.session
    first.store._file.end_session(before)
    first.store._wake()
    await until(lambda: bool(registered))
    assert lost == [1]
    assert registered == [second.lifecycle.session]
    assert second.lifecycle.session.broker_epoch > before.broker_epoch
    live = {each.broker_id: each for each in await first.store.live_brokers()}
    said = decode_registration(live[2].registration)
    assert (said.previous_epoch, said.clean_since) == (before.broker_epoch, before.broker_epoch)
    await until(lambda: epoch_of_second(first) == second.lifecycle.session.broker_epoch)


async def test_a_follower_that_finds_a_snapshot_goes_on_from_there(start_broker, monkeypatch):
    first, second = await start_broker(node_id="1"), await start_broker(seed=2, node_id="2")
    await second.loader.hold()
    monkeypatch.setattr(loader, "SNAPSHOT_AFTER_RECORDS", 0)
    changes = []
    second.loader.publisher.subscribe(lambda image, delta: changes.append({each.name for each in delta.created_topics}))
    for name in "abc":
        # More than one record each: also behind a snapshot that was made just now there are more of them than topics.
        await first.controller.create_topics([NewTopic(name, configs={"retention.ms": "1000"})])
    assert (await second.store.read(second.loader.image.end_offset)).snapshot is not None
    second.loader.release()
    await until(lambda: second.loader.image.end_offset == first.loader.image.end_offset)
    assert set().union(*changes) == {"a", "b", "c"}
    assert {topic.name for topic in second.loader.image.topics()} == {"a", "b", "c"}


def epoch_of_second(broker):
    """The broker epoch by which a broker knows broker 2."""
    known = broker.loader.image.brokers.get(2)
    return known and known.broker_epoch


async def until(holds):
    """Wait until something holds that other tasks bring about."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
