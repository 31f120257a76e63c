"""Whose a checkpoint is, who uses it, and how far it has come."""

import json
from pathlib import Path

import pytest

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.runner.checkpoint import (
    CheckpointError,
    CheckpointLock,
    batches,
    differences,
    directory_of,
    is_in_use,
    owner_of,
    query_id,
)
from ottla.pipelines.runner.positions import execute, plan_move, positions
from ottla.pipelines.spec.lineage import through
from ottla.pipelines.spec.model import DAY_MS, Deduplicate, PipelineSpec, Source, Step, TopicSink


def spec(topic: str = "events", *, by: tuple[str, ...] = ("id",), name: str = "p") -> PipelineSpec:
    return PipelineSpec(
        name=name,
        sources={"events": Source(name="events", topics=(topic,))},
        steps=(Step(name="once", inputs=("events",), action=Deduplicate(by=by, within_ms=DAY_MS, time="at")),),
        sinks=(TopicSink(name="out", input="once", topic="t", transactional_id="p.out"),),
    )


def owner(made: PipelineSpec):
    return owner_of(made, made.sinks[0], through(made, "out"))


def batch(directory, number, ends, *, done=True):
    (directory / "offsets").mkdir(parents=True, exist_ok=True)
    (directory / "commits").mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps(end) for end in ends)]
    (directory / "offsets" / str(number)).write_text("\n".join(lines))
    (directory / "offsets" / f".{number}.crc").write_bytes(b"crc")
    if done:
        (directory / "commits" / str(number)).write_text("v1\n{}")


def test_a_checkpoint_has_one_driver_at_a_time(tmp_path):
    with CheckpointLock(tmp_path / "c", owner(spec())):
        assert is_in_use(tmp_path / "c")
        with (
            pytest.raises(CheckpointError, match="in use by another driver"),
            CheckpointLock(tmp_path / "c", owner(spec())),
        ):
            pass
    assert not is_in_use(tmp_path / "c")
    with CheckpointLock(tmp_path / "c", owner(spec())):
        pass


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (spec(name="q"), "it is of pipeline p, sink out"),
        (spec("else"), r"it read events \(events\), not events \(else\)"),
        (spec(by=("id", "day")), "it keeps state for"),
    ],
    ids=["name", "source", "state"],
)
def test_the_checkpoint_of_something_else_is_refused_and_says_what_differs(tmp_path, other, said):
    with CheckpointLock(tmp_path, owner(spec())):
        pass
    with pytest.raises(CheckpointError, match=said), CheckpointLock(tmp_path, owner(other)):
        pass
    assert not is_in_use(tmp_path)


def test_a_checkpoint_that_no_pipeline_made_is_refused(tmp_path):
    (tmp_path / "metadata").write_text('{"id":"1"}')
    with pytest.raises(CheckpointError, match="no pipeline made"), CheckpointLock(tmp_path, owner(spec())):
        pass


def test_equal_owners_do_not_differ():
    assert differences(owner(spec()), owner(spec())) == []


def test_the_directory_of_a_checkpoint_is_named_after_pipeline_and_sink(tmp_path):
    made = spec()
    assert directory_of(made, made.sinks[0]) == str(Path("checkpoints/p/out").absolute())


def test_the_position_is_the_end_of_the_last_micro_batch_that_is_done(tmp_path):
    batch(tmp_path, 9, [{"e": {"0": 5}}])
    batch(tmp_path, 10, [{"e": {"0": 7, "1": 2}, "#topicIds": {"e": "x"}}])
    batch(tmp_path, 11, [{"e": {"0": 9, "1": 2}}], done=False)
    assert [each.number for each in batches(tmp_path)] == [10, 11]
    assert positions(tmp_path) == {TopicPartition("e", 0): 7, TopicPartition("e", 1): 2}
    assert positions(tmp_path / "none") == {}


def test_a_file_that_is_no_list_of_offsets_is_an_error_that_names_it(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v9\nwhat")
    with pytest.raises(CheckpointError, match="offsets/0 is not written as"):
        batches(tmp_path)


def test_the_query_of_a_checkpoint_is_in_its_metadata(tmp_path):
    assert query_id(tmp_path) is None
    (tmp_path / "metadata").write_text('{"id":"abc"}')
    assert query_id(tmp_path) == "abc"


def test_a_checkpoint_is_moved_and_keeps_what_is_no_offset(tmp_path):
    batch(tmp_path, 3, [{"e": {"0": 7, "1": 2}, "#topicIds": {"e": "x"}}, {"f": {"0": 1}}])
    move, before = plan_move(batches(tmp_path), {TopicPartition("e", 1): 0}, lambda number: False)
    assert before[TopicPartition("e", 1)] == 2
    execute(tmp_path, move)
    assert positions(tmp_path) == {
        TopicPartition("e", 0): 7,
        TopicPartition("e", 1): 0,
        TopicPartition("f", 0): 1,
    }
    assert batches(tmp_path)[0].ends[0]["#topicIds"] == {"e": "x"}
    assert not (tmp_path / "offsets" / ".3.crc").exists()


def test_a_topic_that_is_moved_as_a_whole_is_that_of_today(tmp_path):
    batch(tmp_path, 3, [{"e": {"0": 7, "1": 2}, "f": {"0": 1}, "#topicIds": {"e": "x", "f": "y"}}])
    move, _ = plan_move(batches(tmp_path), {TopicPartition("e", 0): 0, TopicPartition("e", 1): 0}, lambda number: False)
    execute(tmp_path, move)
    assert batches(tmp_path)[0].ends == ({"e": {"0": 0, "1": 0}, "f": {"0": 1}, "#topicIds": {"f": "y"}},)


@pytest.mark.parametrize("was_published", [True, False])
def test_a_micro_batch_under_way_is_finished_when_it_was_published_and_forgotten_when_not(tmp_path, was_published):
    batch(tmp_path, 3, [{"e": {"0": 7}}])
    batch(tmp_path, 4, [{"e": {"0": 9}}], done=False)
    move, _ = plan_move(batches(tmp_path), {TopicPartition("e", 0): 1}, lambda number: was_published)
    execute(tmp_path, move)
    [*_, last] = batches(tmp_path)
    assert (last.number, last.done) == ((4, True) if was_published else (3, True))
    assert positions(tmp_path) == {TopicPartition("e", 0): 1}


def test_what_cannot_be_moved_says_why(tmp_path):
    with pytest.raises(CheckpointError, match="no micro-batch yet"):
        plan_move([], {}, lambda number: False)
    batch(tmp_path, 0, [{"e": {"0": 7}}])
    with pytest.raises(CheckpointError, match="f-0 is not read by it: it reads e-0"):
        plan_move(batches(tmp_path), {TopicPartition("f", 0): 1}, lambda number: False)
