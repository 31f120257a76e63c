"""A query of Spark that can be told to end between two micro-batches.

Spark's own `stop` interrupts the micro-batch that is under way. Nothing is lost by that; but its transaction stays
open, and readers of committed records wait until it has timed out or the query is started again. So the query is marked
as one that was stopped, as `stop` does first, and not interrupted: its thread looks at the mark before each
micro-batch.
"""

import json
import logging
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)


class SparkQuery:
    """What the supervisor asks of a query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._execution: Any = query._jsq.streamingQuery()
        self._is_marked = False
        self._told: str | None = None

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether its thread runs: one that is marked may still be within a micro-batch."""
        return bool(self._execution.queryExecutionThread().isAlive())

    def exception(self) -> Exception | None:
        """Why it ended; None when it was stopped, or is through."""
        return self._query.exception()

    def finish(self) -> None:
        """Mark it; afterwards end its sleep, where it waits for the time of its next micro-batch."""
        if not self._is_marked:
            self._is_marked = True
            try:
                mark(self._execution)
            except Exception as error:  # what Spark keeps to itself may be another thing in its next release
                logger.info("a query is ended within its micro-batch: %s", error)
                self._query.stop()
        elif not self._query.status["isTriggerActive"]:
            self._query.stop()

    def stop(self) -> None:
        """End it now. Raises where its thread does not end in `spark.sql.streaming.stopTimeout`."""
        self._query.stop()

    def progress(self) -> list[dict[str, Any]]:
        """What it says of its last micro-batches, oldest first; nothing when it says the same as before."""
        last = self._query.lastProgress
        # To ask for one is cheap, and most of the time it is the one that is known.
        if last is None or last.json == self._told:
            return []
        self._told = last.json
        return [json.loads(each.json) for each in self._query.recentProgress]


def mark(execution: Any) -> None:
    """Set the state of a `StreamExecution` to that of one that was stopped."""
    state = execution.state()
    kind = state.get().getClass()
    # The package of Spark's states is another one from release to release: it is that of the present state.
    name = f"{kind.getName().rpartition('.')[0]}.TERMINATED$"
    state.set(kind.getClassLoader().loadClass(name).getField("MODULE$").get(None))
