"""A short form of `make chaos`: some crashes, and each kind of trouble a disk can make."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from chaos import reassignments
from chaos.bit_flip import PLACES, bit_flip
from chaos.chapter import ChapterResult, run_chapter
from chaos.cluster_chapter import ALL_TOPICS, BROKER_SETTINGS, REPLICAS, run_cluster_chapter
from chaos.cluster_faults import FAULTS
from chaos.crash import PowerCut, kill
from chaos.disk_trouble import aborted_journal, failing_disk, full_disk
from chaos.host_cluster import HostCluster, why_not
from chaos.host_faults import HOST_FAULTS
from chaos.loop_image import LoopImage, LoopImageError
from chaos.moments import Moment
from chaos.preloaded import CompilerError
from chaos.reassignments import REASSIGNMENTS, Reassigner
from tests.cluster import Cluster


def require_sound(result: ChapterResult) -> None:
    assert result.violations == []
    assert result.counts["records acknowledged"] == result.counts["records sent"] == result.counts["records read back"]
    assert result.counts["commits acknowledged"] > 0


def test_nothing_acknowledged_is_lost_changed_duplicated_or_reordered_by_kills(tmp_path: Path) -> None:
    moments = [Moment.ROLL, Moment.CHECKPOINT, Moment.TOPIC_CREATION, Moment.COMMIT]
    require_sound(run_chapter(tmp_path / "data", tmp_path, kill, moments, Random(4), lambda _: None))


@pytest.mark.long
def test_nothing_acknowledged_is_lost_whoever_of_a_cluster_is_killed(tmp_path: Path) -> None:
    names = ["kill -9 of a leader", "kill -9 of a coordinator", "kill -9 of all"]
    cluster, rng = Cluster(tmp_path, REPLICAS, dict(BROKER_SETTINGS)), Random(4)
    faults = [(name, partial(FAULTS[name], cluster, rng)) for name in names]
    result = run_cluster_chapter(cluster, faults, rng, lambda _: None)
    assert result.violations == []
    assert result.counts["records acknowledged"] == result.counts["records read back"] > 0


@pytest.mark.long
def test_nothing_acknowledged_is_lost_while_a_cluster_moves_a_hundred_partitions(tmp_path: Path) -> None:
    cluster, rng = Cluster(tmp_path, reassignments.BROKERS, dict(BROKER_SETTINGS)), Random(4)
    reassigner = Reassigner(cluster, ALL_TOPICS)
    moves = [(name, partial(move, reassigner, rng)) for name, move in REASSIGNMENTS.items()]
    result = run_cluster_chapter(
        cluster, moves, rng, lambda _: None, reassignments.TOPICS, reassigner.wait_until_filled
    )
    assert result.violations + reassigner.violations == []
    assert result.counts["records acknowledged"] == result.counts["records read back"] > 0
    assert reassigner.counts["reassignments cancelled"] > 0
    assert reassigner.counts["on their way at a kill"] > 0


@pytest.mark.long
def test_nothing_acknowledged_is_lost_whatever_happens_to_the_hosts_of_a_cluster(tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    names = ["network: both ways", "network: controller to ZooKeeper", "disk lost", "power cut of all"]
    cluster, rng = HostCluster(tmp_path, REPLICAS, dict(BROKER_SETTINGS)), Random(4)
    faults = [(name, partial(HOST_FAULTS[name], cluster, rng)) for name in names]
    result = run_cluster_chapter(cluster, faults, rng, lambda _: None)
    assert result.violations == []
    assert result.counts["records acknowledged"] == result.counts["records read back"] > 0


def test_nothing_acknowledged_is_lost_by_a_power_cut(tmp_path: Path) -> None:
    try:
        with LoopImage(tmp_path / "power-cut", 128) as image:
            crash = PowerCut(image)
            data_dir = image.mount_point / "data"
            require_sound(run_chapter(data_dir, tmp_path, crash, [Moment.APPEND], Random(4), lambda _: None))
    except LoopImageError as error:
        pytest.skip(str(error))


def test_a_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    try:
        outcome = full_disk(tmp_path, trouble_s=0)
    except LoopImageError as error:
        pytest.skip(str(error))
    assert outcome.problems == []


def test_a_failed_sync_refuses_writes_until_the_restart(tmp_path: Path) -> None:
    try:
        outcome = failing_disk(tmp_path, "sync", trouble_s=0)
    except CompilerError as error:
        pytest.skip(str(error))
    assert outcome.problems == []


def test_nothing_is_acknowledged_once_the_journal_is_aborted_though_syncs_succeed(tmp_path: Path) -> None:
    try:
        outcome = aborted_journal(tmp_path, trouble_s=0)
    except (CompilerError, LoopImageError) as error:
        pytest.skip(str(error))
    assert outcome.problems == []


def test_a_flipped_bit_is_noticed_and_costs_nothing_else(tmp_path: Path) -> None:
    assert bit_flip(tmp_path, PLACES[0]).problems == []
