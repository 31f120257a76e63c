"""Reports each micro-batch of running pipelines to the audit topic of its pipeline.

The progress is what the supervisor sees. Spark's own listeners are told later, in a thread of the JVM's, and perhaps
never of the last micro-batch before the driver ends.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ottla.pipelines.audit.listener import AuditListener
from ottla.pipelines.audit.publisher import Publisher
from ottla.pipelines.runner.failure import Failure
from ottla.pipelines.runner.supervisor import Watcher
from ottla.pipelines.spec.lineage import states_of, windows_counting_late_rows
from ottla.pipelines.spec.model import PipelineSpec
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bootstraps(Protocol):
    """Options with the bootstrap brokers of pipelines."""

    @property
    def bootstrap(self) -> Mapping[str, str]:
        """The bootstrap brokers by pipeline name."""
        ...


def audit_of(spec: PipelineSpec, options: Bootstraps) -> "AbstractContextManager[AuditListener] | None":
    """Publishes the reports of a pipeline, as a context manager; None if the pipeline has no audit."""
    if spec.audit is None:
        return None
    states = {sink.name: states_of(spec, sink.name) for sink in spec.sinks}
    counted = windows_counting_late_rows(spec)
    topic, window_ms = spec.audit.topic, spec.audit.window_ms

    @contextmanager
    def published() -> "Iterator[AuditListener]":
        with Publisher(options.bootstrap[spec.name], topic) as publisher:
            listener = AuditListener(spec.name, window_ms, publisher, states, counted)
            try:
                yield listener
            finally:
                listener.finish(SystemClock())

    return published()


class Audited:
    """A watcher that reports each micro-batch, and passes all events on to another watcher."""

    def __init__(
        self, watcher: Watcher, specs: Mapping[str, PipelineSpec], audits: "Mapping[str, AuditListener]"
    ) -> None:
        self._watcher = watcher
        self._specs = specs
        self._audits = audits

    def starting(self, name: str) -> None:
        """A query is planned and started."""
        self._watcher.starting(name)

    def working(self, name: str) -> None:
        """A micro-batch of a query is under way."""
        self._watcher.working(name)

    def progressed(self, name: str, progress: dict[str, Any]) -> None:
        """A query did a micro-batch."""
        audit = self._audits.get(self._specs[name].name)
        if audit is not None:
            audit.onQueryProgress(_Event(progress))  # type: ignore[arg-type]
        self._watcher.progressed(name, progress)

    def restarts(self, name: str, failure: Failure, wait_ms: int) -> None:
        """A query failed and is started again."""
        self._watcher.restarts(name, failure, wait_ms)

    def waits(self, name: str, failure: Failure) -> None:
        """A query cannot reach the brokers."""
        self._watcher.waits(name, failure)

    def returned(self, name: str, away_ms: int) -> None:
        """A query that waited for the brokers goes on."""
        self._watcher.returned(name, away_ms)

    def gave_up(self, name: str, failure: Failure) -> None:
        """A query failed for good."""
        self._watcher.gave_up(name, failure)

    def finished(self, name: str) -> None:
        """A query has caught up."""
        self._watcher.finished(name)

    def stopping(self, name: str) -> None:
        """A query ends after its micro-batch."""
        self._watcher.stopping(name)

    def stopped(self, name: str, failure: Failure | None) -> None:
        """A query has ended, as was asked for."""
        self._watcher.stopped(name, failure)

    def tick(self) -> None:
        """Some time has passed."""
        self._watcher.tick()


class _Event:
    """A progress in the form in which Spark tells listeners of it."""

    def __init__(self, progress: dict[str, Any]) -> None:
        self.progress = self
        self.json = json.dumps(progress)
