"""One schedule of whole brokers, from a seed to what it found."""

import asyncio
import errno
import gc
import logging
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ottla.client.admin.admin import Admin, NewTopic
from ottla.client.admin.configs import ConfigResource
from ottla.client.consuming.consumer_options import GroupProtocol
from ottla.client.errors import BrokerError
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.security.scram import salted_password
from ottla.simulation.replacing import replaced
from ottla.simulation.share_history import ShareHistory
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.decided_metadata import DecidedMetadata
from ottla.simulation.whole.ending import NotHealedError, end, until
from ottla.simulation.whole.event_loop import StuckError
from ottla.simulation.whole.faults import FAULTS, Faults
from ottla.simulation.whole.invariants import Invariants
from ottla.simulation.whole.load import COPIED, PARTITIONS, PLAIN, Client, Copier, Member, Reader, Seen, Sender
from ottla.simulation.whole.operations import OPERATIONS, Operator
from ottla.simulation.whole.process import current_process
from ottla.simulation.whole.schedule import Schedule, Step, drawn
from ottla.simulation.whole.share_load import BROKER_SETTINGS, DELIVERIES_MAX, GROUP_SETTINGS, WORKERS, ShareWorker

WEIGHTS: Final[Mapping[str, int]] = {
    **{kind: fault.weight for kind, fault in FAULTS.items()},
    **{kind: operation.weight for kind, operation in OPERATIONS.items()},
}
"""The weight of each kind of step in a schedule."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 (a directory of its own is made in it)
"""Where files are as fast as memory."""


SHARES_EVERY: Final = 4
"""In one of so many seeds a share group works on what is sent."""

WORKERS_COUNT: Final = 3
"""Members of that group."""


class WholeResult(Struct, frozen=True):
    """The result of a schedule. `violations` is empty if all guarantees held."""

    schedule: Schedule
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    trace_hash: str
    virtual_s: float
    sent: int
    acknowledged: int
    copies: int

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that are broken, to compare runs."""
        return tuple(violation.partition(":")[0] for violation in self.violations)

    @property
    def story(self) -> tuple[str, ...]:
        """The lines of the trace but those about single records, unless the violations name them."""
        named = set(_VALUE.findall("".join(self.violations)))
        return tuple(line for line in self.trace if _RECORD.match(line) is None or named & set(_VALUE.findall(line)))


_RECORD: Final = re.compile(r" *[0-9.]+  [|x:. ]+  (sender-.*: at |copier-.*: copied )")
_VALUE: Final = re.compile(r"sender-[0-9]+\.[0-9]+/[0-9]+/[0-9]+")


def schedule_of(seed: int, faults_s: float | None = None, kinds: Sequence[str] = ()) -> Schedule:
    """The schedule of a seed, of this length and these kinds of steps, or of those that it draws."""
    return drawn(seed, WEIGHTS, faults_s, kinds)


def run(schedule: Schedule) -> WholeResult:
    """Run a schedule to its end."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        with _one_thread():
            try:
                return _Run(schedule, directory).result()
            finally:
                _bury_the_dead()
    finally:
        shutil.rmtree(directory)


class _Setup(Client):
    """Makes the topics."""

    async def work(self) -> None:
        """Until both are there."""
        cluster = Cluster(self._options, self._io)
        try:
            await cluster.connect()
            for name in (PLAIN, COPIED):
                try:
                    await Admin(cluster).create_topic(NewTopic(name, PARTITIONS, 3))
                except BrokerError as error:
                    if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
            await self._also(Admin(cluster))
            self.is_stopping = True
        finally:
            cluster.close()

    async def _also(self, admin: Admin) -> None:
        """What else there is to be."""


class _ShareSetup(_Setup):
    """Makes the topics, and has a share group begin at their beginning."""

    async def _also(self, admin: Admin) -> None:
        await admin.alter_configs(ConfigResource.group(WORKERS), GROUP_SETTINGS)


class _Run:
    def __init__(self, schedule: Schedule, directory: Path) -> None:
        self._schedule = schedule
        has_shares = schedule.seed % SHARES_EVERY == SHARES_EVERY - 1
        self._cluster = cluster = SimulatedCluster(schedule.seed, directory, BROKER_SETTINGS if has_shares else None)
        self._seen = Seen()
        self._shares = ShareHistory(DELIVERIES_MAX) if has_shares else None
        self._rng = cluster.draw_rng()
        self._decided = DecidedMetadata(cluster.ensemble)
        self._operator = Operator("operator", cluster, self._seen, self._decided)
        self._faults = Faults(cluster, self._decided, self._operator.ask)
        self._clients: list[Client] = []

    def result(self) -> WholeResult:
        """Run to the end."""
        cluster, loop, schedule = self._cluster, self._cluster.loop, self._schedule
        log = _TracedLog(cluster)
        invariants = Invariants(cluster, self._decided)
        cluster.trace.tell(f"seed {schedule.seed}: {cluster.described}; {', '.join(schedule.kinds)}")
        violations: list[str] = []
        with log.attached():
            try:
                violations += loop.run_until_complete(self._main())
            except (NotHealedError, StuckError) as error:
                violations.append(str(error))
            violations += [*invariants.broken, *log.crashes]
            trace_hash, virtual_s = cluster.trace.hash, loop.time()
            self._end_all()
        for violation in violations:
            cluster.trace.tell(f"!!! {violation}")
        sent = self._seen.sends
        return WholeResult(
            schedule,
            tuple(violations),
            tuple(cluster.trace.lines),
            trace_hash,
            virtual_s,
            len(sent),
            sum(each.offset >= 0 for each in sent),
            self._seen.copies,
        )

    async def _main(self) -> list[str]:
        cluster, loop, seen = self._cluster, self._cluster.loop, self._seen
        for broker in cluster.brokers:
            broker.start()
        make = _Setup if self._shares is None else _ShareSetup
        setup = self._started(make("setup", cluster, seen))
        await until(cluster, "there are topics", lambda: "" if setup.ended.done() else "no")
        senders = [
            self._started(Sender(f"sender-{number}", cluster, seen)) for number in range(1 + self._rng.randbelow(3))
        ]
        protocol = GroupProtocol.CONSUMER if self._schedule.seed % 2 else GroupProtocol.CLASSIC
        others = [
            self._started(Reader("reader", cluster, seen)),
            *(self._started(Copier(f"copier-{number}", cluster, seen)) for number in range(2)),
            *(self._started(Member(f"member-{number}", cluster, seen, protocol)) for number in range(2)),
            self._started(self._operator),
        ]
        if self._shares is not None:
            others += [
                self._started(ShareWorker(f"worker-{number}", cluster, seen, self._shares))
                for number in range(WORKERS_COUNT)
            ]
        for step in self._schedule.steps:
            loop.in_world(step.at_s, self._begin, step)
        passed: asyncio.Future[None] = loop.create_future()
        loop.in_world(self._schedule.faults_s, passed.set_result, None)
        await passed
        self._faults.end()
        self._operator.is_stopping = True
        return await end(cluster, seen, senders, others, self._shares)

    def _begin(self, step: Step) -> None:
        if step.kind in FAULTS:
            self._faults.begin(step.kind, step.rng, step.focus)
        else:
            self._operator.ask(step.kind, step.rng)

    def _started(self, client: Client) -> Client:
        client.start()
        self._clients.append(client)
        return client

    def _end_all(self) -> None:
        """Nothing of this run goes on."""
        loop = self._cluster.loop
        for process in (*(client.process for client in self._clients), *self._cluster.all_processes, loop.world):
            loop.kill(process)
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.set_exception_handler(lambda *_: None)
        loop.close()


def _bury_the_dead() -> None:
    """Collect what was in the middle of something: its cleaning up comes to nothing, and nobody is to hear of that."""
    with replaced(sys, "unraisablehook", lambda _: None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


class _TracedLog(logging.Handler):
    """What brokers log goes into the trace; a part that crashed is a finding."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(logging.INFO)
        self.crashes: list[str] = []
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        """One line of a process."""
        process = current_process()
        name = "world" if process is None else process.name
        line = record.getMessage()
        if record.exc_info and record.levelno >= logging.ERROR:
            error = record.exc_info[1]
            if not (isinstance(error, OSError) and error.errno == errno.ENOSPC):  # a full disk is no fault of ours
                self.crashes.append(f"a part crashed with {type(error).__name__}: {name}: {line}: {error!r}")
            line += "\n" + logging.Formatter().formatException(record.exc_info)
        self._cluster.trace.tell(f"[{name}] {line}")

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Listen, instead of everybody else."""
        loggers = [logging.getLogger(name) for name in ("ottla", "asyncio")]
        before = [(each.level, each.propagate) for each in loggers]
        for each in loggers:
            each.addHandler(self)
            each.propagate = False
        logging.getLogger("ottla").setLevel(logging.INFO)
        try:
            yield
        finally:
            for each, (level, propagate) in zip(loggers, before, strict=True):
                each.removeHandler(self)
                each.setLevel(level)
                each.propagate = propagate


class _NoExecutor:
    """A pool of threads without threads."""

    def __init__(self, *_: object, **__: object) -> None:
        """Any number."""

    def __enter__(self) -> "_NoExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to wait for."""

    def map(self, function: Any, items: Any) -> Iterator[Any]:
        """One after the other."""
        return map(function, items)


_salted_once = cache(salted_password)
"""Slow on purpose, and the same for every connection between two brokers that goes on with what they know."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """Nothing is done by threads, and nothing is collected in between: finalizers run at the same moments again."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before is none of what a run leaves behind
    try:
        with (
            replaced("ottla.runtime.parallel", "ThreadPoolExecutor", _NoExecutor),
            replaced("ottla.peers.authentication", "salted_password", _salted_once),
        ):
            yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
