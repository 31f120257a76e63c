"""A replica whose data directory is not there is offline: it is not made anew elsewhere, and comes back with it."""

import contextlib
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.image.delta import image_from_snapshot, snapshot_records
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.rng import SeededRng
from ottla.server.replica_directory_assignments import RETRY_MS
from tests.unit.metadata.images import image_of, topic_record
from tests.unit.server.test_partition_manager import Harness, removed
from tests.unit.storage.data_directory import names_in, opened
from tests.unit.storage.test_several_directories import UnreadableDisk

A, B = topic_record("a", 1, 4), topic_record("b", 2, 4)


@contextlib.asynccontextmanager
async def broker(
    paths: Sequence[Path], image: MetadataImage, disk: UnreadableDisk | None = None, seed: int = 1
) -> AsyncIterator[Harness]:
    """A broker over `paths` that finds what the metadata says."""
    async with opened(paths, disk=disk, rng=SeededRng(seed)) as directory:
        await directory.manager.identify("cluster", 1)
        harness = Harness(directory, paths[0])
        harness.image = image
        await harness.load()
        yield harness
        await settled(harness)
        harness.groups.close()
        harness.transactions.close()


async def settled(harness: Harness) -> None:
    """Wait until the controller was told."""
    await harness.directory.pass_time(0)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("x", "y")]


@pytest.fixture
async def image(paths: list[Path]) -> MetadataImage:
    """The metadata of a broker that has four partitions in two directories, with a record in each."""
    async with broker(paths, image_of()) as harness:
        await harness.decide(A)
        for index in range(4):
            await harness.write(harness.partition("a", index))
        await settled(harness)
        return harness.image


def logs_in(path: Path) -> list[str]:
    return [name for name in names_in(path, "*-*") if (path / name).is_dir()]


async def test_the_metadata_is_told_where_each_replica_lies(paths: list[Path], image: MetadataImage):
    ids = {}
    async with broker(paths, image) as harness:
        for directory in harness.logs.directories:
            ids[directory.directory_id] = Path(directory.path)
        assert harness.served == ["a-0", "a-1", "a-2", "a-3"]
    places = image.replica_directories[A.topic_id]
    assert {key: ids[place] for key, place in places.items()} == {(i, 1): paths[i % 2] for i in range(4)}


async def test_nothing_is_said_of_the_only_directory(paths: list[Path]):
    async with broker(paths[:1], image_of()) as harness:
        await harness.decide(A)
        await settled(harness)
        assert harness.image.replica_directories == {}


async def test_a_directory_that_cannot_be_read_leaves_its_replicas_offline_until_it_can(
    paths: list[Path], image: MetadataImage
):
    disk = UnreadableDisk(paths[1])
    async with broker(paths, image, disk) as harness:
        assert harness.served == ["a-0", "a-2"]
        assert logs_in(paths[0]) == ["a-0", "a-2"]
        for get in (lambda: harness.replicas.get("a", 1), lambda: harness.replicas.get_by_id(A.topic_id, 1)):
            with pytest.raises(ApiError) as refused:
                get()
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        await harness.decide(B)
        assert logs_in(paths[0]) == ["a-0", "a-2", "b-0", "b-1", "b-2", "b-3"], "what is new goes where there is room"
        await harness.keeper.serve_missing()
        assert harness.served == ["a-0", "a-2", "b-0", "b-1", "b-2", "b-3"]
        disk.is_broken = False
        (late,) = [each for each in harness.logs.directories if not each.is_loaded]
        await late.resume()
        await harness.keeper.directory_is_back(late)
        assert [each for each in harness.served if each.startswith("a")] == ["a-0", "a-1", "a-2", "a-3"]
        assert harness.partition("a", 1).log.log_end_offset == 1
        assert harness.replicas.offline == {}


async def test_a_directory_that_is_configured_no_more_or_new_holds_nothing_of_the_old_one(
    paths: list[Path], image: MetadataImage
):
    async with broker(paths[:1], image) as harness:
        assert harness.served == ["a-0", "a-2"]
    shutil.rmtree(paths[1])
    async with broker(paths, image, seed=2) as harness:
        assert harness.served == ["a-0", "a-2"]
        assert logs_in(paths[1]) == []
        await harness.decide(removed(A))
        assert harness.replicas.offline == {}
        await harness.decide(topic_record("a", 7, 4))
        assert harness.served == ["a-0", "a-1", "a-2", "a-3"]


async def test_while_a_directory_is_away_nothing_of_unknown_place_is_made(paths: list[Path], image: MetadataImage):
    untold = image_from_snapshot(
        "cluster", [record for record in snapshot_records(image) if record.KIND != "replica-directories"], 0
    )
    async with broker(paths, untold, UnreadableDisk(paths[1])) as harness:
        assert harness.served == ["a-0", "a-2"]
    async with broker(paths, untold) as harness:
        assert harness.served == ["a-0", "a-1", "a-2", "a-3"]
        await settled(harness)
        assert harness.image.replica_directories == image.replica_directories


async def test_what_a_late_directory_holds_of_topics_that_are_gone_is_set_aside(
    paths: list[Path], image: MetadataImage, caplog: pytest.LogCaptureFixture
):
    disk = UnreadableDisk(paths[1])
    async with broker(paths, image, disk) as harness:
        await harness.decide(removed(A))
        await harness.decide(topic_record("a", 7, 1), topic_record("c", 8, 1))
        disk.is_broken = False
        (late,) = [each for each in harness.logs.directories if not each.is_loaded]
        await late.resume()
        await harness.keeper.directory_is_back(late)
        assert harness.served == ["a-0", "c-0"]
        assert all("-stray" in name for name in logs_in(paths[1]))
        assert len(logs_in(paths[1])) == 2


async def test_a_log_that_two_directories_have_is_that_of_the_topic_with_more_in_it(
    paths: list[Path], image: MetadataImage
):
    shutil.copytree(paths[0] / "a-0", paths[1] / "a-0")
    shutil.copytree(paths[1] / "a-1", paths[0] / "a-1")
    (paths[0] / "a-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n")
    for path in paths:
        (path / ".kafka_cleanshutdown").unlink()
    log = paths[0] / "a-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-1])
    async with broker(paths, image) as harness:
        assert harness.served == ["a-0", "a-1", "a-2", "a-3"]
        assert [harness.partition("a", index).log.directory for index in (0, 1)] == [
            str(paths[1] / "a-0"),
            str(paths[1] / "a-1"),
        ]
        assert harness.partition("a", 0).log.log_end_offset == 1
        await settled(harness)
        place = harness.image.replica_directory(A.topic_id, 0, 1)
        assert place == harness.logs.directories[1].directory_id
    assert [name.partition(".")[0] for name in logs_in(paths[0]) if name.endswith("-stray")] == ["a-0", "a-1"]


async def test_a_controller_that_cannot_be_told_is_told_again(paths: list[Path]):
    async with opened(paths) as directory:
        await directory.manager.identify("cluster", 1)
        harness = Harness(directory, paths[0])
        refusals, note = 2, harness.place_replicas

        async def refuse(places: Sequence[ReplicaPlace]) -> list[Outcome[None]]:
            nonlocal refusals
            refusals -= 1
            if refusals >= 0:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            return await note(places)

        harness.places._tell = refuse
        await harness.load()
        await harness.decide(A)
        for _ in range(3):
            assert harness.image.replica_directories == {}
            await directory.pass_time(RETRY_MS)
        await settled(harness)
        assert len(harness.image.replica_directories[A.topic_id]) == 4
        harness.groups.close()
        harness.transactions.close()


async def test_why_replicas_are_offline_is_said_once_and_not_for_each(
    paths: list[Path], image: MetadataImage, caplog: pytest.LogCaptureFixture
):
    shutil.rmtree(paths[1])
    async with broker(paths, image, seed=2) as harness:
        assert harness.served == ["a-0", "a-2"]
        assert len(harness.replicas.offline) == 2
        lines = [line for line in caplog.messages if "is offline" in line]
        assert len(lines) == 1
        assert "no directory of log.dirs has that id" in lines[0]
