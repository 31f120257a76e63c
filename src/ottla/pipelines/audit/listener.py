"""Publishes the audit record of every micro-batch of a pipeline's queries."""

import json
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.client.errors import ClientError
from ottla.pipelines.audit.report import Report, report_of

logger = logging.getLogger(__name__)

Publish = Callable[[Report], None]
"""Returns when the record is in the topic. Raises ClientError when it may not be."""

WAITING_MAX: Final = 1_000
"""Reports that wait for the broker. More are dropped, oldest first, and the audit shows them as missing."""


class AuditListener(StreamingQueryListener):
    """Add it to the session (`spark.streams.addListener`) before the queries start; they are called `pipeline.sink`.

    A report that cannot be published waits for the next one, or for the end of a query: an audit topic that is away
    never stops a query. A driver that is killed may take the reports of its last batches with it.
    """

    def __init__(self, pipeline: str, window_ms: int, publish: Publish) -> None:
        self._pipeline = pipeline
        self._window_ms = window_ms
        self._publish = publish
        self._waiting: deque[Report] = deque(maxlen=WAITING_MAX)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing: only batches are reported."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is done, or the query waits for rows: time for what waits to be published."""
        report = report_of(json.loads(event.progress.json), self._pipeline, self._window_ms)
        if report is not None:
            if len(self._waiting) == WAITING_MAX:
                logger.warning("audit of %s: a report is dropped, as %d wait", self._pipeline, WAITING_MAX)
            self._waiting.append(report)
        self.flush()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing was read: time for what waits."""
        self.flush()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The last chance for what waits."""
        self.flush()

    def flush(self) -> None:
        """Publish what waits, in order, as far as the broker takes it."""
        while self._waiting:
            try:
                self._publish(self._waiting[0])
            except ClientError as error:
                logger.warning("audit of %s: %d reports wait: %s", self._pipeline, len(self._waiting), error)
                return
            self._waiting.popleft()
