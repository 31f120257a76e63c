"""Partitions and logs follow the metadata, whatever fails beside them. Everything is real but the time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import ALLOW_ALL
from ottla.broker.configs import ConfigService
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.group_config import GroupConfig
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.replica_assignment import new_partition
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import topic_resource
from ottla.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangedRecord,
    PartitionsAddedRecord,
    PartitionState,
    ReplicaDirectoriesRecord,
    TopicRecord,
    TopicRemovedRecord,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.queues.share_coordinator import ShareCoordinator
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.leaderships import Leaderships
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.roles import LoneRoles
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.environment import Environment
from ottla.runtime.purgatory import DelayedOperation, Purgatory
from ottla.runtime.rng import SeededRng
from ottla.server.coordinators import Coordinators
from ottla.server.partition_manager import PartitionManager
from ottla.server.replica_directory_assignments import ReplicaDirectoryAssignments
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_config import LogConfig
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.transaction_config import TransactionConfig
from tests.unit.metadata.images import image_of, topic_record
from tests.unit.metadata.metadata_broker import MetadataBroker
from tests.unit.storage.data_directory import OpenDirectory, names_in, opened


class Harness:
    """A keeper over a data directory; the image is what the test says."""

    def __init__(self, directory: OpenDirectory, path: Path) -> None:
        self.directory = directory
        self.logs = directory.manager
        self.path = path
        settings = BrokerSettings({})
        metadata = MetadataBroker(path, settings, SeededRng(0), directory.tasks)
        environment = Environment(
            directory.clock, SeededRng(0), directory.timer, directory.tasks, asyncio.get_running_loop().call_soon
        )
        self.replicas = ReplicaManager(lambda: self.image)
        self.groups = GroupCoordinator(GroupConfig(), environment)
        markers = TransactionMarkers(self.replicas, Deadlines(directory.clock, directory.timer))
        self.transactions = TransactionCoordinator(TransactionConfig(), environment, markers, self._no_producer_id)
        leaderships = Leaderships()
        shares = ShareCoordinator(settings, environment)
        self.coordinators = Coordinators(self.groups, self.transactions, shares, leaderships)
        self.purgatory = Purgatory(directory.timer, 10)
        self.places = ReplicaDirectoryAssignments(
            1,
            self.logs,
            self.replicas,
            lambda: self.image,
            self.place_replicas,
            directory.timer,
            directory.tasks,
        )
        self.keeper = PartitionManager(
            settings=settings,
            configs=ConfigService(metadata.controller, settings, ALLOW_ALL),
            logs=self.logs,
            replicas=self.replicas,
            leaderships=leaderships,
            fetch_purgatory=self.purgatory,
            environment=environment,
            opener=BatchDecompressor(directory.tasks),
            places=self.places,
            roles=LoneRoles(1),
        )
        self.image = image_of()

    async def place_replicas(self, places: Sequence[ReplicaPlace]) -> list[Outcome[None]]:
        """Note in the metadata what the broker says."""
        for place in places:
            record = ReplicaDirectoriesRecord(1, place.topic_id, ((place.index, place.directory_id),))
            await self.decide(record)
        return [None] * len(places)

    async def _no_producer_id(self) -> int:
        raise AssertionError("nobody asked for one")

    async def load(self, *records: MetadataRecord, is_known: bool = True) -> None:
        self.image, _ = apply_records(self.image, records)
        self.coordinators.load(self.image)
        await self.keeper.load(self.image, is_known=is_known)

    async def decide(self, *records: MetadataRecord) -> None:
        """The metadata goes on by these records, in one image."""
        self.image, delta = apply_records(self.image, records)
        self.coordinators.on_image(self.image, delta)
        await self.keeper.on_image(self.image, delta)

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.replicas.get(topic, index)

    @property
    def served(self) -> list[str]:
        """The partitions there are."""
        return sorted(str(partition.topic_partition) for partition in self.replicas)

    @property
    def directories(self) -> list[str]:
        """The logs there are on the disk, without those that wait to be removed or were set aside."""
        return sorted(
            path.name for path in self.path.iterdir() if path.is_dir() and not path.name.endswith(("-delete", "-stray"))
        )

    async def write(self, partition: Partition) -> None:
        acks: list[AppendAck] = []
        partition.append(build_batch([(0, b"k", b"v", ())]), acks=ACKS_ALL, on_ack=acks.append)
        await partition.log.flush()
        assert [ack.error for ack in acks] == [ErrorCode.NONE]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async with opened(tmp_path) as directory:
        harness = Harness(directory, tmp_path)
        yield harness
        harness.groups.close()
        harness.transactions.close()


def removed(record: Any) -> TopicRemovedRecord:
    return TopicRemovedRecord(record.topic_id)


A, B = topic_record("a", 1, 2), topic_record("b", 2)


async def test_at_the_start_what_is_assigned_to_this_broker_is_served_and_nothing_else(harness: Harness):
    await harness.load(A, topic_record("elsewhere", 9, replicas=(2,)))
    assert harness.served == harness.directories == ["a-0", "a-1"]
    assert harness.partition("a", 1).topic_id == A.topic_id


def strays(path: Path) -> list[str]:
    return sorted(each.name.partition(".")[0] for each in path.iterdir() if each.name.endswith("-stray"))


async def test_a_log_that_no_topic_claims_is_set_aside_and_nobody_removes_it(
    harness: Harness, caplog: pytest.LogCaptureFixture
):
    log = await harness.logs.create_log(TopicPartition("lost", 0), A.topic_id, LogConfig())
    await harness.directory.append_all(log, [build_batch([(0, b"k", b"v", ())])])
    await harness.load(B)
    assert harness.served == ["b-0"]
    assert strays(harness.path) == ["lost-0"]
    (stray,) = harness.path.glob("*-stray")
    assert f"partition lost-0 belongs to no topic: its {log.size} bytes were moved to {stray}" in caplog.text
    await harness.directory.pass_time(1_000_000)
    await harness.logs.apply_retention()
    assert len(list(stray.glob("*.log"))) == 1
    await harness.decide(topic_record("lost", 7))
    assert harness.partition("lost").log.log_end_offset == 0


@pytest.mark.parametrize(("records", "is_known"), [((), True), ((B,), False)])
async def test_where_the_metadata_may_be_another_a_log_that_no_topic_claims_stays_whole(
    harness: Harness, caplog: pytest.LogCaptureFixture, records: tuple[MetadataRecord, ...], is_known: bool
):
    log = await harness.logs.create_log(TopicPartition("lost", 0), A.topic_id, LogConfig(retention_ms=1))
    await harness.directory.append_all(log, [build_batch([(0, b"k", b"v", ())])])
    await harness.load(*records, is_known=is_known)
    assert "lost-0" in harness.directories
    assert strays(harness.path) == []
    assert "lost-0 belongs to no topic; it is not changed" in caplog.text
    await harness.directory.pass_time(1_000)
    await harness.logs.apply_retention()
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    await harness.decide(topic_record("lost", 7))
    assert harness.partition("lost").log.log_end_offset == 0
    assert strays(harness.path) == ["lost-0"]


async def test_the_log_of_an_earlier_topic_of_the_name_is_removed(harness: Harness):
    await harness.load(A)
    await harness.write(harness.partition("a"))
    harness.replicas.remove([TopicPartition("a", 0), TopicPartition("a", 1)])
    harness.image = image_of()
    await harness.load(topic_record("a", 5))
    assert harness.partition("a").log.log_end_offset == 0
    assert harness.partition("a").log.topic_id == topic_record("a", 5).topic_id


async def test_the_log_of_an_earlier_topic_stays_as_long_as_the_settings_of_the_name_say(tmp_path: Path):
    async with opened(tmp_path) as directory:
        await directory.manager.create_log(TopicPartition("a", 0), A.topic_id, LogConfig())
    async with opened(tmp_path) as directory:
        harness = Harness(directory, tmp_path)
        a = topic_resource("a")
        await harness.load(topic_record("a", 5), ConfigRecord(a.type, a.name, "file.delete.delay.ms", "1000"))
        await directory.pass_time(999)
        assert len(names_in(tmp_path, "a-0.*-delete")) == 1
        await directory.pass_time(1)
        assert not names_in(tmp_path, "a-0.*-delete")
        harness.groups.close()


async def test_topics_come_grow_and_go(harness: Harness):
    await harness.decide(A, B)
    assert harness.served == ["a-0", "a-1", "b-0"]
    first = harness.partition("a")
    await harness.decide(PartitionsAddedRecord(A.topic_id, (new_partition((1,)),)))
    assert harness.served == ["a-0", "a-1", "a-2", "b-0"]
    assert harness.partition("a") is first
    await harness.decide(removed(A))
    assert harness.served == harness.directories == ["b-0"]
    assert not first.is_leader


async def test_a_topic_made_again_in_the_same_image_begins_empty(harness: Harness):
    await harness.decide(A)
    await harness.write(harness.partition("a"))
    await harness.decide(removed(A), topic_record("a", 5, 2))
    assert harness.partition("a").log.log_end_offset == 0
    assert harness.directories == ["a-0", "a-1"]


async def test_settings_reach_the_logs_at_once_and_those_of_new_topics_too(harness: Harness):
    a, b = topic_resource("a"), topic_resource("b")
    await harness.decide(A)
    await harness.decide(
        ConfigRecord(a.type, a.name, "retention.ms", "5"),
        ConfigRecord(a.type, a.name, "min.insync.replicas", "2"),
        ConfigRecord(b.type, b.name, "retention.ms", "7"),
        B,
    )
    assert [harness.partition("a", index).log.config.retention_ms for index in (0, 1)] == [5, 5]
    assert harness.partition("a").min_insync_replicas == 2
    assert harness.partition("b").log.config.retention_ms == 7


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC])
async def test_a_coordinator_follows_its_topic(harness: Harness, topic: str):
    coordinator = harness.groups if topic == CONSUMER_OFFSETS_TOPIC else harness.transactions
    states = coordinator._runtime.state
    record = topic_record(topic, 9, 4)
    await harness.decide(record)
    assert coordinator.partition_count == 4
    assert None not in map(states, range(4))
    await harness.decide(removed(record))
    assert list(map(states, range(4))) == [None] * 4


@pytest.mark.parametrize("error", [ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"), ZeroDivisionError()])
async def test_a_topic_that_cannot_be_served_stops_no_other_and_is_served_when_it_can(
    harness: Harness, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    create_logs = harness.logs.create_logs

    async def fail_for_a(names: Any, topic_id: Any, *rest: Any) -> Any:
        if topic_id == A.topic_id:
            raise error
        return await create_logs(names, topic_id, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(harness.logs, "create_logs", fail_for_a)
        await harness.decide(A, B)
    assert harness.served == ["b-0"]
    assert "topic a" in caplog.text
    await harness.keeper.serve_missing()
    assert harness.served == ["a-0", "a-1", "b-0"]


@pytest.mark.parametrize("again", [False, True])
async def test_what_was_missing_is_not_made_of_a_topic_that_is_being_deleted(
    harness: Harness, again: bool, monkeypatch: pytest.MonkeyPatch
):
    await harness.decide(A, B)
    delete_logs = harness.logs.delete_logs
    serving: list[asyncio.Task[None]] = []

    async def serve_meanwhile(names: list[TopicPartition]) -> None:
        serving.append(asyncio.create_task(harness.keeper.serve_missing()))
        await asyncio.sleep(0)
        await delete_logs(names)

    monkeypatch.setattr(harness.logs, "delete_logs", serve_meanwhile)
    await harness.decide(removed(A), *([topic_record("a", 5)] if again else []))
    await serving[0]
    assert harness.served == harness.directories == (["a-0", "b-0"] if again else ["b-0"])
    if again:
        assert harness.partition("a").topic_id == topic_record("a", 5).topic_id


async def test_who_closes_waits_for_what_was_begun_and_nothing_is_begun_after_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    await harness.decide(A, B)
    delete_logs, may_go_on = harness.logs.delete_logs, asyncio.Event()

    async def delete_later(names: list[TopicPartition]) -> None:
        await may_go_on.wait()
        await delete_logs(names)

    monkeypatch.setattr(harness.logs, "delete_logs", delete_later)
    deciding = asyncio.create_task(harness.decide(removed(A)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(harness.keeper.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_go_on.set()
    await asyncio.gather(deciding, closing)
    assert harness.directories == ["b-0"]
    await harness.logs.close()
    await harness.decide(removed(B), topic_record("c", 5))
    assert (harness.directories, caplog.text) == (["b-0"], "")


async def test_a_deletion_that_fails_stops_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    await harness.decide(A, B)
    caplog.set_level(logging.ERROR)
    delete_logs = harness.logs.delete_logs

    async def fail_for_a(names: list[TopicPartition]) -> None:
        if names[0].topic == "a":
            raise OSError("the disk is gone")
        await delete_logs(names)

    monkeypatch.setattr(harness.logs, "delete_logs", fail_for_a)
    await harness.decide(removed(A), removed(B), topic_record("c", 5))
    assert harness.served == ["c-0"]
    assert harness.directories == ["a-0", "a-1", "c-0"]
    assert "the disk is gone" in caplog.text


async def test_groups_that_cannot_act_on_the_metadata_stop_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    await harness.decide(A)
    monkeypatch.setattr(GroupCoordinator, "metadata_changed", None)
    await harness.decide(removed(A), B)
    assert harness.served == harness.directories == ["b-0"]


async def test_a_log_whose_partition_could_not_be_made_goes_with_its_topic(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(ReplicaManager, "add", None)
        await harness.decide(A)
    assert (harness.served, harness.directories) == ([], ["a-0", "a-1"])
    await harness.decide(removed(A))
    assert harness.directories == []


async def test_when_the_directory_fails_everybody_who_waits_is_told(harness: Harness):
    await harness.decide(B)
    acks: list[AppendAck] = []
    harness.logs.directories[0].writer.detach()
    harness.partition("b").append(build_batch([(0, b"k", b"v", ())]), acks=ACKS_ALL, on_ack=acks.append)
    harness.keeper.fail_all("no more", harness.logs.directories[0])
    assert [(ack.error, ack.message) for ack in acks] == [(ErrorCode.KAFKA_STORAGE_ERROR, "no more")]
    harness.logs.directories[0].writer.attach(asyncio.get_running_loop())


def changed(record: TopicRecord, leader: int, epoch: int, replicas: tuple[int, ...] = (1, 2), index: int = 0):
    """A partition has another leader, other replicas; all are in sync."""
    return PartitionChangedRecord(record.topic_id, index, PartitionState(leader, epoch, replicas, replicas, epoch))


SHARED = topic_record("shared", 7, 2, replicas=(1, 2))


async def test_a_partition_leads_and_follows_as_the_image_says(harness: Harness):
    await harness.decide(topic_record("led", 3, replicas=(1, 2)), topic_record("followed", 4, replicas=(2, 1)))
    assert harness.partition("led").is_leader
    assert not harness.partition("followed").is_leader
    await harness.decide(changed(topic_record("led", 3), leader=2, epoch=1))
    await harness.decide(changed(topic_record("followed", 4), leader=1, epoch=1))
    led, followed = harness.partition("led"), harness.partition("followed")
    assert [(each.is_leader, each.leader_epoch) for each in (led, followed)] == [(False, 1), (True, 1)]
    await harness.decide(changed(topic_record("followed", 4), leader=-1, epoch=2))
    assert not followed.is_leader


async def test_what_is_moved_to_other_brokers_goes_and_what_is_moved_here_comes(harness: Harness):
    await harness.decide(SHARED)
    kept = harness.partition("shared", 1)
    await harness.decide(changed(SHARED, leader=2, epoch=1, replicas=(2, 3)))
    assert harness.served == harness.directories == ["shared-1"]
    with pytest.raises(ApiError) as caught:
        harness.replicas.get_by_id(SHARED.topic_id, 0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert harness.replicas.get_by_id(SHARED.topic_id, 1) is kept
    await harness.decide(changed(SHARED, leader=2, epoch=2, replicas=(2, 1)))
    assert harness.served == harness.directories == ["shared-0", "shared-1"]


async def test_a_partition_of_other_brokers_is_to_be_looked_for_there(harness: Harness):
    await harness.decide(topic_record("elsewhere", 9, replicas=(2,)))
    for find in (
        lambda: harness.replicas.get("elsewhere", 0),
        lambda: harness.replicas.get_by_id(topic_record("elsewhere", 9).topic_id, 0),
    ):
        with pytest.raises(ApiError) as caught:
            find()
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError) as caught:
        harness.replicas.get("elsewhere", 1)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC])
async def test_a_coordinator_comes_and_goes_with_the_leadership_of_its_partition(harness: Harness, topic: str):
    coordinator = harness.groups if topic == CONSUMER_OFFSETS_TOPIC else harness.transactions
    record = topic_record(topic, 9, 2, replicas=(1, 2))
    states = coordinator._runtime.state
    await harness.decide(record)
    runner = coordinator._runtime._runners[1]
    await harness.decide(changed(record, leader=2, epoch=1))
    assert (states(0), states(1)) == (None, runner.state)
    await harness.decide(changed(record, leader=1, epoch=2))
    assert states(0) is not None
    elected = coordinator._runtime._runners[0]
    await harness.decide(PartitionChangedRecord(record.topic_id, 0, PartitionState(1, 2, (1, 2), (1,), 3)))
    assert coordinator._runtime._runners[0] is elected
    assert coordinator._runtime._runners[1] is runner
    await harness.decide(changed(record, leader=1, epoch=4))
    assert coordinator._runtime._runners[0] is not elected
    await harness.decide(changed(record, leader=3, epoch=5, replicas=(3, 2)))
    assert states(0) is None


async def test_images_that_come_quickly_are_acted_on_in_their_order(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    record = topic_record(CONSUMER_OFFSETS_TOPIC, 9, replicas=(1, 2))
    told: list[str] = []
    monkeypatch.setattr(
        GroupCoordinator, "elected", lambda _, partition: told.append(f"elected {partition.leader_epoch}")
    )
    monkeypatch.setattr(GroupCoordinator, "resigned", lambda _, partition: told.append(f"resigned {partition.index}"))
    create_logs, may_go_on = harness.logs.create_logs, asyncio.Event()

    async def create_later(*arguments: Any) -> Any:
        await may_go_on.wait()
        return await create_logs(*arguments)

    monkeypatch.setattr(harness.logs, "create_logs", create_later)
    deciding = [asyncio.create_task(harness.decide(record))]
    for epoch, leader in enumerate((2, 1, 2), start=1):
        await asyncio.sleep(0)
        deciding.append(asyncio.create_task(harness.decide(changed(record, leader, epoch))))
    await asyncio.sleep(0)
    assert told == []
    may_go_on.set()
    await asyncio.gather(*deciding)
    assert told == ["elected 0", "resigned 0", "elected 2", "resigned 0"]
    assert not harness.partition(CONSUMER_OFFSETS_TOPIC).is_leader


async def test_what_was_committed_is_remembered_of_a_partition_that_others_have_too(tmp_path: Path):
    async with opened(tmp_path) as directory:
        harness = Harness(directory, tmp_path)
        await harness.load(SHARED, A)
        for name, index in (("shared", 0), ("a", 0)):
            await harness.write(harness.partition(name, index))
        harness.partition("shared").high_watermark = 0
        harness.groups.close()
    async with opened(tmp_path) as directory:
        harness = Harness(directory, tmp_path)
        await harness.load(SHARED, A)
        assert [harness.partition(name).high_watermark for name in ("shared", "a")] == [0, 1]
        assert harness.partition("shared").log.log_end_offset == 1
        harness.groups.close()


async def test_a_start_that_ends_before_the_partitions_are_served_takes_nothing_for_committed(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        await directory.append_all(log, [build_batch([(0, b"k", b"v", ())]) for _ in range(3)])
        directory.manager.high_watermark_of = lambda _log: 1
    async with opened(tmp_path) as directory:
        Harness(directory, tmp_path)
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"


class Reader(DelayedOperation):
    """Notes when it is told that something changed."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    def try_complete(self) -> bool:
        self.told.append("reader")
        return False

    def on_complete(self) -> None: ...


async def test_readers_are_told_once_a_turn_and_behind_what_producers_are_answered(harness: Harness):
    await harness.decide(A, B)
    told: list[str] = []
    reader, names = Reader(told), [TopicPartition("a", 0), TopicPartition("b", 0)]
    harness.purgatory.try_complete_else_watch(reader, names, 1_000)
    told.clear()
    a, b = harness.partition("a"), harness.partition("b")
    asyncio.get_running_loop().call_soon(told.append, "answers leave")  # as a connection has them sent
    for changed in (a, harness.partition("a", 1), a, b):
        changed.changed()
    assert told == []
    await asyncio.sleep(0)
    assert told == ["answers leave", "reader", "reader"]
    a.changed()
    await asyncio.sleep(0)
    assert told[3:] == ["reader"]
    reader.cancel()
    a.changed()
    await asyncio.sleep(0)
    assert len(told) == 4
