"""Brokers that come, are heard, fall silent, stop and come back, as the controller sees them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.delta import apply_records, snapshot_records
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.metadata.store.interface import StoreError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.clock import ManualClock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.metadata.several_brokers import SeveralBrokers

SESSION_MS = 9_000


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    own = Tasks()
    yield own
    await own.close()


async def settled(tasks: Tasks) -> None:
    """Until whatever was begun is done."""
    while running := list(tasks._tasks):
        await asyncio.wait(running)


@pytest.fixture
async def brokers(tasks):
    return await SeveralBrokers(tasks).start(1, 2, 3)


async def test_a_broker_is_there_when_it_has_read_its_registration(tasks):
    cluster = await SeveralBrokers(tasks).start(1)
    assert cluster.live() == {1}
    await cluster.session(2)
    await cluster.controller.brokers_changed()
    assert cluster.live() == {1}
    early = await cluster.heartbeat(2, offset=cluster.image.end_offset - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    answer = await cluster.heartbeat(2)
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (True, False, False)
    assert cluster.live() == {1, 2}


async def test_a_heartbeat_that_is_faster_than_the_word_of_the_session_registers_the_broker(tasks):
    cluster = await SeveralBrokers(tasks).start(1)
    await cluster.session(2)
    assert (await cluster.heartbeat(2)).is_fenced
    assert not (await cluster.heartbeat(2)).is_fenced


async def test_a_broker_whose_session_the_store_cannot_be_asked_for_hears_so_and_may_try_again(brokers, monkeypatch):
    await brokers.session(4)

    async def fails():
        raise StoreError("nobody answers")

    with monkeypatch.context() as away:
        away.setattr(brokers.controller._watch(), "_live_brokers", fails)
        for asking in (brokers.heartbeat(4), brokers.controller.unregister_broker(2)):
            with pytest.raises(ApiError, match="nobody answers") as refused:
                await asking
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await brokers.heartbeat(4)).is_fenced
    assert 4 in brokers.image.brokers


async def test_an_old_session_is_not_heard(brokers):
    old = brokers.epochs[2]
    await brokers.session(2)
    await brokers.controller.brokers_changed()
    with pytest.raises(ApiError) as refused:
        await brokers.controller.heartbeat(2, old, brokers.image.end_offset)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(ApiError) as refused:
        await brokers.controller.heartbeat(7, 70, brokers.image.end_offset)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


async def test_a_broker_that_flushes_otherwise_is_told_so(brokers):
    await brokers.session(4, flush=False)
    with pytest.raises(ApiError) as refused:
        await brokers.heartbeat(4)
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION
    assert "log.flush.before.ack" in str(refused.value.message)
    assert 4 not in brokers.image.brokers


async def test_a_broker_that_is_silent_for_its_session_time_is_fenced_and_its_partitions_are_led_by_others(
    brokers, tasks, caplog
):
    await brokers.topic("a", (2, 3, 1), (3, 2))
    caplog.set_level(logging.INFO)
    brokers.timer.advance(SESSION_MS - 1_000)
    await brokers.heartbeat(3)
    brokers.timer.advance(1_000)
    await settled(tasks)
    assert brokers.live() == {1, 2, 3}
    brokers.timer.advance(1)
    await settled(tasks)
    assert brokers.live() == {1, 3}
    partition = brokers.partition("a")
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.partition_epoch) == (3, 1, (3, 1), 1)
    assert brokers.partition("a", 1).isr == (3,)
    assert "broker 2 is fenced: no heartbeat for 9001 ms" in caplog.text
    assert "a-0: leader 3 instead of 2, leader epoch 1, ISR 3,1 instead of 2,3,1: broker 2 is fenced" in caplog.text
    brokers.timer.advance(SESSION_MS - 1_000)
    await settled(tasks)
    assert brokers.live() == {1}, "the next one is watched too"


async def test_the_controller_does_not_fence_itself(brokers, tasks):
    brokers.timer.advance(10 * SESSION_MS)
    await settled(tasks)
    assert brokers.live() == {1}


def cut_off(cluster):
    """Note how often the controller says that it is cut off, and resign."""
    told = []

    def resign():
        told.append(True)
        cluster.controller.resign()
        return True

    cluster.controller.on_cut_off = resign
    return told


async def test_a_controller_that_hears_nobody_of_those_that_live_resigns_and_fences_nobody(brokers, tasks):
    told = cut_off(brokers)
    brokers.timer.advance(1_000)
    await brokers.heartbeat(3)  # the last that came through, a second after that of broker 2
    brokers.timer.advance(SESSION_MS - 1_000)
    await settled(tasks)
    assert told == []
    brokers.timer.advance(1)
    await settled(tasks)
    assert told == [True]
    assert brokers.live() == {1, 2, 3}
    brokers.timer.advance(10 * SESSION_MS)
    await settled(tasks)
    assert told == [True]
    assert brokers.live() == {1, 2, 3}


async def test_a_controller_says_that_it_hears_enough_once_it_has_heard_for_a_session_time(brokers, tasks):
    heard = []
    brokers.controller.on_heard = lambda: heard.append(True)
    for _ in range(3):
        assert heard == []
        brokers.timer.advance(SESSION_MS // 3)
        await brokers.heartbeat(2)
        await brokers.heartbeat(3)
        await settled(tasks)
    brokers.timer.advance(SESSION_MS // 3)
    await settled(tasks)
    assert heard == [True]


async def test_a_controller_that_hears_nobody_does_not_say_that_it_hears_enough(brokers, tasks):
    heard = []
    brokers.controller.on_heard = lambda: heard.append(True)
    cut_off(brokers)
    brokers.timer.advance(10 * SESSION_MS)
    await settled(tasks)
    assert heard == []


async def test_a_controller_whose_others_have_died_with_their_hosts_fences_them(brokers, tasks):
    told = cut_off(brokers)
    for broker_id in (2, 3):
        del brokers.store._sessions[broker_id]  # and nobody was told yet
    brokers.timer.advance(SESSION_MS + 1)
    await settled(tasks)
    assert told == []
    assert brokers.live() == {1}


async def test_one_of_two_brokers_that_hears_the_other_no_more_goes_on(tasks):
    cluster = await SeveralBrokers(tasks).start(1, 2)
    told = cut_off(cluster)
    cluster.timer.advance(SESSION_MS + 1)
    await settled(tasks)
    assert told == []
    assert cluster.live() == {1}


async def test_a_controller_that_was_elected_when_all_others_were_fenced_resigns_once_they_are_missed(tasks):
    cluster = await SeveralBrokers(tasks).start(1, 2, 3)
    for broker_id in (2, 3):
        await cluster.controller.broker_unreachable(broker_id, cluster.epochs[broker_id])
    told = cut_off(cluster)
    for _ in range(3):
        for broker_id in (2, 3):
            await cluster.heartbeat(broker_id, offset=0)  # they are heard, and have not read enough to serve
        cluster.timer.advance(SESSION_MS // 3)
        await settled(tasks)
    assert (told, cluster.live()) == ([], {1})
    cluster.timer.advance(2 * SESSION_MS)
    await settled(tasks)
    assert told == [True]


async def test_a_controller_that_may_not_resign_fences_who_is_silent(brokers, tasks):
    brokers.controller.on_cut_off = lambda: False
    brokers.timer.advance(SESSION_MS + 1)
    await settled(tasks)
    assert brokers.live() == {1}


async def test_a_controller_that_cannot_ask_the_store_whether_it_is_cut_off_asks_again(brokers, tasks):
    told = cut_off(brokers)
    watch = brokers.controller._watch()
    live_brokers = watch._live_brokers

    async def fails():
        raise StoreError("nobody answers")

    watch._live_brokers = fails
    brokers.timer.advance(SESSION_MS + 1)
    await settled(tasks)
    assert told == []
    watch._live_brokers = live_brokers
    brokers.timer.advance(500)
    await settled(tasks)
    assert told == [True]


async def test_a_store_that_takes_nothing_for_a_while_gives_who_is_silent_no_other_session_time(
    brokers, tasks, caplog, monkeypatch
):
    is_asked, is_refused = asyncio.Event(), asyncio.Event()

    async def append(*_: object, **__: object) -> int:
        is_asked.set()
        await is_refused.wait()
        raise StoreError("another process is writing")

    monkeypatch.setattr(brokers.store, "append", append)
    brokers.timer.advance(SESSION_MS - 1_000)
    await brokers.heartbeat(3)
    brokers.timer.advance(1_001)
    await is_asked.wait()
    for _ in range(5):  # while the store is asked
        brokers.timer.advance(1_000)
        await brokers.heartbeat(3)
    brokers.timer.advance(1)
    is_refused.set()
    await settled(tasks)
    assert brokers.live() == {1, 2, 3}
    monkeypatch.undo()
    brokers.timer.advance(500)
    await settled(tasks)
    assert brokers.live() == {1, 3}
    assert "was paused for" not in caplog.text
    assert caplog.text.count("could not fence brokers without heartbeats") == 1
    brokers.timer.advance(SESSION_MS)
    await settled(tasks)
    assert brokers.live() == {1}, "the next one is watched too"


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
async def test_a_wall_clock_that_jumps_fences_nobody_and_keeps_nobody(brokers, tasks, jump_ms):
    clock = brokers.timer.clock
    clock.set_now(10_000_000)
    brokers.timer.advance(SESSION_MS - 1_000)
    await brokers.heartbeat(3)
    clock.set_now(10_000_000 + jump_ms)
    brokers.timer.advance(1_000)
    await settled(tasks)
    assert brokers.live() == {1, 2, 3}
    brokers.timer.advance(1)
    await settled(tasks)
    assert brokers.live() == {1, 3}


async def test_a_broker_that_is_heard_again_is_there_again(brokers, tasks):
    await brokers.topic("a", (2,), (2, 3))
    await brokers.controller.broker_unreachable(2, brokers.epochs[2])
    assert brokers.live() == {1, 3}
    assert (brokers.partition("a").leader, brokers.partition("a").elr) == (-1, (2,))
    await brokers.controller.broker_unreachable(2, brokers.epochs[2])
    assert not (await brokers.heartbeat(2)).is_fenced
    assert (brokers.partition("a").leader, brokers.partition("a").leader_epoch) == (2, 2)
    assert brokers.partition("a", 1).leader == 3


async def test_word_of_an_earlier_process_fences_nobody(brokers):
    await brokers.controller.broker_unreachable(2, brokers.epochs[2] - 1)
    assert brokers.live() == {1, 2, 3}


async def test_the_end_of_its_session_fences_a_broker_whatever_it_says(brokers):
    await brokers.end_session(2)
    assert brokers.live() == {1, 3}
    answer = await brokers.heartbeat(2)
    assert (answer.is_fenced, answer.is_caught_up) == (True, True)
    assert brokers.live() == {1, 3}


async def test_a_new_controller_gives_everybody_a_whole_session_time_and_fences_at_once_who_has_no_session(
    brokers, tasks
):
    await brokers.topic("a", (2, 3))
    brokers.timer.advance(SESSION_MS - 1)
    await settled(tasks)
    del brokers.store._sessions[2]
    brokers.controller.resign()
    await brokers.take_over(brokers.new_controller())
    assert brokers.live() == {1, 3}
    assert brokers.partition("a").leader == 3
    brokers.timer.advance(SESSION_MS)
    await settled(tasks)
    assert brokers.live() == {1, 3}
    brokers.timer.advance(1)
    await settled(tasks)
    assert brokers.live() == {1}


async def test_a_controller_that_resigned_fences_nobody(brokers, tasks):
    brokers.controller.resign()
    log = len(brokers.store.log)
    brokers.timer.advance(10 * SESSION_MS)
    await settled(tasks)
    assert len(brokers.store.log) == log
    for call in (brokers.heartbeat(2), brokers.controller.broker_unreachable(2, brokers.epochs[2])):
        with pytest.raises(ApiError) as refused:
            await call
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


class StoppingTimer(ManualTimer):
    """A loop that can stand still: time passes, and what was due is called afterwards."""

    def stand_still(self, ms: int) -> None:
        self.clock.advance(ms)
        self._on_due()


async def test_a_controller_that_stood_still_does_not_hold_the_others_silent(tasks):
    timer = StoppingTimer(ManualClock())
    cluster = await SeveralBrokers(tasks, timer=timer).start(1, 2, 3)
    timer.stand_still(2 * SESSION_MS)
    await settled(tasks)
    assert cluster.live() == {1, 2, 3}
    await cluster.heartbeat(3)
    timer.advance(SESSION_MS + 1)
    await settled(tasks)
    assert cluster.live() == {1}


async def test_a_broker_that_wants_to_stop_gives_away_what_it_leads_and_stops_when_the_others_know(brokers):
    await brokers.topic("a", (2, 3), (3, 2))
    before = brokers.image.end_offset
    first = await brokers.heartbeat(2, want_shutdown=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert brokers.image.brokers[2].shutting_down
    assert [brokers.partition("a", index).leader for index in (0, 1)] == [3, 3]
    assert [brokers.partition("a", index).isr for index in (0, 1)] == [(3,), (3,)]
    await brokers.heartbeat(3, offset=before)
    assert not (await brokers.heartbeat(2, want_shutdown=True)).should_shut_down
    await brokers.heartbeat(3)
    assert (await brokers.heartbeat(2, want_shutdown=True)).should_shut_down
    assert brokers.live() == {1, 3}


async def test_a_broker_that_stops_is_given_no_new_replica(brokers):
    await brokers.topic("a", (2, 3))
    await brokers.heartbeat(2, want_shutdown=True)
    wanted = [NewTopic("b", assignments=((0, (2,)),)), NewTopic("c", assignments=((0, (2, 3)),)), NewTopic("d", 1, 3)]
    created = await brokers.controller.create_topics(wanted)
    assert created["b"].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert (brokers.partition("c").leader, brokers.partition("c").isr) == (3, (3,))
    assert created["d"].code is ErrorCode.INVALID_REPLICATION_FACTOR


async def test_a_broker_that_leads_nothing_or_is_fenced_stops_at_once(brokers):
    await brokers.topic("a", (1, 2))
    assert (await brokers.heartbeat(2, want_shutdown=True)).should_shut_down
    assert brokers.partition("a").isr == (1,)
    assert brokers.live() == {1, 3}
    assert (await brokers.heartbeat(2, want_shutdown=True)).should_shut_down


async def test_the_last_broker_stops_as_it_is(brokers):
    await brokers.topic("a", (1, 2))
    for other in (2, 3):
        await brokers.controller.broker_unreachable(other, brokers.epochs[other])
    log = len(brokers.store.log)
    assert (await brokers.heartbeat(1, want_shutdown=True)).should_shut_down
    assert len(brokers.store.log) == log
    assert brokers.partition("a").leader == 1


async def test_a_broker_can_ask_to_be_fenced(brokers):
    await brokers.topic("a", (2, 3))
    assert (await brokers.heartbeat(2, want_fence=True)).is_fenced
    assert brokers.partition("a").leader == 3
    assert (await brokers.heartbeat(2, want_fence=True)).is_fenced
    assert not (await brokers.heartbeat(2)).is_fenced


async def test_what_lies_in_a_directory_that_failed_is_led_by_others(brokers):
    await brokers.topic("a", (2, 3), (2, 3))
    topic_id, failed = brokers.image.topic("a").topic_id, UUID(int=7)
    await brokers.controller.place_replicas(2, brokers.epochs[2], [ReplicaPlace(topic_id, 1, failed)])
    await brokers.heartbeat(2, offline_directories=frozenset({failed}))
    assert [brokers.partition("a", index).leader for index in (0, 1)] == [2, 3]
    assert brokers.live() == {1, 2, 3}
    log = len(brokers.store.log)
    await brokers.heartbeat(2, offline_directories=frozenset({failed}))
    assert len(brokers.store.log) == log


async def test_a_directory_that_failed_is_told_of_by_each_incarnation(brokers, monkeypatch):
    """The next one registers while what the one before said of its directories is being decided."""
    await brokers.topic("a", (2,))
    topic_id, failed = brokers.image.topic("a").topic_id, UUID(int=7)
    await brokers.controller.place_replicas(2, brokers.epochs[2], [ReplicaPlace(topic_id, 0, failed)])
    decide = brokers.controller.decide

    async def decide_and_start_anew(decision):
        monkeypatch.undo()
        result = await decide(decision)
        await brokers.session(2)
        await brokers.controller.brokers_changed()
        return result

    monkeypatch.setattr(brokers.controller, "decide", decide_and_start_anew)
    await brokers.heartbeat(2, offline_directories=frozenset({failed}))
    await brokers.heartbeat(2, offline_directories=frozenset({failed}))
    assert brokers.partition("a").leader == -1


async def test_who_has_a_replica_in_a_directory_that_failed_neither_joins_nor_leads_until_it_is_started_anew(brokers):
    await brokers.topic("a", (2, 3), min_insync_replicas="2")
    topic_id, failed = brokers.image.topic("a").topic_id, UUID(int=7)
    await brokers.controller.place_replicas(2, brokers.epochs[2], [ReplicaPlace(topic_id, 0, failed)])
    await brokers.heartbeat(2, offline_directories=frozenset({failed}))
    now = brokers.partition("a")
    assert (now.leader, now.isr, now.elr) == (3, (3,), (2,))
    isr = ((3, brokers.epochs[3]), (2, brokers.epochs[2]))
    proposal = PartitionProposal(topic_id, 0, now.leader_epoch, now.partition_epoch, isr)
    (refusal,) = await brokers.controller.alter_partition(3, brokers.epochs[3], [proposal])
    assert isinstance(refusal, ApiError)
    assert refusal.code is ErrorCode.INELIGIBLE_REPLICA
    assert "broker 2 has that replica in a log directory that failed" in refusal.message
    again = apply_records(MetadataImage(brokers.image.cluster_id), snapshot_records(brokers.image))[0]
    assert again.unusable_on(topic_id, 0) == {2}
    await brokers.end_session(3)
    assert brokers.partition("a").leader == NO_LEADER
    await brokers.end_session(2)
    await brokers.session(2)
    await brokers.controller.brokers_changed()
    await brokers.heartbeat(2)
    assert brokers.partition("a").leader == 2


async def test_a_heartbeat_that_changes_nothing_writes_nothing(brokers):
    log = len(brokers.store.log)
    for _ in range(3):
        await brokers.heartbeat(2)
    assert len(brokers.store.log) == log


async def test_a_broker_that_does_not_run_can_be_taken_out_for_good(brokers):
    await brokers.topic("a", (2, 3), (2,), min_insync_replicas="2")
    with pytest.raises(ApiError) as refused:
        await brokers.controller.unregister_broker(2)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    await brokers.end_session(2)
    assert brokers.partition("a").elr == (2,)
    await brokers.controller.unregister_broker(2)
    assert set(brokers.image.brokers) == {1, 3}
    assert (brokers.partition("a").elr, brokers.partition("a").replicas) == ((), (2, 3))
    with pytest.raises(ApiError) as refused:
        await brokers.controller.unregister_broker(2)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_all_brokers_killed_at_once_leave_no_partition_without_a_leader_for_good(brokers, tasks):
    await brokers.topic("a", (1, 2, 3), (2, 3, 1), (3, 1))
    brokers.controller.resign()
    brokers.store._sessions.clear()
    await brokers.session(3)
    await brokers.take_over(brokers.new_controller(), 3)
    assert [brokers.partition("a", index).leader for index in range(3)] == [3, 3, 3]
    for broker_id in (1, 2):
        await brokers.session(broker_id)
        await brokers.heartbeat(broker_id)
        await brokers.heartbeat(broker_id)
    assert brokers.live() == {1, 2, 3}
    await brokers.topic("b", (1, 2, 3))


async def test_all_killed_at_once_without_flushing_leave_the_last_leader_to_lead_with_a_warning(tasks, caplog):
    cluster = SeveralBrokers(tasks)
    for broker_id in (1, 2, 3):
        await cluster.session(broker_id, flush=False)
    await cluster.take_over(cluster.controller)
    for broker_id in (1, 2, 3):
        await cluster.heartbeat(broker_id)
    await cluster.topic("a", (2, 3, 1))
    cluster.controller.resign()
    cluster.store._sessions.clear()
    await cluster.session(1, flush=False)
    await cluster.take_over(cluster.new_controller())
    assert (cluster.partition("a").leader, cluster.partition("a").elr) == (-1, (2, 3)), "1 may miss records"
    await cluster.session(3, flush=False)
    await cluster.controller.brokers_changed()
    await cluster.heartbeat(3)
    assert cluster.partition("a").leader == -1, "2 was the last leader, and may still come back clean"
    await cluster.session(2, flush=False)
    await cluster.controller.brokers_changed()
    assert (cluster.partition("a").leader, cluster.partition("a").elr) == (-1, ())
    caplog.clear()
    await cluster.heartbeat(2)
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))
    assert "leader 2 instead of none, leader epoch 2, ISR 2 instead of none, records may be lost" in caplog.text


async def test_many_changes_are_told_in_one_line(brokers, caplog):
    await brokers.topic("a", *[(2, 3)] * 30, *[(2,)] * 10)
    caplog.set_level(logging.INFO)
    await brokers.controller.broker_unreachable(2, brokers.epochs[2])
    (line,) = [record.getMessage() for record in caplog.records if "changed" in record.getMessage()]
    assert line == (
        "40 partitions changed, 30 with another leader, 10 without a leader, 40 with another ISR: "
        "broker 2 is fenced: its connection was closed and it accepts no new one"
    )
    kinds = [record[0] for record in brokers.stored()]
    assert kinds[-2:] == ["partitions-changed", "broker-changed"]
