"""Identifies the calling task of Spark, its batch and its driver."""

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from ottla.runtime.rng import SystemRng

_FACTORY_SECRETS = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")


def new_name() -> str:
    """A unique name."""
    return f"{SystemRng().randbelow(1 << 128):032x}"


@dataclass(frozen=True, slots=True)
class SparkTask:
    """One attempt at a task, and what Spark says of the work it is part of.

    `run` is one start of a query, `query_id` stays with its checkpoint; both are None outside of a stream.
    """

    index: int = 0
    attempt: str = ""
    query_id: str | None = None
    run: str | None = None
    batch_id: int | None = None

    @classmethod
    def current(cls) -> "SparkTask":
        """The task of the calling process; outside of Spark, a single task without a query."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return cls(attempt=new_name())
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        streaming = batch_id is not None
        return cls(
            index=context.partitionId(),
            attempt=f"{context.taskAttemptId()}-{new_name()}",
            query_id=context.getLocalProperty("sql.streaming.queryId") if streaming else None,
            # Spark names the jobs of a query's run after it.
            run=context.getLocalProperty("spark.jobGroup.id") if streaming else None,
            batch_id=int(batch_id) if batch_id is not None else None,
        )


def driver_id() -> str:
    """The driver, as a process that plans a write for it knows it: the same for every query and batch of its life.

    Host, process id and start of the JVM, the first ancestor that is not Python; a restarted driver is another.
    """
    pid = os.getppid()
    found = _ancestor(pid)
    secret = next((os.environ[name] for name in _FACTORY_SECRETS if name in os.environ), "")
    told = found or f"{pid}-{hashlib.sha256(secret.encode()).hexdigest()[:12]}"
    return f"{socket.gethostname()}/{told}"


def _ancestor(pid: int) -> str | None:
    """Process id and start time of the first ancestor that does not run Python; None where there is no /proc."""
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        name, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        if not name.startswith("python"):
            return f"{pid}-{fields[19]}"
        pid = int(fields[1])
    return None
