"""What a run of a cluster says of time and of files: pure functions over what was seen."""

from pathlib import Path
from random import Random

import pytest

from chaos import equal_replicas
from chaos.cluster_chapter import longest_silence
from chaos.cluster_faults import FAULTS
from chaos.cluster_run import Kind as Chapter
from chaos.cluster_run import plan_faults, plan_kinds
from chaos.equal_replicas import check_replicas
from chaos.history import Send
from ottla.simulation.anomaly import Anomaly
from ottla.simulation.history import Outcome
from tests.unit.chaos.test_checker import payload


def acknowledged(number: int, partition: int, completed_at: float) -> Send:
    return Send(payload(number), ("orders", partition), completed_at - 0.1, Outcome.OK, number, completed_at)


def test_the_longest_silence_is_that_of_the_partition_that_waits_longest():
    sends = [acknowledged(0, 0, 9.0), acknowledged(1, 0, 10.5), acknowledged(2, 0, 11.0)]
    sends += [acknowledged(3, 1, 13.0), acknowledged(4, 1, 13.5), acknowledged(5, 1, 30.0)]
    sends.append(Send(payload(6), ("orders", 1), 10.0))
    assert longest_silence(sends, 10.0, 20.0) == 3.0
    assert longest_silence([], 10.0, 20.0) == 0.0


def test_faults_come_equally_often():
    planned = plan_faults(2 * len(FAULTS), list(FAULTS), Random(1))
    assert {name: planned.count(name) for name in FAULTS} == dict.fromkeys(FAULTS, 2)


def test_each_kind_of_chapter_has_the_share_of_its_faults() -> None:
    kinds = {Chapter.PROCESSES: ["a", "b", "c"], Chapter.REASSIGNMENTS: ["d"], Chapter.HOSTS: ["e", "f"]}
    planned = plan_kinds(13, kinds, Random(1))
    assert {kind: len(plan) for kind, plan in planned.items()} == {
        Chapter.PROCESSES: 7,
        Chapter.REASSIGNMENTS: 2,
        Chapter.HOSTS: 4,
    }
    assert plan_kinds(3, {**kinds, Chapter.PROCESSES: [], Chapter.HOSTS: []}, Random(1)) == {
        Chapter.REASSIGNMENTS: ["d"] * 3
    }
    assert plan_kinds(3, dict.fromkeys(kinds, ()), Random(1)) == {}


def replicas(directory: Path, *contents: list[bytes]) -> list[Path]:
    """Brokers' directories with the segments of orders-0."""
    found = []
    for number, segments in enumerate(contents):
        log = directory / str(number) / "orders-0"
        log.mkdir(parents=True)
        for index, content in enumerate(segments):
            (log / f"{index:020d}.log").write_bytes(content)
        found.append(log.parent)
    return found


def test_replicas_are_the_same_wherever_their_segments_begin(tmp_path: Path):
    assert list(check_replicas(replicas(tmp_path, [b"ab", b"c"], [b"a", b"bc"]), [("orders", 0)])) == []


def test_replicas_that_differ_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(equal_replicas, "PATIENCE_S", 0)
    [violation] = check_replicas(replicas(tmp_path, [b"ab"], [b"a"]), [("orders", 0)])
    assert violation.anomaly is Anomaly.REPLICAS_DIFFER
    assert "2 bytes" in violation.where
    assert "1 bytes" in violation.where
