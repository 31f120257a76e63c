import asyncio
import sqlite3

import pytest

from ottla.metadata import loader as loader_module
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.partition_growth import NewPartitions
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.delta import snapshot_records
from ottla.metadata.image.image import ALL_BROKERS, topic_resource
from ottla.metadata.store.embedded import FILE_NAME
from ottla.metadata.store.outage import OUTAGE_MS, PATIENCE_MS, StoreOutage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import until


async def test_what_was_decided_is_there_after_a_restart(start_broker):
    first = await start_broker()
    await first.controller.create_topics([NewTopic("a", 2, configs={"retention.ms": "5"}), NewTopic("gone")])
    await first.controller.delete_topics(["gone"])
    await first.controller.create_partitions([NewPartitions("a", 3)])
    await first.controller.alter_configs(
        [ResourceAlteration(ALL_BROKERS, [Alteration("log.retention.ms", AlterOperation.SET, "7")])]
    )
    block = await first.controller.allocate_producer_ids()
    await first.close()
    second = await start_broker(seed=1)
    assert second.loader.image.cluster_id == first.loader.image.cluster_id
    assert list(second.loader.image.topics_by_name) == ["a"]
    topic, before = second.loader.image.topic("a"), first.loader.image.topic("a")
    assert topic is not None
    assert before is not None
    assert topic.topic_id == before.topic_id
    assert topic.partitions == before.partitions
    assert second.loader.image.config(topic_resource("a")) == {"retention.ms": "5"}
    assert second.loader.image.config(ALL_BROKERS) == {"log.retention.ms": "7"}
    assert (await second.controller.allocate_producer_ids()).start == block.stop


async def test_a_controller_that_was_not_closed_is_fenced_by_the_next(start_broker):
    first = await start_broker()
    first.stand_still()
    second = await start_broker()
    assert second.loader.image.controller_epoch > first.loader.image.controller_epoch
    with pytest.raises(ApiError) as refused:
        await first.controller.create_topics([NewTopic("a")])
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert first.loader.image.topic("a") is None
    await second.controller.create_topics([NewTopic("a")])


async def test_only_asking_changes_nothing(start_broker):
    controller = (await start_broker()).controller
    before = controller.image
    outcomes = await controller.create_topics([NewTopic("a", 3), NewTopic("b", 0)], validate_only=True)
    assert outcomes["a"].num_partitions == 3
    assert outcomes["b"].code == ErrorCode.INVALID_PARTITIONS
    assert controller.image is before


async def test_subscribers_act_before_anybody_sees_the_image(start_broker):
    broker = await start_broker()
    controller = broker.controller
    seen = []

    async def on_image(image, delta):
        await asyncio.sleep(0)
        seen.append((image.topic("a") is not None, controller.image.topic("a") is not None))

    broker.loader.publisher.subscribe(on_image)
    await controller.create_topics([NewTopic("a")])
    assert seen == [(True, False)]
    assert controller.image.topic("a") is not None


async def test_requests_made_together_see_each_other_and_share_an_append(start_broker):
    broker = await start_broker()
    controller = broker.controller
    appends = []
    append = broker.store.append

    async def counting(records, **kwargs):
        appends.append(len(records))
        return await append(records, **kwargs)

    broker.store.append = counting
    deltas = []
    broker.loader.publisher.subscribe(lambda image, delta: deltas.append([each.name for each in delta.created_topics]))
    outcomes = await asyncio.gather(*(controller.create_topics([NewTopic(name)]) for name in ("a", "b", "a", "c")))
    codes = [getattr(outcome, "code", None) for each in outcomes for outcome in each.values()]
    assert codes == [None, None, ErrorCode.TOPIC_ALREADY_EXISTS, None]
    assert appends == [3]
    assert deltas == [["a", "b", "c"]]


async def test_a_request_that_is_given_up_does_not_stop_the_others(start_broker):
    broker = await start_broker()
    controller = broker.controller
    given_up = asyncio.ensure_future(controller.create_topics([NewTopic("a")]))
    other = asyncio.ensure_future(controller.create_topics([NewTopic("b")]))
    await asyncio.sleep(0)
    given_up.cancel()
    await other
    assert set(controller.image.topics_by_name) == {"a", "b"}


async def test_our_own_mistake_in_one_decision_reaches_only_who_asked(start_broker):
    broker = await start_broker()
    controller = broker.controller

    def broken(image):
        raise ZeroDivisionError

    results = await asyncio.gather(
        controller.decide(broken), controller.create_topics([NewTopic("a")]), return_exceptions=True
    )
    assert isinstance(results[0], ZeroDivisionError)
    assert controller.image.topic("a") is not None


async def test_a_store_that_cannot_write_is_said_so_and_the_image_stays(start_broker, tmp_path):
    controller = (await start_broker()).controller
    before = controller.image
    with sqlite3.connect(tmp_path / FILE_NAME) as other:
        other.execute("DROP TABLE log")
    other.close()
    with pytest.raises(ApiError) as refused:
        await controller.create_topics([NewTopic("a")])
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert controller.image is before


async def test_a_long_log_is_replaced_by_a_snapshot(start_broker, monkeypatch):
    monkeypatch.setattr(loader_module, "SNAPSHOT_AFTER_RECORDS", 20)
    first = await start_broker()
    for number in range(40):
        await first.controller.create_topics([NewTopic(f"t{number}", configs={"retention.ms": str(number)})])
        await first.controller.delete_topics([f"t{number - 1}"])
    stored = await first.store.read(0)
    assert stored.snapshot is not None
    assert len(stored.records) < 60
    await first.close()
    second = await start_broker()
    assert snapshot_records(second.loader.image)[3:] == snapshot_records(first.loader.image)[3:]
    assert [topic.name for topic in second.loader.image.topics()] == ["t39"]


async def test_brokers_that_are_gone_leave_the_image_at_the_next_start(start_broker):
    first = await start_broker(node_id="1")
    await first.close()
    second = await start_broker(node_id="2")
    assert set(second.loader.image.brokers) == {2}
    assert second.loader.image.controller_id == 2


class SilentStore:
    """The store of a controller, which does not answer an append before the test lets it."""

    def __init__(self, store, tasks):
        self.timer = ManualTimer()
        self.may_answer = asyncio.Event()
        self.appends = 0
        self._append = store.append
        store.append = self.append
        self.outage = StoreOutage(self._trouble, clock=self.timer.clock, timer=self.timer, tasks=tasks)

    async def append(self, *args, **kwargs):
        self.appends += 1
        await self.may_answer.wait()
        return await self._append(*args, **kwargs)

    async def _trouble(self):
        return "the metadata store does not answer"

    async def let_clients_wait(self, count):
        for _ in range(OUTAGE_MS // PATIENCE_MS):
            await until(lambda: len(self.timer) == count)
            self.timer.advance(PATIENCE_MS)


async def test_clients_of_a_silent_store_hear_why_and_their_changes_may_still_be_made(start_broker):
    broker = await start_broker()
    controller, tasks = broker.controller, Tasks()
    store = SilentStore(broker.store, tasks)
    controller.outage = store.outage
    sent = asyncio.ensure_future(controller.create_topics([NewTopic("sent")]))
    await until(lambda: store.appends)
    queued = asyncio.ensure_future(controller.create_topics([NewTopic("queued")]))
    ids = asyncio.ensure_future(controller.allocate_producer_ids())  # no client's: it waits for its outcome
    await store.let_clients_wait(2)
    for each in (sent, queued):
        with pytest.raises(ApiError, match="the metadata store does not answer; it is not known") as told:
            await each
        assert told.value.code is ErrorCode.REQUEST_TIMED_OUT
    store.may_answer.set()
    await ids
    assert set(broker.loader.image.topics_by_name) == {"sent", "queued"}
    await tasks.close()


async def test_where_nobody_can_be_elected_clients_hear_that_it_is_the_store(start_broker):
    broker = await start_broker()
    tasks = Tasks()
    store = SilentStore(broker.store, tasks)
    broker.controller.resign()
    with pytest.raises(ApiError) as told:
        await broker.controller.delete_topics(["a"])
    assert told.value.code is ErrorCode.NOT_CONTROLLER
    broker.controller.outage = store.outage
    with pytest.raises(ApiError, match="the metadata store does not answer; it is not known") as told:
        await broker.controller.delete_topics(["a"])
    assert told.value.code is ErrorCode.REQUEST_TIMED_OUT
    await tasks.close()
