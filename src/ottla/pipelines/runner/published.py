"""Whether a sink contains a micro-batch that Spark did not mark as done."""

from pathlib import Path

from ottla.pipelines.runner.checkpoint import query_id
from ottla.pipelines.spec.model import PipelineSpec, Sink, TopicSink


def published(spec: PipelineSpec, sink: Sink, bootstrap: str, directory: Path, number: int) -> bool:
    """What the sink itself keeps of the last micro-batch of this checkpoint's query. A sink that writes at least once
    keeps nothing: its micro-batch counts as not published, and may be in the topic twice.
    """
    query = query_id(directory)
    if query is None or (isinstance(sink, TopicSink) and sink.mode != "exactly-once"):
        return False
    if isinstance(sink, TopicSink):
        from pyspark_ottla.sink_state import committed_batch

        state = committed_batch(bootstrap, sink.transactional_id)
        return state is not None and state.query_id == query and state.batch_id >= number
    from ottla.pipelines.runner.table_write import table

    committed = table(spec, sink, query).committed_batch()
    return committed is not None and committed >= number
