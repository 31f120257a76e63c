"""Makes dead letters of records for which an expression fails: after a failed micro-batch, before its next run.

```
 micro-batch 17 fails ─► its records, read as a batch ─► steps in their order: which records does each raise for?
                              │                               └─► what is left passes
                              ├─► dead letters, in a transaction of their own, once by the number 17
                              └─► micro-batch 17 runs again without them: nothing of it was written before
```

A micro-batch without such a record pays nothing. Nothing is kept on disk: a driver that is killed in between finds the
same records again, and the number keeps their letters from being written twice.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.compiler import sources
from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.places import PLACE, Place, rows_of
from ottla.pipelines.compiler.raising import Raising
from ottla.pipelines.compiler.sink_rows import fitting
from ottla.pipelines.dead_letters.columns import dead_letter, origin
from ottla.pipelines.runner.beginning import beginning_of_sink, raised_id
from ottla.pipelines.runner.checkpoint import Batch, batches, directory_of, query_id
from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.pipelines.runner.queries import Running, is_small, limits_of, start
from ottla.pipelines.runner.row_search import ADVICE, RAISED, RowSearch, reads
from ottla.pipelines.runner.spark_query import SparkQuery
from ottla.pipelines.runner.topic_write import batch_size, write_batch
from ottla.pipelines.spec.lineage import through
from ottla.pipelines.spec.model import PipelineSpec, Sink, Source

_OF_STATE: Final = "it fails for no record of the micro-batch alone, but for rows that are kept from earlier ones"
SEARCHES_MAX: Final = 100
"""The maximum number of searches in one micro-batch."""

logger = logging.getLogger(__name__)


class SetAside:
    """The query of a sink, restarted without the records for which it fails."""

    def __init__(self, running: Running, spec: PipelineSpec, sink: Sink) -> None:
        self._running = running
        self._spec = spec
        self._sink = sink
        self._batch: int | None = None
        self._places: list[Place] = []
        self._searches = 0
        self._unfound: int | None = None
        """The micro-batch whose records passed when they were searched, without the rows that are kept from earlier
        ones."""

    def start(self) -> SparkQuery:
        """Start the query."""
        return start(self._running, self._spec, self._sink, self._places)

    def mend(self, failure: Failure) -> Failure | None:
        """Find such records. Returns None if the query can restart at once, else the failure, with record or step."""
        directory = Path(directory_of(self._spec, self._sink))
        if "://" in directory_of(self._spec, self._sink):
            said = "its record is not looked for, as the checkpoint is not in a directory"
            return Failure(f"{failure.reason} ({said}; {ADVICE})", Verdict.HOPELESS)
        known = batches(directory)
        if not known or known[-1].done:
            return replace(failure, verdict=Verdict.UNKNOWN)
        number, ends = known[-1].number, known[-1].places
        starts = known[0].places if len(known) > 1 else None
        again = self._batch == number
        batch = _MicroBatch(self._running, self._spec, self._sink)
        try:
            batch.read(starts, ends)
            left_out = [*self._places] if again else []
            search = RowSearch(batch.spark, self._spec, self._sink, batch.records, batch.table, left_out)
            rest = search.run(suspect=self._unfound == number)
            if rest is not None:
                return Failure(f"{rest}: {ADVICE}", Verdict.HOPELESS)
            if not search.found:
                # Its records raise nothing by themselves. It may have passed; where it comes again it is of a state.
                if self._unfound == number:
                    return Failure(f"{failure.reason} ({_OF_STATE}; {ADVICE})", Verdict.HOPELESS)
                self._unfound = number
                return replace(failure, verdict=Verdict.UNKNOWN)
            if self._spec.dead_letters is None:
                step, one = search.found[0]
                place = f"{one.topic}-{one.partition}@{one.offset}"
                said = f"step {step}: {one.reason}, for the record {place}"
                return Failure(f"{said}: name a topic for it in [dead_letters], or {ADVICE}", Verdict.HOPELESS)
            query = query_id(directory)
            assert query is not None
            self._searches = self._searches + 1 if again else 0
            if self._searches == SEARCHES_MAX:
                return Failure(failure.reason, Verdict.HOPELESS)
            batch.write_letters(search.found, query, number * SEARCHES_MAX + self._searches)
        finally:
            batch.close()
        self._batch, self._places = number, search.places
        return None


@dataclass
class _MicroBatch:
    """The records of a micro-batch that failed."""

    running: Running
    spec: PipelineSpec
    sink: Sink
    records: dict[str, DataFrame] = field(default_factory=dict)
    """Of each stream that it needs, by the name of the source."""

    @property
    def spark(self) -> SparkSession:
        """Of the search alone."""
        return self.running.spark

    def read(self, starts: Mapping[TopicPartition, int] | None, ends: Mapping[TopicPartition, int]) -> None:
        """The records of all streams between these offsets; None for where the query began."""
        beginning = beginning_of_sink(self.spec, self.sink)
        needed = through(self.spec, self.sink.name)
        # As a session of its own: it has views of the same names.
        self.running = replace(self.running, spark=self.spark.newSession())
        for source in self.spec.sources.values():
            if source.name not in needed or source.table:
                continue
            options = sources.streaming_options(self.spec, source, self.running.bootstrap, None)
            if starts is None and beginning is not None:
                options = beginning.options(source, options)
            own = {place: end for place, end in ends.items() if reads(source, place.topic)}
            begin = _initial(options) if starts is None else starts
            kept = {name: value for name, value in options.items() if not name.lower().startswith(_STREAMS_ALONE)}
            kept.pop("subscribePattern", None)
            kept["subscribe"] = ",".join(sorted({place.topic for place in own}))
            kept["startingOffsets"] = _json({place: min(begin.get(place, 0), end) for place, end in own.items()})
            kept["endingOffsets"] = _json(own)
            if own:
                self.records[source.name] = sources.batch(self.spark, kept).persist()

    def close(self) -> None:
        """Forget the records."""
        for records in self.records.values():
            records.unpersist()

    def table(self, source: Source) -> DataFrame:
        """The newest record of each key now."""
        options = sources.reading_options(self.spec, source, self.running.bootstrap)
        return sources.table(self.spark, options, small=is_small(source, self.running.bootstrap))

    def write_letters(self, found: Sequence[tuple[str, Raising]], query: str, number: int) -> None:
        """Write the dead letters of what was found, once by the number of the micro-batch."""
        dead_letters = self.spec.dead_letters
        assert dead_letters is not None
        rows = [(each.topic, each.partition, each.offset, step, each.reason) for step, each in found]
        said = rows_of(self.spark, rows, ["step", "reason"])
        letters = []
        for records in self.records.values():
            joined = records.join(f.broadcast(said), [*PLACE]).orderBy(*PLACE)
            columns = dead_letter(
                topic=dead_letters.topic,
                pipeline=self.spec.name,
                step=f.col("step"),
                reason=f.col("reason"),
                error_class=RAISED,
                origin=f.col(ORIGIN),
            )
            letters.append(joined.withColumn(ORIGIN, origin(records.columns)).select(*columns))
        bytes_max = limits_of(self.spec, self.sink, self.running.bootstrap)[dead_letters.topic].bytes_max
        options = {**sources.connection_options(self.running.bootstrap), "mode": "exactly-once"}
        options |= {**batch_size({}, bytes_max), "transactionalId": raised_id(self.spec, self.sink.name)}
        write_batch(fitting(sources.union(letters), bytes_max).coalesce(1), options, query, number)


_STREAMS_ALONE: Final = ("starting", "ending", "maxoffsets", "maxbytes", "minoffsets", "groupid", "maxtriggerdelay")
"""How options begin that a batch does not have, or has other values of."""


def _json(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for place, offset in sorted(offsets.items()):
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(found)


def _initial(options: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Where a query without a micro-batch begins."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    from pyspark_ottla.read_options import ReadOptions
    from pyspark_ottla.stream_reader import OttlaStreamReader

    reader = OttlaStreamReader(ReadOptions.of(CaseInsensitiveDict(options), streaming=True))
    return Batch(0, (reader.initialOffset(),), done=False).places
