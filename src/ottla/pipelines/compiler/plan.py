"""A pipeline as DataFrames: rows and refused rows of every source and step, and what each sink writes.

```
 sources ─► steps in the order of the file ─► rows by name
    └───────────┴─► refused rows by name ─► letters, by the first sink that reads through them
```
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from ottla.pipelines.compiler import sources
from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.places import Place
from ottla.pipelines.compiler.python_modules import CallError, StepError
from ottla.pipelines.compiler.records import letters
from ottla.pipelines.compiler.sink_rows import (
    LETTER,
    MADE,
    LettersTo,
    fitting,
    judged_for_table,
    judged_for_topic,
    of_table,
    of_topic,
)
from ottla.pipelines.compiler.steps import Rows, apply, said_of_spark
from ottla.pipelines.compiler.topic_limits import KAFKAS, TopicLimits
from ottla.pipelines.spec.event_time import shift_ms
from ottla.pipelines.spec.lineage import furthest_ahead_ms, owned, shift_years, times_of, windows_counting_late_rows
from ottla.pipelines.spec.model import (
    Deduplicate,
    PipelineSpec,
    Sink,
    Source,
    State,
    Step,
    TableSink,
    TopicSink,
    Window,
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The plan of a pipeline. Nothing runs yet."""

    spec: PipelineSpec
    rows: Mapping[str, DataFrame]
    """The good rows of each source and step that is read."""
    refused: Mapping[str, DataFrame]
    """The refused rows of each source and step that makes dead letters, with `_reason`."""
    audit: AuditPoints = NO_AUDIT

    def letters_of(self, sink: Sink, bytes_max: int | None = None) -> DataFrame | None:
        """The dead letters that this sink writes, as records; None if it writes none."""
        dead_letters = self.spec.dead_letters
        if dead_letters is None:
            return None
        found = [
            letters(self.refused[name], topic=dead_letters.topic, pipeline=self.spec.name, step=name)
            for name in owned(self.spec, sink.name)
            if name in self.refused
        ]
        return fitting(sources.union(found), bytes_max) if found else None

    def _letters_to(self, bytes_max: int | None) -> LettersTo | None:
        dead_letters = self.spec.dead_letters
        return None if dead_letters is None else LettersTo(dead_letters.topic, self.spec.name, bytes_max)

    def records_of(
        self, sink: TopicSink, limits: TopicLimits = KAFKAS, letter_bytes_max: int | None = None
    ) -> DataFrame:
        """The records and dead letters that a topic sink writes together.

        `limits` are those of the topic: a row beyond them is a dead letter of the sink, or ends the query where there
        are none. A letter beyond `letter_bytes_max` goes without key and value.
        """
        from pyspark.errors import AnalysisException

        letters_to = self._letters_to(letter_bytes_max)
        try:
            records = of_topic(sink, self.rows[sink.input], limits, letters_to, self.audit)
        except AnalysisException as error:
            raise StepError(f"{self.spec.at(sink.name)}sink {sink.name}: {said_of_spark(str(error))}") from error
        refused = self.letters_of(sink, letter_bytes_max)
        return records if refused is None else sources.union([records, refused])

    def judged(self, sink: Sink) -> DataFrame:
        """The rows of a sink, with `_reason` for those that a topic or a table with default settings refuses:
        no broker is asked.
        """
        rows = self.rows[sink.input]
        if isinstance(sink, TopicSink):
            return judged_for_topic(sink, rows, KAFKAS).drop(MADE)
        return judged_for_table(sink, rows, None)

    def rows_of(self, sink: TableSink, table: StructType | None, letter_bytes_max: int | None = None) -> DataFrame:
        """The rows of a table sink or, with dead letters, structs `_good` and `_letter`, one of which is null.

        `table` is the schema of one that is there: a row that it does not take is a dead letter, or ends the query.
        """
        letters_to = self._letters_to(letter_bytes_max)
        rows = of_table(sink, self.rows[sink.input], table, letters_to, self.audit)
        refused = self.letters_of(sink, letter_bytes_max)
        if refused is None:
            return rows
        return rows.unionByName(refused.select(f.struct(*refused.columns).alias(LETTER)), allowMissingColumns=True)


def compile_pipeline(
    spec: PipelineSpec,
    spark: SparkSession,
    read: Callable[[Source], DataFrame],
    wanted: frozenset[str] | None = None,
    audited: frozenset[str] | None = None,
    *,
    letters: bool = True,
    checkpoint: str | None = None,
    left_out: Sequence[Place] = (),
) -> Compiled:
    """Compile a pipeline over the records that `read` returns for each source.

    They are a stream, a batch, or the rows of a test; for a table the newest record of each key.

    `wanted` limits it to what these names need. With `audited` rows are counted for the audit; it names the sources and
    steps whose dead letters the query writes, which are those that can balance. Without `letters` it writes none.
    `checkpoint` is that of the query. `left_out` are records that an expression raised for.
    Raises StepError for a step that Spark cannot make sense of, CallError for what its Python raised.
    """
    ahead_ms = furthest_ahead_ms(spec)
    counted = frozenset() if checkpoint is None else windows_counting_late_rows(spec)
    shift = shift_ms(shift_years(spec))
    rows = Rows(spark, spec.directory, AuditPoints(audited), ahead_ms, checkpoint, shift, counted)
    refused = dict[str, DataFrame]()
    for source in spec.sources.values():
        if wanted is None or source.name in wanted:
            good, bad = _source(spec, source, read(source), rows.audit, letters=letters, left_out=left_out)
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
    return Compiled(spec, rows.frames, refused, rows.audit)


def _is_shuffled(spec: PipelineSpec, step: Step, wanted: frozenset[str] | None) -> bool:
    """Whether all that read the rows of a step have a state, and so shuffle them: order is of no matter then."""
    readers = [each for each in spec.steps if step.name in each.inputs and (wanted is None or each.name in wanted)]
    return bool(readers) and all(isinstance(each.action, Deduplicate | Window | State) for each in readers)


def _source(
    spec: PipelineSpec,
    source: Source,
    records: DataFrame,
    audit: AuditPoints,
    *,
    letters: bool,
    left_out: Sequence[Place] = (),
) -> tuple[DataFrame, DataFrame | None]:
    """The rows of a source. Of a table those that do not decode are left out; of a stream they are set aside, or, where
    there is no topic of dead letters, end the query: no record is lost in silence.
    """
    if source.table:
        return sources.decode(source, records, letters=False).good, None
    decoded = sources.decode(
        source,
        records,
        audit,
        strict=spec.dead_letters is None,
        letters=letters,
        times=times_of(spec, source.name),
        since_1970=not shift_years(spec),
        left_out=left_out,
    )
    good = audit.leaving(source.name, decoded.good)
    if decoded.refused is None:
        return good, None
    return good, audit.refused(source.name, decoded.refused)
