"""Runs pipelines in one driver: takes their checkpoints, starts a session and a query for each sink."""

import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.live_view import View, Watching, WhileShown
from ottla.pipelines.runner.audited import Audited, audit_of
from ottla.pipelines.runner.beginning import require_begun
from ottla.pipelines.runner.checkpoint import CheckpointLock, directory_of, owner_of
from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.pipelines.runner.queries import Running, query_name
from ottla.pipelines.runner.set_aside import SetAside
from ottla.pipelines.runner.spark_query import SparkQuery
from ottla.pipelines.runner.stop_signals import StopSignals
from ottla.pipelines.runner.supervisor import Supervisor, Watcher
from ottla.pipelines.runner.taking import Taken, take_in_brokers
from ottla.pipelines.session import Session, SessionOptions, SparkEndedError
from ottla.pipelines.spec.lineage import through
from ottla.pipelines.spec.model import PipelineSpec
from ottla.runtime.clock import SystemClock
from ottla.runtime.rng import SystemRng

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run."""

    bootstrap: Mapping[str, str]
    """The bootstrap brokers, by the name of the pipeline."""
    until_caught_up: bool = False
    master: str | None = None
    memory: str = "1g"
    conf: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the queries that failed permanently, and the signal that ended the others."""

    failed: list[tuple[str, Failure]]
    signal: int | None


def run_pipelines(specs: Sequence[PipelineSpec], options: RunOptions, view: View) -> Outcome:
    """Run pipelines until all queries have caught up or failed, or a signal stops them. Closes the view.

    Raises CheckpointError where a checkpoint is in use or of something else, SparkMissingError; then nothing has begun.
    Raises SparkEndedError, and OSError where the view cannot be shown any more, when the queries have ended in order.
    """
    with StopSignals() as signals:
        try:
            with ExitStack() as stack:
                stack.callback(view.close)
                for spec in specs:
                    take_checkpoints(spec, stack)
                waits = partial(_waits, view)
                taken = take_in_brokers(specs, options.bootstrap, stack, waits, options.master)
                for spec in specs:
                    view.event("starting", spec.name)
                made = session(specs[0], options.master, options.memory, options.conf or {})
                return supervise(stack.enter_context(made).spark, specs, options, view, signals, taken)
        except KeyboardInterrupt:
            return Outcome([], signals.received[0] if signals.received else signal.SIGINT)


def _waits(view: View, name: str, reason: str) -> None:
    view.event("waiting", name, reason=reason)


def supervise(
    spark: "SparkSession",
    specs: Sequence[PipelineSpec],
    options: RunOptions,
    view: View,
    signals: StopSignals | None = None,
    taken: Taken | None = None,
) -> Outcome:
    """Run pipelines in an existing session. Their checkpoints must be locked. Raises SparkEndedError."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    clock = SystemClock()
    names = {query_name(spec, sink): spec for spec in specs for sink in spec.sinks}
    with ExitStack() as stack:
        audits = {spec.name: stack.enter_context(audit) for spec in specs if (audit := audit_of(spec, options))}
        # Who reads along may be gone before the queries end: they end in order then, too.
        shown = WhileShown(view)
        supervisor = Supervisor(Audited(Watching(names, shown, clock), names, audits), clock, SystemRng())
        shown.tell(supervisor.stop)
        for spec in specs:
            # A session of its own: the views of several pipelines may have the same names.
            running = Running(spark.newSession(), options.bootstrap[spec.name], options.until_caught_up)
            if taken is not None:
                running = replace(running, fence=taken.fence)
            for sink in spec.sinks:
                query = SetAside(running, spec, sink)
                supervisor.add(query_name(spec, sink), query.start, SparkQuery.progress, query.mend)
        if taken is not None:
            taken.tell(lambda query, error: supervisor.give_up(query, Failure(str(error), Verdict.HOPELESS)))
        if signals is not None:
            signals.tell(supervisor.stop)
        try:
            failed = supervisor.run()
        except Py4JNetworkError as error:
            raise SparkEndedError("Spark's JVM has ended, killed perhaps or out of memory: see its log") from error
    if shown.error is not None:
        raise shown.error
    return Outcome(failed, signals.received[0] if signals is not None and signals.received else None)


def take_checkpoints(spec: PipelineSpec, stack: ExitStack) -> None:
    """Hold the checkpoints of all sinks until the stack is closed. Raises CheckpointError."""
    for sink in spec.sinks:
        directory = directory_of(spec, sink)
        if "://" not in directory:
            stack.enter_context(CheckpointLock(Path(directory), owner_of(spec, sink, through(spec, sink.name))))
            require_begun(Path(directory))


@contextmanager
def session(spec: PipelineSpec, master: str | None, memory: str, conf: Mapping[str, str]) -> Iterator[Session]:
    """A new session for a pipeline, as a context manager; Spark's log is beside the checkpoints."""
    with tempfile.TemporaryDirectory(prefix="ottla-pipeline-", ignore_cleanup_errors=True) as scratch:
        checkpoints = spec.path(spec.checkpoints)
        log = Path(scratch if "://" in checkpoints else checkpoints) / "spark.log"
        options = SessionOptions(log, Path(scratch), spec.name, master, memory, conf)
        with Session(options) as made:
            yield made


__all__ = ["Outcome", "RunOptions", "Watcher", "run_pipelines", "session", "take_checkpoints"]
