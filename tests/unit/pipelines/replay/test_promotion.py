"""Positions move only when nothing runs and the replay has come to its end."""

import json
import os
from pathlib import Path

import pytest
from msgspec import structs

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.replay.promotion import Promotion, promotions
from ottla.pipelines.replay.replayed import ReplayError, ReplayRange, replayed
from ottla.pipelines.runner.checkpoint import LOCK
from ottla.pipelines.spec.model import PipelineSpec, Source, TopicSink
from ottla.runtime.disk import OsDisk

RANGES = {"events": ReplayRange({"e": {0: 1, 1: 2}}, {"e": {0: 5, 1: 6}})}


def pipeline(directory: Path, group: str | None = "g") -> PipelineSpec:
    return PipelineSpec(
        name="p",
        sources={"events": Source(name="events", topics=("e",), group=group)},
        sinks=(TopicSink(name="s", input="events", topic="t", transactional_id="p.s"),),
        directory=directory,
    )


def read_up_to(directory: Path, *offsets: int, sink: str = "s") -> None:
    """A checkpoint as Spark leaves it, with one micro-batch that is done."""
    checkpoint = directory / "checkpoints" / "p-v2" / sink
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    end = {"e": {str(number): offset for number, offset in enumerate(offsets)}, "#topicIds": {"e": "1f"}}
    (checkpoint / "offsets" / "0").write_text("\n".join(["v1", "{}", json.dumps(end)]))
    (checkpoint / "commits" / "0").write_text("v1\n{}")


def test_the_group_goes_on_where_the_replay_ended(tmp_path: Path):
    spec = pipeline(tmp_path)
    read_up_to(tmp_path, 5, 6)
    assert promotions(spec, replayed(spec, RANGES, "v2"), RANGES) == [
        Promotion("g", {TopicPartition("e", 0): 5, TopicPartition("e", 1): 6})
    ]


def test_each_sink_has_a_group_of_its_own_and_all_are_moved(tmp_path: Path):
    one = pipeline(tmp_path)
    other = TopicSink(name="s2", input="events", topic="t2", transactional_id="p.s2")
    spec = structs.replace(one, sinks=(*one.sinks, other))
    read_up_to(tmp_path, 5, 6)
    read_up_to(tmp_path, 5, 6, sink="s2")
    assert [each.group for each in promotions(spec, replayed(spec, RANGES, "v2"), RANGES)] == ["g", "g.s2"]


@pytest.mark.parametrize("running", ["p", "p-v2"])
def test_while_production_or_the_replay_runs_nothing_moves(tmp_path: Path, running: str):
    spec = pipeline(tmp_path)
    read_up_to(tmp_path, 5, 6)
    lock = tmp_path / "checkpoints" / running / "s" / LOCK
    lock.parent.mkdir(parents=True, exist_ok=True)
    held = OsDisk().lock(lock)
    with pytest.raises(ReplayError, match=rf"{running} is running \(sink s\): stop it first"):
        promotions(spec, replayed(spec, RANGES, "v2"), RANGES)
    os.close(held)
    assert promotions(spec, replayed(spec, RANGES, "v2"), RANGES)


def test_a_replay_that_has_not_come_to_its_end_is_refused(tmp_path: Path):
    spec = pipeline(tmp_path)
    side = replayed(spec, RANGES, "v2")
    with pytest.raises(ReplayError, match="sink s, it has not run"):
        promotions(spec, side, RANGES)
    read_up_to(tmp_path, 5, 4)
    with pytest.raises(ReplayError, match="e-1: it is at 4 of 6"):
        promotions(spec, side, RANGES)


def test_a_stream_without_a_group_is_refused(tmp_path: Path):
    spec = pipeline(tmp_path, group=None)
    with pytest.raises(ReplayError, match="source events has no `group`"):
        promotions(spec, structs.replace(replayed(spec, RANGES, "v2")), RANGES)
