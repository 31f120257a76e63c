"""Publishes the audit record of every micro-batch of a pipeline's queries."""

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.client.errors import ClientError
from ottla.pipelines.audit.late import States, dropped
from ottla.pipelines.audit.report import Report, report_of
from ottla.runtime.clock import Clock

logger = logging.getLogger(__name__)

Publish = Callable[[Report], None]
"""Writes a report and returns when it is in the topic. Raises ClientError if it may not be."""

WAITING_MAX: Final = 1_000
"""The maximum number of queued reports. Beyond it the oldest are dropped, and the audit shows them as missing."""
LAST_MS: Final = 60_000
"""How long a driver retries its last reports when it ends."""
_PAUSE_SECONDS: Final = 0.25


class AuditListener(StreamingQueryListener):
    """Add it to the session (`spark.streams.addListener`) before the queries start; they are called `pipeline.sink`.

    A report that cannot be published waits for the next one, or for the end of a query: an audit topic that is away
    never stops a query. A driver that is killed may take the reports of its last batches with it.
    """

    def __init__(
        self,
        pipeline: str,
        window_ms: int,
        publish: Publish,
        states: Mapping[str, States] | None = None,
        counted: frozenset[str] = frozenset(),
    ) -> None:
        """`states` are the steps with state of each sink, `counted` those before which late rows are counted."""
        self._states = states or {}
        self._counted = counted
        self._pipeline = pipeline
        self._window_ms = window_ms
        self._publish = publish
        self._waiting: deque[Report] = deque(maxlen=WAITING_MAX)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Does nothing: only micro-batches are reported."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Publishes the report of a completed micro-batch, and reports that failed before."""
        progress = json.loads(event.progress.json)
        report = report_of(progress, self._pipeline, self._window_ms)
        if report is not None:
            operators = progress.get("stateOperators") or ()
            late = dropped(operators, self._states.get(report.sink, ()), self._counted)
            report = msgspec.structs.replace(report, points=(*report.points, *late))
            if len(self._waiting) == WAITING_MAX:
                logger.warning(
                    "audit of %s: dropped a report, because %d are waiting to be written", self._pipeline, WAITING_MAX
                )
            self._waiting.append(report)
        self.flush()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Publishes reports that failed before."""
        self.flush()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Publishes reports that failed before."""
        self.flush()

    def flush(self) -> None:
        """Publishes the queued reports in order, until the broker refuses one."""
        while self._waiting:
            try:
                self._publish(self._waiting[0])
            except ClientError as error:
                logger.warning(
                    "audit of %s: could not write %d reports yet: %s", self._pipeline, len(self._waiting), error
                )
                return
            self._waiting.popleft()

    def finish(self, clock: Clock, pause: Callable[[float], object] | None = None) -> int:
        """Publishes the queued reports, with retries for `LAST_MS`. Returns the number of lost reports."""
        pause = threading.Event().wait if pause is None else pause
        until_ms = clock.monotonic_ms() + LAST_MS
        self.flush()
        while self._waiting and clock.monotonic_ms() < until_ms:
            pause(_PAUSE_SECONDS)
            self.flush()
        if self._waiting:
            first = self._waiting[0]
            logger.error(
                "audit of %s: %d reports are lost, the first of batch %d of sink %s: the broker did not take them",
                *(self._pipeline, len(self._waiting), first.batch, first.sink),
            )
        return len(self._waiting)
