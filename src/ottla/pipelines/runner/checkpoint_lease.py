"""Lets only one driver at a time use a checkpoint, on any machine: the order of records in a topic decides.

```
 nobody, or who left it ──────────────────────────────────────► claimed ─► first of the claims ─► used
 another, of which something is heard meanwhile ─► refused         └► not the first ─► refused
 another, silent for LEASE_MS ───────────────────────────────► claimed ...
 another of this machine, whose lock on the file is gone ────► claimed ...

 used ─► a sign every SIGN_MS ─► read up to it: nobody claimed the next generation ─► goes on
                                  somebody did: a pause or a cut was taken for death ─► fenced, stops for good
```

A driver that waits measures by its own clock how long it hears nothing while the broker answers; so clocks may differ,
and a broker that is away makes nobody look dead. Whoever claims takes the checkpoint at that place of the log, whatever
the other believes: it finds out with its next sign, and asks before each batch of a table that it commits.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.client.errors import ClientError
from ottla.pipelines.runner.checkpoint import driver_text, in_use
from ottla.pipelines.runner.lease_log import Entry, LeaseLog, Sign, Use, newer
from ottla.runtime.clock import Clock, SystemClock
from ottla.runtime.rng import Rng, SystemRng

SIGN_MS: Final = 5_000
"""How often a driver renews its leases."""
LEASE_MS: Final = 20_000
"""A driver that has not renewed its lease for this long counts as dead."""
LEAVE_SECONDS: Final = 3
"""How long a driver tries to release its leases when it ends. If brokers are unreachable, others wait until the leases
expire."""
_LISTEN_MS: Final = 500
_AGAIN_MS: Final = 1_000
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")

logger = logging.getLogger(__name__)


class FencedError(Exception):
    """Another driver has taken over the checkpoint; this one stops. The message is one line."""


@dataclass(frozen=True, slots=True)
class Driver:
    """Identifies a run of a driver."""

    name: str
    host: str
    pid: int
    machine: str
    since_ms: int

    @classmethod
    def here(cls, clock: Clock | None = None, rng: Rng | None = None) -> "Driver":
        """The driver of the calling process."""
        name = (rng or SystemRng()).token_bytes(16).hex()
        machine = ""
        with suppress(OSError):
            machine = _BOOT.read_text().strip()
        return cls(name, socket.gethostname(), os.getpid(), machine, (clock or SystemClock()).now_ms())


class CheckpointLeases:
    """The leases of a driver in one cluster, as a context manager. Thread-safe after `take`."""

    def __init__(self, log: LeaseLog, driver: Driver, clock: Clock, *, lease_ms: int = LEASE_MS) -> None:
        self._log = log
        self._driver = driver
        self._clock = clock
        self._lease_ms = lease_ms
        self._seen: dict[str, Entry] = {}
        self._held: dict[str, tuple[int, str]] = {}
        self._lock = threading.Lock()
        self._fenced: dict[str, FencedError] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def take(
        self, wanted: Mapping[str, str], waits: Callable[[str], None], locked: frozenset[str] = frozenset()
    ) -> None:
        """Take checkpoints, all or none, by their names and directories.

        Of those in `locked` this process has the lock on the file, so a driver of this machine that had one is dead.
        `waits` is told in a line when it takes some time. Raises CheckpointError where another driver lives, and
        ClientError.
        """
        self._fold(self._log.up_to())
        others = {name: self._seen[name] for name in wanted if self._is_another(name, locked)}
        if others:
            entry = next(iter(others.values()))
            seconds = self._lease_ms / 1000
            directory = wanted[entry.checkpoint]
            waits(
                f"a driver ({_who(entry)}) did not leave the checkpoint {directory}: it is taken over when nothing is"
                f" heard of that one for {seconds:g} s"
            )
        quiet_ms = 0
        while others and quiet_ms < self._lease_ms:
            began_ms = self._clock.monotonic_ms()
            self._fold(self._log.listen(_LISTEN_MS))
            for name, entry in [*others.items()]:
                now = self._seen.get(name)
                if now is None or (now.sign is not None and now.sign.use is Use.LEFT):
                    del others[name]
                elif now is not entry:
                    raise in_use(wanted[name], _who(now))
            quiet_ms += self._clock.monotonic_ms() - began_ms
        self._claim(wanted)

    def _is_another(self, name: str, locked: frozenset[str]) -> bool:
        entry = self._seen.get(name)
        if entry is None or entry.sign is None or entry.sign.use is Use.LEFT or entry.driver == self._driver.name:
            return False
        return not (name in locked and entry.sign.machine == self._driver.machine != "")

    def _claim(self, wanted: Mapping[str, str]) -> None:
        before = {name: self._seen.get(name) for name in wanted}
        for name, directory in wanted.items():
            entry = before[name]
            self._held[name] = (
                (entry.sign.generation + 1 if entry is not None and entry.sign is not None else 1),
                directory,
            )
        self._fold(self._log.up_to(self._log.append([self._entry(name, Use.CLAIMS) for name in wanted])))
        lost = next((self._seen[name] for name in wanted if self._seen[name].driver != self._driver.name), None)
        if lost is not None:
            self._give_back()
            raise in_use(wanted[lost.checkpoint], _who(lost))
        gone = [entry for entry in before.values() if entry is not None and entry.driver != self._driver.name]
        uses = [self._entry(name, Use.USES) for name in self._held]
        self._fold(self._log.up_to(self._log.append([*uses, *(entry._replace(sign=None) for entry in gone)])))

    def confirm(self, name: str) -> None:
        """Return when it is certain that no other driver had the checkpoint at the time of the call.

        Raises FencedError, from then on each time, and ClientError while that cannot be found out.
        """
        with self._lock:
            self._look()
            if name in self._fenced:
                raise self._fenced[name]

    def _look(self) -> None:
        """Say that this driver lives, and see up to there who has its checkpoints."""
        if self._held:
            self._fold(self._log.up_to(self._log.append([self._entry(name, Use.USES) for name in self._held])))
        for name, (_, directory) in [*self._held.items()]:
            entry = self._seen[name]
            if entry.driver != self._driver.name:
                del self._held[name]
                self._fenced[name] = FencedError(
                    f"fenced: another driver ({_who(entry)}) has taken over the checkpoint {directory}, as nothing was"
                    " heard of this one; this one stops for good"
                )

    def keep(self, lost: Callable[[str, FencedError], None]) -> None:
        """Renew the leases regularly, in a thread of its own.

        It calls `lost` with the name of each checkpoint that another driver has taken over.
        """
        self._thread = threading.Thread(target=self._sign, args=(lost,), name="ottla-checkpoints", daemon=True)
        self._thread.start()

    def _sign(self, lost: Callable[[str, FencedError], None]) -> None:
        told: set[str] = set()
        wait_ms = SIGN_MS
        while not self._stopped.wait(wait_ms / 1000):
            wait_ms = SIGN_MS
            try:
                with self._lock:
                    self._look()
            except ClientError as error:
                logger.debug("this driver could not say that it lives: %s", error)
                wait_ms = _AGAIN_MS
            for name, fenced in [*self._fenced.items()]:
                if name not in told:
                    told.add(name)
                    lost(name, fenced)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        in_time = threading.Timer(LEAVE_SECONDS, self._log.close)
        in_time.daemon = True
        in_time.start()
        try:
            if self._thread is not None:
                self._thread.join()
            with self._lock:
                self._give_back()
        except ClientError as failure:
            logger.info("could not release the checkpoints of this driver, so other drivers have to wait: %s", failure)
        finally:
            in_time.cancel()

    def _give_back(self) -> None:
        """Leave what is held; take back claims that came too late."""
        mine = {name for name in self._held if name in self._seen and self._seen[name].driver == self._driver.name}
        left = [self._entry(name, Use.LEFT) if name in mine else self._entry(name, None) for name in self._held]
        self._held = {}
        if left:
            self._log.append(left)

    def _entry(self, name: str, use: Use | None) -> Entry:
        generation, directory = self._held[name]
        driver = self._driver
        if use is None:
            return Entry(name, driver.name, None)
        sign = Sign(generation, use, driver.host, driver.pid, driver.machine, driver.since_ms, directory)
        return Entry(name, driver.name, sign)

    def _fold(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            now = newer(self._seen.get(entry.checkpoint), entry)
            if now is None:
                self._seen.pop(entry.checkpoint, None)
            else:
                self._seen[entry.checkpoint] = now


def _who(entry: Entry) -> str:
    assert entry.sign is not None
    return driver_text(entry.sign.host, entry.sign.pid, entry.sign.since_ms)
