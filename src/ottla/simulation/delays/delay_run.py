"""One run of a delay topic, from a seed to what is wrong in it.

step    producers write records, cancellations, schedules, in transactions or not; time passes
        brokers end, lose power, start, are paused; leaders move; clocks jump; requests get lost; disks are full or
        damaged; the target is deleted and comes back
end     nothing fails any more, all clocks go forward until everything is due, and the next leader delivers nothing
"""

import gc
import logging
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from ottla.runtime.rng import Rng, SeededRng
from ottla.simulation.delays.delay_cluster import CALM_MS, DelayCluster
from ottla.simulation.delays.delay_faults import DelayFaults
from ottla.simulation.delays.delay_producers import DelayProducers
from ottla.simulation.delays.delay_schedule import WRITE, DelaySchedule, DelaySettings
from ottla.simulation.delays.pausing import pause
from ottla.simulation.replacing import replaced
from ottla.simulation.whole.clock import BEGIN_MS
from ottla.simulation.whole.event_loop import SimulatedLoop, StuckError
from ottla.simulation.whole.process import current_process

HEAL_S: Final = 10.0
"""What is to heal by itself has done so then."""

END_S: Final = 60.0
"""Everything is delivered by then."""

QUIET_S: Final = 6.0
"""For so long the last leader has nothing to deliver."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 (a directory of its own is made in it)


class DelayResult(Struct, frozen=True):
    """What became of a schedule. `violations` is empty where all that is promised was kept."""

    schedule: DelaySchedule
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    deliveries: int
    virtual_s: float

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that are broken, to compare runs."""
        return tuple(violation.partition(":")[0] for violation in self.violations)


def run(schedule: DelaySchedule) -> DelayResult:
    """Run a schedule to its end."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-delays-", dir=MEMORY if MEMORY.is_dir() else None))
    was_enabled = gc.isenabled()
    gc.disable()  # finalizers run at the same moments again
    try:
        return _Run(schedule, directory).result()
    finally:
        _bury_the_dead()
        if was_enabled:
            gc.enable()
        shutil.rmtree(directory, ignore_errors=True)


class _Run:
    def __init__(self, schedule: DelaySchedule, directory: Path) -> None:
        self._schedule = schedule
        rng: Rng = SeededRng(schedule.seed)
        self._loop = loop = SimulatedLoop(SeededRng(rng.randbelow(1 << 62)))
        self._trace: list[str] = []
        self._cluster = cluster = DelayCluster(loop, rng, schedule.settings, directory, self._say)
        self._faults = DelayFaults(cluster, SeededRng(rng.randbelow(1 << 62)))
        self._producers = DelayProducers(loop, schedule.settings, cluster.replicas, cluster.rules, self._say)
        cluster.is_held = lambda: self._producers.has_open

    def result(self) -> DelayResult:
        """Run to the end."""
        rules, log = self._cluster.rules, _TracedLog(self._say)
        violations: list[str] = []
        with log.attached(), _sizes(self._schedule.settings):
            try:
                self._loop.run_until_complete(self._main())
            except StuckError as error:
                violations.append(f"stuck: {error}")
            virtual_s = self._loop.time()
            violations = [*rules.wrong, *log.crashes, *violations]
            self._end_all()
        return DelayResult(self._schedule, tuple(violations), tuple(self._trace), rules.deliveries, virtual_s)

    def _say(self, what: str) -> None:
        self._trace.append(f"{self._loop.time():12.6f}  {what}")

    async def _main(self) -> None:
        cluster = self._cluster
        cluster.start()
        for step in self._schedule.steps:
            if step.kind == WRITE:
                self._producers.write(step.rng)
            else:
                self._faults.begin(step.kind, step.rng)
            await pause(self._loop.call_later, step.pause_s)
            cluster.look()
            if cluster.rules.wrong:
                return
        await self._end()

    async def _end(self) -> None:
        cluster, rules = self._cluster, self._cluster.rules
        self._say("the end begins")
        await pause(self._loop.call_later, HEAL_S)
        self._faults.end()
        self._producers.end_all()
        await pause(self._loop.call_later, CALM_MS / 1000)
        for broker in cluster.brokers:
            broker.clock.ahead_ms = max(0, rules.last_ms - BEGIN_MS - cluster.now_ms + 1)
        cluster.disturb()
        until_s = self._loop.time() + END_S
        while (left := rules.left()) and self._loop.time() < until_s and not rules.wrong:
            await pause(self._loop.call_later, 0.5)
        if left and not rules.wrong:
            rules.wrong[f"lost: {', '.join(map(str, left[:3]))}"] = None
        cluster.replicas.elect(avoid=cluster.replicas.leader)
        await pause(self._loop.call_later, QUIET_S)

    def _end_all(self) -> None:
        """Nothing of this run goes on."""
        loop = self._loop
        processes = [each for broker in self._cluster.brokers for each in (*broker.dead, broker.process)]
        for process in (*processes, loop.world):
            if process is not None:
                loop.kill(process)
                for task in process.tasks:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.set_exception_handler(lambda *_: None)
        loop.close()


@contextmanager
def _sizes(settings: DelaySettings) -> Iterator[None]:
    with ExitStack() as stack:
        for module, sizes in (("delay_mover", settings.mover), ("delay_buckets", settings.buckets)):
            for name, value in {
                **sizes,
                "CANCELS_MAX": settings.cancels_max,
            }.items():
                stack.enter_context(replaced(f"ottla.server.{module}", name, value))
        stack.enter_context(replaced("ottla.server.delay_mover", "COMPLAIN_MS", 1))  # each line is in the trace
        yield


def _bury_the_dead() -> None:
    """Collect what was in the middle of something: its cleaning up comes to nothing, and nobody is to hear of that."""
    with replaced(sys, "unraisablehook", lambda _: None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable()
        gc.collect()
        logging.disable(logging.NOTSET)


class _TracedLog(logging.Handler):
    """What brokers log goes into the trace; what has a traceback is a fault of theirs."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.crashes: list[str] = []
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """One line of a process."""
        process = current_process()
        line = record.getMessage()
        if record.exc_info and record.levelno >= logging.ERROR:
            self.crashes.append(f"a part crashed: {line}: {record.exc_info[1]!r}")
            line += "\n" + logging.Formatter().formatException(record.exc_info)
        self._say(f"[{'world' if process is None else process.name}] {line}")

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Listen, instead of everybody else."""
        loggers = [logging.getLogger(name) for name in ("ottla", "asyncio")]
        before = [(each.level, each.propagate) for each in loggers]
        for each in loggers:
            each.addHandler(self)
            each.propagate = False
        loggers[0].setLevel(logging.INFO)
        try:
            yield
        finally:
            for each, (level, propagate) in zip(loggers, before, strict=True):
                each.removeHandler(self)
                each.setLevel(level)
                each.propagate = propagate
