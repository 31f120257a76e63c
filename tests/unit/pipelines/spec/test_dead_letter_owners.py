"""What a sink reads through, and whose dead letters it writes."""

from ottla.pipelines.spec.lineage import owned, through
from ottla.pipelines.spec.model import PipelineSpec, Source, Sql, Step, TopicSink


def step(name: str, *inputs: str) -> Step:
    return Step(name=name, inputs=inputs, action=Sql(sql="select 1"))


def sink(name: str, reads: str) -> TopicSink:
    return TopicSink(name=name, input=reads, topic=name, transactional_id=name)


SPEC = PipelineSpec(
    name="p",
    sources={"events": Source(name="events"), "names": Source(name="names", table=True)},
    steps=(step("decoded", "events"), step("named", "decoded", "names"), step("other", "decoded")),
    sinks=(sink("first", "other"), sink("second", "named")),
)


def test_a_sink_reads_through_all_that_stands_above_it():
    assert through(SPEC, "second") == {"second", "named", "decoded", "names", "events"}
    assert through(SPEC, "decoded") == {"decoded", "events"}


def test_dead_letters_belong_to_the_first_sink_that_reads_through_their_step():
    assert owned(SPEC, "first") == ("events", "decoded", "other")
    assert owned(SPEC, "second") == ("names", "named")
