"""What producers write into the simulated delay topic: records, cancellations, schedules, in transactions or not."""

from collections.abc import Callable
from typing import Final

from ottla.queues.delay import CANCEL, CRON, DELAY, DELIVER_AT
from ottla.runtime.rng import Rng
from ottla.simulation.delays.delay_log import Record
from ottla.simulation.delays.delay_replicas import Replicas
from ottla.simulation.delays.delay_rules import DelayRules, Kind
from ottla.simulation.delays.delay_schedule import DelaySettings
from ottla.simulation.whole.clock import BEGIN_MS
from ottla.simulation.whole.event_loop import SimulatedLoop

KEYS: Final = 6
SCHEDULE_KEYS: Final = 2
OPEN_S_MAX: Final = 5.0
"""How long a producer leaves its transaction open."""

LARGE_BYTES: Final = 60_000
"""The value of a record that the target refuses."""

Headers = list[tuple[str, bytes | None]]


class DelayProducers:
    """Belongs to the world. Each transaction has a producer of its own."""

    def __init__(
        self,
        loop: SimulatedLoop,
        settings: DelaySettings,
        replicas: Replicas,
        rules: DelayRules,
        say: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._replicas = replicas
        self._rules = rules
        self._say = say
        self._count = 0
        self._open: dict[int, None] = {}
        """Those with an open transaction."""

    @property
    def has_open(self) -> bool:
        """Whether a transaction is open, behind which nothing is committed."""
        return bool(self._open)

    def write(self, rng: Rng) -> None:
        """Some records, in a transaction or without one."""
        records = [self._record(rng) for _ in range(1 + rng.randbelow(4))]
        draw = rng.random()
        if draw < 0.65:
            self._replicas.append(records)
            return
        if draw < 0.7:
            self._replicas.append_to_former(records)
            return
        self._count += 1
        producer = self._count
        self._replicas.append(records, producer)
        if draw < 0.85:
            self._replicas.end_transaction(producer, draw < 0.8)
        else:
            self._open[producer] = None
            self._loop.in_world(rng.uniform(0.0, OPEN_S_MAX), self._end, producer, draw < 0.95)

    def end_all(self) -> None:
        """End all transactions that are open, and cancel all schedules."""
        for producer in tuple(self._open):
            self._end(producer, True)
        if self._settings.has_schedules:
            self._replicas.append([self._cancel(b"s%d" % number) for number in range(SCHEDULE_KEYS)])

    def _end(self, producer: int, commits: bool) -> None:
        if producer in self._open:
            del self._open[producer]
            self._replicas.end_transaction(producer, commits)

    def _record(self, rng: Rng) -> Record:
        settings = self._settings
        now_ms = BEGIN_MS + int(self._loop.time() * 1000)
        draw = rng.random()
        key = b"k%d" % rng.randbelow(KEYS) if rng.random() < 0.7 else None
        is_refused = rng.random() < settings.large_chance
        if draw < 0.1:
            return self._cancel(b"k%d" % rng.randbelow(KEYS))
        if draw < 0.13:
            return self._take("letter", key, 0, 0, [(DELIVER_AT, b"soon")])
        soonest_ms, latest_ms = now_ms + min(settings.delays_ms), now_ms + max(settings.delays_ms)
        if draw < 0.2 and settings.has_schedules:
            schedule_key = b"s%d" % rng.randbelow(SCHEDULE_KEYS)
            if rng.random() < 0.3:
                return self._cancel(schedule_key)
            return self._take("schedule", schedule_key, soonest_ms, latest_ms, [(CRON, b"* * * * *")])
        if draw < 0.3:
            return self._take("plain", key, soonest_ms, latest_ms, [], is_refused)
        delay_ms = rng.randbelow(settings.horizon_ms)
        due_ms = now_ms + delay_ms
        if draw < 0.6:
            return self._take("plain", key, due_ms, due_ms, [(DELAY, b"%d" % delay_ms)], is_refused)
        due_ms -= 500 if rng.random() < 0.2 else 0
        return self._take("plain", key, due_ms, due_ms, [(DELIVER_AT, b"%d" % due_ms)], is_refused)

    def _cancel(self, key: bytes) -> Record:
        return self._take("cancel", key, 0, 0, [(CANCEL, b"")])

    def _take(
        self, kind: Kind, key: bytes | None, due_ms: int, latest_ms: int, headers: Headers, is_refused: bool = False
    ) -> Record:
        written = self._rules.write(kind, key, due_ms, latest_ms, is_letter=is_refused or kind == "letter")
        self._say(f"write {written}")
        value = (b"%d" % written.number).ljust(LARGE_BYTES if is_refused else 0, b".")
        return BEGIN_MS + int(self._loop.time() * 1000), key, value, headers
