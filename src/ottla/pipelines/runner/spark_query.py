"""A streaming query of Spark that can be ended between two micro-batches.

Spark's own `stop` interrupts the micro-batch that is under way. Nothing is lost by that; but its transaction stays
open, and readers of committed records wait until it has timed out or the query is started again. So the query is
stopped as `stop` does it, but at a place where it can be:

```
 thread of the query:  ... micro-batch 7, lock: it is done │ lock: tell who waits │ lock: look for more │ ...
                                                           ▲                      ▲
 finish:                 has the lock, and interrupts the thread that waits for it
```
"""

import json
import logging
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)


class SparkQuery:
    """A streaming query of Spark, for the supervisor."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._execution: Any = query._jsq.streamingQuery()
        self._is_locked = False
        self._told: str | None = None

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the thread of the query runs."""
        return bool(self._execution.queryExecutionThread().isAlive())

    @property
    def works(self) -> bool:
        """Whether a micro-batch is under way."""
        return bool(self._query.status["isTriggerActive"])

    def exception(self) -> Exception | None:
        """Why it ended; None when it was stopped, or is through."""
        return self._query.exception()

    def finish(self) -> None:
        """End the query after its micro-batch. Call it repeatedly until the query has ended."""
        try:
            self._finish()
        except Exception as error:  # what Spark keeps to itself may be another thing in its next release
            logger.info("stopped a query within its micro-batch: %s", error)
            self.stop()

    def _finish(self) -> None:
        lock, thread = self._execution.awaitProgressLock(), self._execution.queryExecutionThread()
        if not self._is_locked:
            self._is_locked = bool(lock.tryLock())
        if not self._is_locked:
            return
        # Looked at in this order, as a thread that waits for the lock stays where it is.
        waits = bool(lock.hasQueuedThread(thread))
        methods = [frame.getMethodName() for frame in thread.getStackTrace()]
        if waits and "runBatch" in methods:
            # It is about to write down that its micro-batch is done: it goes first, and comes to the lock once more.
            lock.unlock()
            lock.lock()
        elif waits or "waitTillTime" in methods:
            mark(self._execution)
            thread.interrupt()
            self._unlock()

    def _unlock(self) -> None:
        # Of the thread of the JVM that has it: PySpark gives each thread of Python one of its own.
        if self._is_locked:
            self._is_locked = False
            self._execution.awaitProgressLock().unlock()

    def stop(self) -> None:
        """End it now. Raises where its thread does not end in `spark.sql.streaming.stopTimeout`."""
        self._unlock()
        self._query.stop()

    def progress(self) -> list[dict[str, Any]]:
        """The progress of micro-batches since the last call, oldest first, as far as Spark keeps it."""
        found: list[str] = []
        kept = self._query._jsq.recentProgress()
        # From the end: most of the time the last one is known already, and to ask for each takes a call of the JVM.
        for number in range(len(kept) - 1, -1, -1):
            said = str(kept[number].json())
            if said == self._told:
                break
            found.append(said)
        if found:
            self._told = found[0]
        return [json.loads(each) for each in reversed(found)]


def mark(execution: Any) -> None:
    """Set the state of a `StreamExecution` to that of one that was stopped, so that an interrupt is no failure of it.

    Not within a micro-batch: it ends where Spark looks at the state next, with its transaction open.
    """
    state = execution.state()
    kind = state.get().getClass()
    # The package of Spark's states is another one from release to release: it is that of the present state.
    name = f"{kind.getName().rpartition('.')[0]}.TERMINATED$"
    state.set(kind.getClassLoader().loadClass(name).getField("MODULE$").get(None))
