"""Replicas of one partition on several brokers: what is committed, who follows whom, and what becomes of the rest."""

import asyncio
import errno
import logging
import random
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from ottla.broker.fetch import FetchTarget, PartitionRead
from ottla.broker.offsets import EARLIEST, LATEST, OffsetService
from ottla.broker.record_deletion import RecordDeletion, RecordsBefore
from ottla.metadata.image.image import PartitionImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.follower import Follower
from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.partition import ACKS_LEADER
from ottla.replication.replica_selector import RackAwareSelector
from ottla.replication.replicated_leader import ReplicatedLeader
from tests.unit.replication.replicas import NAME, Broker, Cluster, PatientClock, cluster, until

pytestmark = pytest.mark.slow


async def acked(future: "asyncio.Future[AppendAck]") -> ErrorCode:
    async with asyncio.timeout(60):
        return (await future).error


def in_sync_of(made: Cluster) -> InSyncReplicas:
    role = made.leader.partition.role
    assert isinstance(role, ReplicatedLeader)
    return role.in_sync


def is_equal(made: Cluster) -> bool:
    brokers = list(made.brokers.values())
    return all((each.contents, each.end_offset) == (brokers[0].contents, brokers[0].end_offset) for each in brokers[1:])


@pytest.mark.parametrize("flush_before_ack", [True, False])
async def test_what_is_acknowledged_is_on_every_replica(tmp_path: Path, flush_before_ack: bool) -> None:
    async with cluster(tmp_path, flush_before_ack=flush_before_ack) as made:
        for number in range(5):
            assert await acked(made.leader.append(b"%d" % number, count=3)) is ErrorCode.NONE
            for broker in made.brokers.values():
                assert broker.partition.local_end_offset == 3 * (number + 1)
        await until(lambda: is_equal(made))
        await until(lambda: all(each.partition.high_watermark == 15 for each in made.brokers.values()))
        followers = [each.partition for each in made.brokers.values() if each is not made.leader]
        assert all(isinstance(each.role, Follower) and not each.is_leader for each in followers)
        assert [each.log.leader_epochs.entries for each in followers] == [((0, 0),)] * 2


async def test_nothing_is_committed_without_a_member_of_the_isr(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        made.unreachable.add(3)
        first = made.leader.append(b"waits")
        await until(lambda: made.brokers[2].end_offset == 1)
        assert await acked(made.leader.append(b"leader only", acks=ACKS_LEADER)) is ErrorCode.NONE
        assert not first.done()
        assert made.leader.partition.high_watermark == 0
        made.unreachable.clear()
        assert await acked(first) is ErrorCode.NONE


async def test_who_lags_leaves_the_isr_and_joins_again_when_it_has_caught_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.replication.isr_manager")
    async with cluster(tmp_path, lag_max_ms=1_000, clock=PatientClock()) as made:
        made.unreachable.add(3)
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        assert 3 not in made.state.isr
        await until(lambda: set(made.state.isr) == {1, 2} and made.leader.partition.isr_size == 2)
        made.unreachable.clear()
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        assert await acked(made.leader.append(b"y")) is ErrorCode.NONE
        await until(lambda: made.brokers[3].partition.local_end_offset == 2)
    assert re.search(
        r"ISR change from 1,2,3 to 1,2 proposed: broker 3 has offset -?\d+ of \d+ for 1000 ms", caplog.text
    )
    assert "ISR change from 1,2 to 1,2,3 proposed: broker 3 has caught up" in caplog.text


async def test_a_follower_that_its_leader_cannot_reach_is_not_waited_for_as_long_as_one_that_is_slow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.replication.isr_manager")
    async with cluster(tmp_path, lag_max_ms=3_600_000, silence_max_ms=300) as made:
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        made.cut.add(frozenset((1, 3)))
        assert await acked(made.leader.append(b"y")) is ErrorCode.NONE
        assert set(made.state.isr) == {1, 2}
        assert await acked(made.leader.append(b"z")) is ErrorCode.NONE
        assert len(made.proposals) == 1
        made.cut.clear()
        await until(lambda: set(made.state.isr) == {1, 2, 3})
    assert "ISR change from 1,2,3 to 1,2 proposed: no answer from broker 3, which is behind" in caplog.text


async def test_a_follower_that_is_silent_and_answers_keeps_its_time(tmp_path: Path) -> None:
    async with cluster(tmp_path, lag_max_ms=3_600_000, silence_max_ms=30) as made:
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        asked = []

        async def reaches(_broker_id: int, other: int) -> bool:
            asked.append(other)
            return True

        made.reaches = reaches  # type: ignore[method-assign,assignment]
        made.unreachable.add(3)
        waits = made.leader.append(b"y")
        await until(lambda: len(asked) > 6)
        assert (waits.done(), made.proposals) == (False, [])


async def test_a_leader_that_reaches_no_majority_keeps_its_in_sync_replicas(tmp_path: Path) -> None:
    async with cluster(tmp_path, lag_max_ms=3_600_000, silence_max_ms=30) as made:
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        asked = []
        ask = made.reaches

        async def reaches(broker_id: int, other: int) -> bool:
            asked.append(other)
            return await ask(broker_id, other)

        made.reaches = reaches  # type: ignore[method-assign]
        made.cut.update((frozenset((1, 2)), frozenset((1, 3))))
        waits = made.leader.append(b"y")
        await until(lambda: len(asked) > 6)
        assert (waits.done(), made.proposals) == (False, [])


async def test_a_leader_that_is_fenced_and_does_not_read_it_in_the_metadata_stands_down(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        old, known = made.leader, PartitionImage.from_state(0, made.state)
        assert await acked(old.append(b"x")) is ErrorCode.NONE
        made.unreachable.update((2, 3))
        waits = old.append(b"y")
        assert old.roles.stand_down(old.partition)
        assert await acked(waits) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await acked(old.append(b"z")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not old.roles.stand_down(old.partition)
        await old.roles.apply(old.partition, known)  # it leads all the same
        made.unreachable.clear()
        assert await acked(old.append(b"z")) is ErrorCode.NONE
        assert old.roles.stand_down(old.partition)
        await made.fence(1)
        assert await acked(made.leader.append(b"by another")) is ErrorCode.NONE
        await made.unfence(1)
        await until(lambda: old.contents == made.leader.contents)


async def test_who_was_up_to_date_before_it_was_let_in_joins_as_soon_as_it_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.fence(3)
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        in_sync = in_sync_of(made)
        await until(lambda: in_sync.followers[3].end_offset == 1)
        assert in_sync.committed == (1, 2)
        await made.unfence(3)
        await until(lambda: set(made.state.isr) == {1, 2, 3})


async def test_a_broker_that_registers_anew_is_known_by_its_new_epoch_without_anything_to_fetch(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        in_sync = in_sync_of(made)
        await until(lambda: in_sync.followers[3].end_offset == 1)
        await made.fence(3)
        made.brokers[3].broker_epoch = 999
        await made.unfence(3)
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        assert in_sync.followers[3].broker_epoch == 999


async def test_what_is_not_committed_is_neither_expired_nor_compacted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"x" * 900)) is ErrorCode.NONE
        await until(lambda: is_equal(made))
        made.unreachable.update((2, 3))
        for _ in range(12):
            assert await acked(made.leader.append(b"y" * 900, acks=ACKS_LEADER)) is ErrorCode.NONE
        log = made.leader.partition.log
        await until(lambda: log.flushed_end_offset == 13)
        log.config = replace(log.config, retention_ms=0)
        assert len(log.segments) > 3
        assert log.stable_end_offset == 1
        assert await made.leader.logs.apply_retention() == 0
        made.unreachable.clear()
        await until(lambda: made.leader.partition.high_watermark == 13)
        assert await made.leader.logs.apply_retention() > 2


async def test_a_leader_that_cannot_ask_for_another_isr_commits_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, lag_max_ms=60) as made:
        made.unreachable.add(3)
        made.controller_answers = False
        waits = made.leader.append(b"x")
        await until(lambda: len(made.proposals) > 2)
        assert not waits.done()
        assert made.leader.partition.high_watermark == 0
        made.controller_answers = True
        assert await acked(waits) is ErrorCode.NONE
        assert 3 not in made.state.isr


async def test_an_image_that_comes_behind_a_newer_answer_of_the_controller_takes_nobody_out_of_the_isr(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, min_isr=2) as made:
        epoch = made.state.partition_epoch
        older = made.state._replace(isr=(1,), partition_epoch=epoch + 1)
        assert in_sync_of(made).adopt(made.state.replicas, made.state.replicas, epoch + 2, 0)
        await made.leader.roles.apply(made.leader.partition, PartitionImage.from_state(0, older))
        assert made.leader.partition.isr_size == 3
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE


async def test_a_proposal_that_can_only_be_refused_ends_though_nobody_knows_what_became_of_its_first_attempt(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, min_isr=2) as made:
        for broker_id in (2, 3):
            made.unreachable.add(broker_id)
            await made.fence(broker_id)
        made.unreachable.discard(2)
        made.controller_answers = False
        await made.unfence(2)
        await until(lambda: len(made.proposals) > 1)  # it names the incarnation of 2 that is about to go
        made.brokers[2].broker_epoch = made.live[2] = 999
        made.controller_answers = True
        await made.spread()
        await until(lambda: set(in_sync_of(made).committed) == {1, 2})
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        assert in_sync_of(made).proposed is None


async def test_an_isr_below_the_minimum_takes_no_acks_all_and_commits_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, min_isr=2) as made:
        await made.fence(3)
        assert await acked(made.leader.append(b"two are enough")) is ErrorCode.NONE
        await made.fence(2)
        assert await acked(made.leader.append(b"no")) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await acked(made.leader.append(b"one", acks=ACKS_LEADER)) is ErrorCode.NONE
        await until(lambda: made.leader.partition.local_end_offset == 2)
        assert made.leader.partition.high_watermark == 1
        await made.unfence(2)
        await until(lambda: made.leader.partition.high_watermark == 2)


async def test_the_next_leader_has_what_was_committed_and_the_old_one_drops_what_was_not(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"committed", count=2)) is ErrorCode.NONE
        await until(lambda: is_equal(made))
        old = made.leader
        made.unreachable.add(1)
        lost = [old.append(b"lost" * 100) for _ in range(20)]
        await until(lambda: old.partition.log.flushed_end_offset == 22)
        await made.fence(1, but=(1,))
        assert made.state.leader == 2
        assert await acked(made.leader.append(b"kept")) is ErrorCode.NONE
        assert made.leader.end_offset == 3
        made.unreachable.clear()
        await made.unfence(1)
        assert [await acked(each) for each in lost] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 20
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        assert is_equal(made)
        assert old.partition.log.leader_epochs.entries == ((0, 0), (made.state.leader_epoch, 2))


async def test_a_replica_whose_leader_has_deleted_what_comes_next_begins_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"x" * 900)) is ErrorCode.NONE
        await until(lambda: is_equal(made))
        await made.fence(3)
        made.unreachable.add(3)
        for _ in range(10):
            assert await acked(made.leader.append(b"y" * 900)) is ErrorCode.NONE
        made.leader.partition.delete_records_before(8)
        await until(lambda: made.brokers[2].partition.log.log_start_offset == 8)
        made.unreachable.clear()
        await made.unfence(3)
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        late = made.brokers[3].partition
        assert (late.log.log_start_offset, late.log.log_end_offset, late.high_watermark) == (8, 11, 11)
        assert await late.read_bytes(8, 1 << 20) == await made.leader.partition.read_bytes(8, 1 << 20)


@pytest.mark.parametrize("flush_before_ack", [True, False])
async def test_a_replica_begins_with_the_batch_within_which_the_log_of_its_leader_begins(
    tmp_path: Path, flush_before_ack: bool
) -> None:
    async with cluster(tmp_path, flush_before_ack=flush_before_ack) as made:
        await made.fence(3)
        made.unreachable.add(3)
        for _ in range(4):
            assert await acked(made.leader.append(b"y" * 900, count=3)) is ErrorCode.NONE
        made.leader.partition.delete_records_before(7)
        await until(lambda: made.brokers[2].partition.log.log_start_offset == 7)
        made.unreachable.clear()
        await made.unfence(3)
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        late = made.brokers[3].partition
        await until(lambda: late.high_watermark == 12)
        assert (late.log.log_start_offset, late.log.log_end_offset) == (7, 12)
        assert await late.read_bytes(7, 1 << 20) == await made.leader.partition.read_bytes(7, 1 << 20)
        assert late.log.leader_epochs.entries == ((0, 7),)


async def test_a_broker_that_was_killed_goes_on_from_what_it_wrote_down(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"x", count=4)) is ErrorCode.NONE
        await until(lambda: made.brokers[2].partition.high_watermark == 4)
        await made.brokers[2].logs.checkpoint_high_watermarks()
        await made.fence(2)
        await made.brokers.pop(2).stop(clean=False)
        assert await acked(made.leader.append(b"y", count=4)) is ErrorCode.NONE
        back = await made.start(2)
        assert (back.partition.high_watermark, back.partition.is_leader) == (4, False)
        await made.unfence(2)
        await until(lambda: set(made.state.isr) == {1, 2, 3} and is_equal(made))


async def test_a_follower_whose_disk_is_full_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async with cluster(tmp_path, lag_max_ms=100) as made:
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        full = made.brokers[3]
        full.logs.directories[0].writer.fail("write", OSError(errno.ENOSPC, "no room"))
        assert await acked(made.leader.append(b"y")) is ErrorCode.NONE
        assert 3 not in made.state.isr
        await full.logs.directories[0].resume()
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        assert await acked(made.leader.append(b"z")) is ErrorCode.NONE
        await until(lambda: is_equal(made))


async def test_an_election_in_a_new_epoch_takes_over_who_waits_on_the_same_leader(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        made.unreachable.add(3)
        waits = made.leader.append(b"x")
        await made.fence(3)
        made.state = made.state._replace(
            leader_epoch=made.state.leader_epoch + 1, partition_epoch=made.state.partition_epoch + 1
        )
        await made.spread()
        assert await acked(waits) is ErrorCode.NONE


async def test_what_is_deleted_is_deleted_on_every_replica_that_is_alive_before_it_is_said_to_be(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        for value in (b"a", b"b", b"c"):
            assert await acked(made.leader.append(value)) is ErrorCode.NONE
        leader = made.leader
        deletion = RecordDeletion(leader.replicas, leader.logs.checkpoint_log_starts, leader.timer)
        assert await deletion.delete(ANONYMOUS, [RecordsBefore("t", 0, 2)], 20_000) == [2]
        assert [each.partition.log.log_start_offset for each in made.brokers.values()] == [2, 2, 2]
        made.unreachable.add(3)
        [late] = await deletion.delete(ANONYMOUS, [RecordsBefore("t", 0, 3)], 50)
        assert isinstance(late, ApiError)
        assert late.code is ErrorCode.REQUEST_TIMED_OUT
        await made.fence(3)
        assert await deletion.delete(ANONYMOUS, [RecordsBefore("t", 0, 3)], 20_000) == [3]
        await made.fence(leader.broker_id)
        assert made.leader.partition.log.log_start_offset == 3
        [elsewhere] = await deletion.delete(ANONYMOUS, [RecordsBefore("t", 0, 3)], 20_000)
        assert isinstance(elsewhere, ApiError)
        assert elsewhere.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_older_image_changes_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        before = made.state
        await made.fence(1)
        newer, made.state = made.state, before
        await made.spread()
        assert made.brokers[1].partition.role.__class__ is Follower
        assert isinstance(made.brokers[2].partition.role, ReplicatedLeader)
        made.state = newer


async def test_replicas_without_a_leader_wait_for_one(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as made:
        assert await acked(made.leader.append(b"x")) is ErrorCode.NONE
        await made.fence(2)
        await made.fence(1)
        assert made.state.leader == -1
        assert await acked(made.brokers[1].append(b"y")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await made.unfence(1)
        await made.unfence(2)
        assert await acked(made.leader.append(b"z")) is ErrorCode.NONE
        assert made.leader.end_offset == 2


async def restart(made: Cluster, broker_id: int) -> None:
    """A broker's process is killed, and starts anew from what is in its files."""
    await made.fence(broker_id)
    await made.brokers.pop(broker_id).stop(clean=False)
    await made.start(broker_id)
    del made.live[broker_id]


async def something_happens(
    made: Cluster, chance: random.Random, step: int
) -> list[tuple[bytes, "asyncio.Future[AppendAck]"]]:
    """Brokers come and go, are cut off, hear late of what was decided, and append; returns what was appended."""
    match chance.randrange(10):
        case 0:
            made.unreachable.symmetric_difference_update({chance.randint(1, 3)})
        case 1 if len(made.live) > 1:
            victim = chance.choice(list(made.live))
            made.unreachable.add(victim)
            await made.fence(victim, but=(victim,) if chance.random() < 0.5 else ())
        case 2:
            back = chance.randint(1, 3)
            made.unreachable.discard(back)
            await made.unfence(back)
        case 3:
            await made.spread()
        case 4:
            made.controller_answers = chance.random() < 0.8
        case 5 if chance.random() < 0.3:
            await restart(made, chance.randint(1, 3))
        case _:
            leaders = [each for each in made.brokers.values() if each.partition.is_leader]
            values = [b"%d-%d-" % (step, each.broker_id) + b"x" * chance.choice([1, 50, 700]) for each in leaders]
            return [
                (value, each.append(value, count=chance.randint(1, 3)))
                for each, value in zip(leaders, values, strict=True)
            ]
    return []


async def read_as_consumer(broker: Broker, offset: int, rack: str = "") -> PartitionRead:
    done: asyncio.Future[list[PartitionRead]] = asyncio.get_running_loop().create_future()
    limits = broker.fetches.limits(1 << 20, 1, 0, read_committed=False, knows_zstd=True, from_followers=True, rack=rack)
    broker.fetches.fetch([FetchTarget(broker.partition, offset, 1 << 20)], limits, done.set_result)
    return (await done)[0]


async def test_a_follower_gives_consumers_what_it_knows_to_be_committed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"x", count=3)) is ErrorCode.NONE
        follower = made.brokers[2]
        await until(lambda: follower.partition.high_watermark == 3)
        made.unreachable.add(3)
        assert await acked(made.leader.append(b"y", acks=ACKS_LEADER)) is ErrorCode.NONE
        await until(lambda: follower.end_offset == 4)
        read = await read_as_consumer(follower, 0)
        assert (read.error, read.high_watermark, read.total_bytes > 0) == (ErrorCode.NONE, 3, True)
        assert (await read_as_consumer(follower, 3)).total_bytes == 0
        assert (await read_as_consumer(follower, 4)).error is ErrorCode.NONE
        assert (await read_as_consumer(follower, 5)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await read_as_consumer(made.leader, 5)).error is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_consumer_is_sent_to_the_replica_in_its_rack_that_has_most(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        racks = {1: "a", 2: "b", 3: "b"}
        made.leader.fetches.selector = RackAwareSelector(1, racks.get)
        assert await acked(made.leader.append(b"x", count=3)) is ErrorCode.NONE
        in_sync = in_sync_of(made)
        await until(lambda: all(state.end_offset == 3 for state in in_sync.followers.values()))
        assert (await read_as_consumer(made.leader, 0, "a")).preferred_read_replica == -1
        assert (await read_as_consumer(made.leader, 0, "c")).preferred_read_replica == -1
        sent = await read_as_consumer(made.leader, 0, "b")
        assert sent.preferred_read_replica in (2, 3)
        assert sent.total_bytes == 0
        made.unreachable.add(3)
        assert await acked(made.leader.append(b"y", acks=ACKS_LEADER)) is ErrorCode.NONE
        await until(lambda: in_sync.followers[2].end_offset == 4)
        assert (await read_as_consumer(made.leader, 4, "b")).preferred_read_replica == 2
        await made.fence(2)
        assert (await read_as_consumer(made.leader, 4, "b")).preferred_read_replica == -1


async def test_a_new_leader_tells_no_end_before_it_knows_what_is_committed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert await acked(made.leader.append(b"x", count=3)) is ErrorCode.NONE
        await until(lambda: is_equal(made))
        made.unreachable.update((1, 3))
        made.brokers[2].partition.high_watermark = 1
        await made.fence(1, but=(1,))
        leader = made.leader.partition
        assert (leader is made.brokers[2].partition, leader.is_behind_election) == (True, True)
        offsets = OffsetService(made.leader.replicas, made.leader.clock, made.leader.timer)
        for timestamp in (LATEST, 5_000):
            with pytest.raises(ApiError) as caught:
                await offsets.lookup(ANONYMOUS, read_committed=False).find(*NAME, -1, timestamp)
            assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await offsets.lookup(ANONYMOUS, read_committed=False).find(*NAME, -1, EARLIEST))[1] == 0
        assert (await offsets.lookup(ANONYMOUS, read_committed=False).find(*NAME, -1, 1_000))[1] == 0
        made.unreachable.discard(3)
        await until(lambda: not leader.is_behind_election)
        assert (await offsets.lookup(ANONYMOUS, read_committed=False).find(*NAME, -1, LATEST))[1] == 3


@pytest.mark.parametrize("seed", range(12))
async def test_replicas_are_equal_and_keep_what_was_acknowledged_whatever_happens(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with cluster(tmp_path, flush_before_ack=seed % 3 > 0, lag_max_ms=80, min_isr=1 + seed % 2) as made:
        waiting: list[tuple[bytes, asyncio.Future[AppendAck]]] = []
        committed: dict[int, int] = {}
        for step in range(60):
            waiting += await something_happens(made, chance, step)
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0.001)
            for broker in made.brokers.values():
                partition = broker.partition
                assert partition.high_watermark <= partition.log.log_end_offset
                if partition.is_leader:
                    epoch = partition.leader_epoch
                    assert committed.get(epoch, 0) <= partition.high_watermark
                    committed[epoch] = partition.high_watermark
        made.unreachable.clear()
        made.controller_answers = True
        for broker_id in (1, 2, 3):
            await made.unfence(broker_id)
        await until(lambda: set(made.state.isr) == {1, 2, 3})
        await made.spread()
        # A machine that stands still for longer than followers may lag takes them out of the ISR for a moment.
        while (error := await acked(made.leader.append(b"the end"))) is not ErrorCode.NONE:
            assert error in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            await until(lambda: set(made.state.isr) == {1, 2, 3})
        await until(lambda: is_equal(made))
        contents = made.leader.contents
        for value, future in waiting:
            if future.done() and future.result().error is ErrorCode.NONE:
                assert contents.count(value) >= 1, value[:20]
