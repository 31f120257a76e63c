"""A pipeline as DataFrames: rows and refused rows of every source and step, and what each sink writes.

```
 sources ─► steps in the order of the file ─► rows by name
    └───────────┴─► refused rows by name ─► letters, by the first sink that reads through them
```
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ottla.pipelines.compiler import sources
from ottla.pipelines.compiler.audit_points import AuditPoints
from ottla.pipelines.compiler.python_modules import CallError, StepError
from ottla.pipelines.compiler.records import letters, record
from ottla.pipelines.compiler.steps import Rows, apply, said_of_spark
from ottla.pipelines.spec.lineage import owned
from ottla.pipelines.spec.model import Deduplicate, PipelineSpec, Sink, Source, State, Step, TopicSink, Window


@dataclass(frozen=True, slots=True)
class Compiled:
    """The plan of a pipeline. Nothing runs yet."""

    spec: PipelineSpec
    rows: Mapping[str, DataFrame]
    """Of every source and step that is read, the good rows."""
    refused: Mapping[str, DataFrame]
    """Of every source and step that sets rows aside, those rows, with `_reason`."""

    def letters_of(self, sink: Sink) -> DataFrame | None:
        """The dead letters that this sink writes, as records; None when there can be none."""
        dead_letters = self.spec.dead_letters
        if dead_letters is None:
            return None
        found = [
            letters(self.refused[name], topic=dead_letters.topic, pipeline=self.spec.name, step=name)
            for name in owned(self.spec, sink.name)
            if name in self.refused
        ]
        return sources.union(found) if found else None

    def records_of(self, sink: TopicSink) -> DataFrame:
        """What a sink of a topic writes: its records and its dead letters, one write."""
        from pyspark.errors import AnalysisException

        try:
            records = record(sink, self.rows[sink.input])
        except AnalysisException as error:
            raise StepError(f"{self.spec.at(sink.name)}sink {sink.name}: {said_of_spark(str(error))}") from error
        refused = self.letters_of(sink)
        return records if refused is None else records.unionByName(refused)


def compile_pipeline(
    spec: PipelineSpec,
    spark: SparkSession,
    read: Callable[[Source], DataFrame],
    wanted: frozenset[str] | None = None,
    audited: frozenset[str] | None = None,
    *,
    letters: bool = True,
) -> Compiled:
    """The plan over the records that `read` gives of each source: a stream, a batch, or rows of a test; of a table the
    newest record of each key.

    `wanted` limits it to what these names need. With `audited` rows are counted for the audit; it names the sources and
    steps whose dead letters the query writes, which are those that can balance. Without `letters` it writes none.
    Raises StepError for a step that Spark cannot make sense of, CallError for what its Python raised.
    """
    rows, refused = Rows(spark, spec.directory, AuditPoints(audited)), dict[str, DataFrame]()
    for source in spec.sources.values():
        if wanted is None or source.name in wanted:
            good, bad = _source(spec, source, read(source), rows.audit, letters=letters)
            rows.add(source.name, good)
            if bad is not None:
                refused[source.name] = bad
    for step in spec.steps:
        if wanted is None or step.name in wanted:
            try:
                good, bad = apply(step, rows, shuffled=_is_shuffled(spec, step, wanted))
            except (StepError, CallError) as error:
                raise type(error)(f"{spec.at(step.name)}{error}") from error
            rows.add(step.name, rows.audit.leaving(step.name, good))
            if bad is not None:
                refused[step.name] = rows.audit.refused(step.name, bad)
    return Compiled(spec, rows.frames, refused)


def _is_shuffled(spec: PipelineSpec, step: Step, wanted: frozenset[str] | None) -> bool:
    """Whether all that read the rows of a step have a state, and so shuffle them: order is of no matter then."""
    readers = [each for each in spec.steps if step.name in each.inputs and (wanted is None or each.name in wanted)]
    return bool(readers) and all(isinstance(each.action, Deduplicate | Window | State) for each in readers)


def _source(
    spec: PipelineSpec, source: Source, records: DataFrame, audit: AuditPoints, *, letters: bool
) -> tuple[DataFrame, DataFrame | None]:
    """The rows of a source. Of a table those that do not decode are left out; of a stream they are set aside, or, where
    there is no topic of dead letters, end the query: no record is lost in silence.
    """
    if source.table:
        return sources.decode(source, records, letters=False).good, None
    decoded = sources.decode(source, records, audit, strict=spec.dead_letters is None, letters=letters)
    good = audit.leaving(source.name, decoded.good)
    if decoded.refused is None:
        return good, None
    return good, audit.refused(source.name, decoded.refused)
