"""A checkpoint that is begun anew, from a place, without its state."""

import json

import pytest

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.runner.beginning import BEGIN, begin_anew, beginning_of, require_begun, transactional_ids
from ottla.pipelines.runner.checkpoint import LOCK, OWNER, CheckpointError
from ottla.pipelines.runner.positions import positions
from ottla.pipelines.spec.model import DeadLetters, PipelineSpec, Source, TableSink, TopicSink

PLACES = {TopicPartition("e", 0): 7, TopicPartition("e", 1): 0, TopicPartition("f", 0): 3}


@pytest.fixture
def checkpoint(tmp_path):
    """As Spark leaves it."""
    for name in ("offsets", "commits", "state/0/0", "sources/0"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "4").write_text("v1\n{}\n" + json.dumps({"e": {"0": 9}}))
    for name in ("metadata", ".metadata.crc", OWNER, LOCK):
        (tmp_path / name).write_text("{}")
    return tmp_path


def test_what_spark_kept_is_gone_and_whose_it_is_stays(checkpoint):
    begin_anew(checkpoint, PLACES, lambda: None)
    assert sorted(each.name for each in checkpoint.iterdir()) == sorted([BEGIN, OWNER, LOCK])
    assert positions(checkpoint) == PLACES
    require_begun(checkpoint)


def test_its_sources_begin_there_and_nowhere_else(checkpoint):
    begin_anew(checkpoint, PLACES, lambda: None)
    beginning = beginning_of(checkpoint)
    assert beginning is not None
    given = {"startingTimestamp": "5", "startingoffsets": "latest", "groupId": "g"}
    made = beginning.options(Source(name="e", topics=("e",)), given)
    assert (made.pop("groupId"), json.loads(made.pop("startingOffsets")), made) == ("g", {"e": {"0": 7, "1": 0}}, {})
    by_pattern = beginning.options(Source(name="e", pattern="[fg]"), given)
    assert json.loads(by_pattern["startingOffsets"]) == {"f": {"0": 3}}


class CrashError(Exception):
    pass


class CrashingDisk:
    """The disk of a process that ends before one of the things it does."""

    def __init__(self, steps: int) -> None:
        from ottla.runtime.disk import OsDisk

        self._disk, self._left = OsDisk(), steps

    def __getattr__(self, name):
        def step(*arguments):
            if name not in ("exists", "is_dir", "list_dir"):
                if not self._left:
                    raise CrashError
                self._left -= 1
            return getattr(self._disk, name)(*arguments)

        return step


@pytest.mark.parametrize("steps", range(12))
def test_a_reset_that_is_interrupted_is_run_again_and_nothing_runs_before(checkpoint, steps):
    released = []
    try:
        begin_anew(checkpoint, PLACES, lambda: released.append(steps), CrashingDisk(steps))
        is_done = True
    except CrashError:
        is_done = False
    if not is_done and steps:
        with pytest.raises(CheckpointError, match="run `ottla pipeline reset` once more"):
            require_begun(checkpoint)
        # Whoever could write a micro-batch again has no offsets any more when the ids are free.
        assert not released or not (checkpoint / "offsets").exists()
    begin_anew(checkpoint, PLACES, lambda: released.append(-1))
    require_begun(checkpoint)
    assert positions(checkpoint) == PLACES


def test_the_ids_that_a_sink_writes_with():
    topic = TopicSink(name="out", input="e", topic="t", transactional_id="p.out")
    table = TableSink(name="lake", input="e", format="delta", path="lake")
    source = Source(name="e", topics=("e",))
    spec = PipelineSpec(name="p", sources={"e": source}, sinks=(topic, table), dead_letters=DeadLetters(topic="dead"))
    assert transactional_ids(spec, topic) == ["p.out", "p.out.raised"]
    assert transactional_ids(spec, table) == ["p.lake.dead-letters", "p.lake.raised"]
