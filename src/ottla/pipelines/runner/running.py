"""Pipelines in one driver: their checkpoints taken, a session, a query for each sink, a supervisor over all."""

import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ottla.pipelines.live_view import View, Watching
from ottla.pipelines.runner.audited import Audited, audit_of
from ottla.pipelines.runner.checkpoint import CheckpointLock, directory_of, owner_of
from ottla.pipelines.runner.failure import Failure
from ottla.pipelines.runner.supervisor import Supervisor, Watcher
from ottla.pipelines.session import Session, SessionOptions
from ottla.pipelines.spec.model import PipelineSpec
from ottla.runtime.clock import SystemClock
from ottla.runtime.rng import SystemRng

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How pipelines are run."""

    bootstrap: Mapping[str, str]
    """Where the brokers are, by the name of the pipeline."""
    until_caught_up: bool = False
    master: str | None = None
    memory: str = "1g"
    conf: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: the queries that failed for good, and the signal that ended the others."""

    failed: list[tuple[str, Failure]]
    signal: int | None


def run_pipelines(specs: Sequence[PipelineSpec], options: RunOptions, view: View) -> Outcome:
    """Run them until all are through or have failed for good, or a signal says stop.

    Raises CheckpointError where a checkpoint is in use or of something else, SparkMissingError; then nothing has begun.
    """
    with ExitStack() as stack:
        for spec in specs:
            take_checkpoints(spec, stack)
        spark = stack.enter_context(session(specs[0], options.master, options.memory, options.conf or {})).spark
        return supervise(spark, specs, options, view)


def supervise(spark: "SparkSession", specs: Sequence[PipelineSpec], options: RunOptions, view: View) -> Outcome:
    """Run them on a session that is there. The checkpoints are taken already; the view is closed."""
    from ottla.pipelines.runner.queries import ProgressOf, Running, query_name, start

    clock = SystemClock()
    names = {query_name(spec, sink): spec for spec in specs for sink in spec.sinks}
    with ExitStack() as stack:
        stack.callback(view.close)
        audits = {spec.name: stack.enter_context(audit) for spec in specs if (audit := audit_of(spec, options))}
        watching = Watching(names, view, clock)
        supervisor = Supervisor(Audited(watching, names, audits), clock, SystemRng())
        for spec in specs:
            # A session of its own: the views of several pipelines may have the same names.
            running = Running(spark.newSession(), options.bootstrap[spec.name], options.until_caught_up)
            for sink in spec.sinks:
                supervisor.add(query_name(spec, sink), partial(start, running, spec, sink), ProgressOf())
        with stopping_on_signals(supervisor) as received:
            failed = supervisor.run()
    return Outcome(failed, received[0] if received else None)


def take_checkpoints(spec: PipelineSpec, stack: ExitStack) -> None:
    """Hold the checkpoints of all sinks until the stack is closed. Raises CheckpointError."""
    from ottla.pipelines.spec.lineage import through

    for sink in spec.sinks:
        directory = directory_of(spec, sink)
        if "://" not in directory:
            stack.enter_context(CheckpointLock(Path(directory), owner_of(spec, sink, through(spec, sink.name))))


@contextmanager
def session(spec: PipelineSpec, master: str | None, memory: str, conf: Mapping[str, str]) -> Iterator[Session]:
    """A session of its own for a pipeline; Spark's log lies beside the checkpoints."""
    with tempfile.TemporaryDirectory(prefix="ottla-pipeline-", ignore_cleanup_errors=True) as scratch:
        checkpoints = spec.path(spec.checkpoints)
        log = Path(scratch if "://" in checkpoints else checkpoints) / "spark.log"
        options = SessionOptions(log, Path(scratch), spec.name, master, memory, conf)
        with Session(options) as made:
            yield made


@contextmanager
def stopping_on_signals(supervisor: Supervisor) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM stop the supervisor; the list gets the signal. Spark's own handlers would end Python within a
    call into the JVM.
    """
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        supervisor.stop()

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["Outcome", "RunOptions", "Watcher", "run_pipelines", "session", "take_checkpoints"]
