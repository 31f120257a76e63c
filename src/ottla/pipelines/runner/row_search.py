"""Finds the records of a batch for which the query of a sink fails."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla.pipelines.compiler import sources
from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.places import PLACE, Place, rows_of
from ottla.pipelines.compiler.plan import Compiled, compile_pipeline
from ottla.pipelines.compiler.raising import RECORDS_MAX, Raising, raising, said_of_row
from ottla.pipelines.compiler.records import record_columns, visible
from ottla.pipelines.runner.failure import Verdict, failure_of
from ottla.pipelines.spec.lineage import owned, through
from ottla.pipelines.spec.model import PipelineSpec, Sink, Source, TopicSink

TRIES_MAX: Final = 100
"""The maximum number of jobs of a binary search: enough for about five records of 100,000."""
HALVED_MAX: Final = 1_000_000
"""The maximum number of records of a binary search, whose positions the driver holds in memory."""
ADVICE: Final = "where a value may be wrong use try_cast, try_divide, try_to_timestamp and the like, or an expectation"
RAISED: Final = "expression failed"
"""The kind of failure in the dead letter."""

logger = logging.getLogger(__name__)


@dataclass
class RowSearch:
    """A search in the records of a batch."""

    spark: SparkSession
    """A separate session, with views of the pipeline's names."""
    spec: PipelineSpec
    sink: Sink
    records: Mapping[str, DataFrame]
    """The records of each stream, by the name of the source."""
    table: Callable[[Source], DataFrame]
    """Returns the newest record of each key of a table."""
    places: list[Place] = field(default_factory=list)
    """The positions of records that are left out."""
    found: list[tuple[str, Raising]] = field(default_factory=list)
    """The records found, each with the step that failed."""
    _tries: int = 0

    def run(self, *, suspect: bool = False) -> str | None:
        """Find all such records. Returns None if the others pass, else the failure that no single record causes.

        A stream may compute what a batch of the same rows does not, such as a column of rows that are dropped next.
        With `suspect` the records of such columns are found, too, where no other is.
        """
        names = [step.name for step in self.spec.steps if step.name in through(self.spec, self.sink.name)]
        # The plan that Spark makes for the sink may have other columns than those of the steps.
        for only_needed in (True, False):
            for step in [*names, self.sink.name]:
                before = len(self.found)
                while more := self._of_step(step, only_needed=only_needed):
                    self._add(step, more)
                if len(self.found) > RECORDS_MAX:
                    said = f"it fails for more than {RECORDS_MAX} records of one micro-batch"
                    return f"step {step}: {self.found[-1][1].reason}; {said}"
                if len(self.found) > before and self._raised() is None:
                    return None
        raised = self._raised()
        if raised is None:
            if suspect and not self.found:
                for step in [*names, self.sink.name]:
                    while more := self._of_step(step, only_needed=True, suspect=True):
                        self._add(step, more)
            return None
        step, text = self._first_step(names, raised)
        for each in self._by_halves():
            self._add(step, [each])
        raised = self._raised()
        if raised is None:
            return None
        return f"step {step}: {text}; no single record could be found that it fails for"

    def _add(self, step: str, more: list[Raising]) -> None:
        self.found += [(step, each) for each in more]
        self.places += [each.place for each in more]

    def _compiled(self, places: list[Place], only: list[Place] | None = None) -> Compiled:
        def read(source: Source) -> DataFrame:
            if source.table:
                return self.table(source)
            records = self.records.get(source.name)
            if records is None:
                return sources.nothing(self.spark)
            return records if only is None else records.join(f.broadcast(rows_of(self.spark, only)), [*PLACE])

        wanted = through(self.spec, self.sink.name)
        # With an audit as the query: its sums need columns that are left out otherwise, and are never computed.
        audited = None if self.spec.audit is None else frozenset(owned(self.spec, self.sink.name))
        return compile_pipeline(self.spec, self.spark, read, wanted, audited, letters=False, left_out=places)

    def _written(self, compiled: Compiled) -> DataFrame:
        """What the sink computes, with the record."""
        rows = compiled.rows[self.sink.input]
        if not isinstance(self.sink, TopicSink):
            return rows
        origins = [ORIGIN] if ORIGIN in rows.columns else []
        # A row that the topic does not take is a dead letter with all of its columns.
        letter = [f.struct(*visible(rows).columns).alias("_row")] if self.spec.dead_letters is not None else []
        return rows.select(*origins, *record_columns(self.sink, rows), *letter)

    def _raised(self, only: list[Place] | None = None) -> Exception | None:
        """What the sink's rows raise, of all records that are not left out, or of some."""
        rows = self._written(self._compiled([] if only is not None else self.places, only))
        return _tried(rows.drop(ORIGIN))

    def _of_step(self, step: str, *, only_needed: bool, suspect: bool = False) -> list[Raising]:
        """The records that one place of a step raises for; none where it raises for none that the sink needs, unless
        they are suspected.
        """
        compiled = self._compiled(self.places)
        written = self._written(compiled)
        if step == self.sink.name:
            rows, inputs = written, [compiled.rows[self.sink.input]]
        else:
            rows = compiled.rows[step]
            inputs = [compiled.rows[name] for name in self.spec.inputs()[step]]

        def fail(found: list[Raising]) -> bool:
            some = [each.place for each in found if self._is_ours(each)]
            return bool(some) and self._raised(some) is not None

        try:
            found = raising(rows, inputs, written if only_needed else None, None if suspect else fail)
        except Exception as error:  # Spark's own plans may be other ones in its next release
            logger.info("step %s: records are found by halves: %s", step, said_of_row(error))
            return []
        return [each for each in found if self._is_ours(each)]

    def _is_ours(self, each: Raising) -> bool:
        """Whether it is a record of a stream, and no row of a table that is joined with."""
        names = [source for source in self.spec.sources.values() if source.name in self.records]
        return any(reads(source, each.topic) for source in names)

    def _first_step(self, names: list[str], raised: Exception) -> tuple[str, str]:
        """The first step that raises, and what."""
        compiled = self._compiled(self.places)
        for name in names:
            error = _tried(compiled.rows[name])
            if error is not None:
                return name, said_of_row(error)
        return self.sink.name, said_of_row(raised)

    def _by_halves(self) -> list[Raising]:
        """The records that raise alone."""
        left = {*self.places}
        every: list[Place] = []
        for records in self.records.values():
            every += map(tuple, records.select(*PLACE).limit(HALVED_MAX + 1 - len(every)).collect())
        if len(every) > HALVED_MAX:
            return []
        every = [place for place in every if place not in left]
        found: list[Raising] = []
        ways = [sorted(every)]
        while ways and self._tries < TRIES_MAX:
            some = ways.pop()
            self._tries += 1
            error = self._raised(some) if some else None
            if error is None:
                continue
            if len(some) == 1:
                found.append(Raising(*some[0], said_of_row(error)))
            else:
                middle = len(some) // 2
                ways += [some[middle:], some[:middle]]
        needed = through(self.spec, self.sink.name)
        has_table = any(source.table and source.name in needed for source in self.spec.sources.values())
        # Where each record raises it is rather a row of the table, which all of them meet.
        return [] if has_table and len(found) == len(every) > 1 else found


def _tried(rows: DataFrame) -> Exception | None:
    """What computing all rows raises of their values. Raises everything else."""
    try:
        rows.write.format("noop").mode("overwrite").save()
    except Exception as error:
        if failure_of(f"{type(error).__name__}: {error}").verdict is not Verdict.ROW:
            raise
        return error
    return None


def reads(source: Source, topic: str) -> bool:
    """Whether a topic is one of a source."""
    import re

    return topic in source.topics if source.pattern is None else re.fullmatch(source.pattern, topic) is not None
