"""The brokers of a simulated delay topic with all that they share, and what is seen of them from outside."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.native import decode_records
from ottla.queues.delay import progress_of
from ottla.runtime.rng import Rng, SeededRng
from ottla.server.delay_mover import FULL_MS
from ottla.simulation.delays.delay_broker import DelayBroker
from ottla.simulation.delays.delay_log import LedPartition
from ottla.simulation.delays.delay_replicas import Replica, Replicas
from ottla.simulation.delays.delay_rules import DelayRules
from ottla.simulation.delays.delay_schedule import DelaySettings
from ottla.simulation.delays.delay_target import (
    DECOMPRESSED_BYTES_MAX,
    FIRST_PRODUCER_ID,
    DelayTarget,
    MoverTransaction,
)
from ottla.simulation.whole.clock import BEGIN_MS
from ottla.simulation.whole.event_loop import SimulatedLoop

CALM_MS: Final = 3_500
"""After so much time without a disturbance a leader moves what is due: it has tried again, and taken over."""

CLOCKS_MS: Final = 1_000
"""So much the clocks of brokers differ at the beginning."""

ENDED_MS: Final = 3_000
"""Transactions whose markers were lost have ended again by then; who delivers reads nothing that is behind them."""


class DelayCluster:
    """Belongs to the world."""

    def __init__(
        self, loop: SimulatedLoop, rng: Rng, settings: DelaySettings, directory: Path, say: Callable[[str], None]
    ) -> None:
        self.loop = loop
        self.rules = DelayRules(reads_all_first=settings.reads_all_first)
        self.settings = settings
        self.say = say
        self.delay_ms = settings.delays_ms[0]
        """The default delay of records that are looked at from now on."""
        self.on_death_in_thread: Callable[[DelayBroker], None] = lambda _: None
        self.is_held: Callable[[], bool] = lambda: False
        """Whether a producer has a transaction open."""
        self._calm_since_ms = self._held_ms = 0
        self._seen = 0
        self.brokers: list[DelayBroker] = []
        for number in range(settings.broker_count):
            broker = DelayBroker(
                loop,
                SeededRng(rng.randbelow(1 << 62)),
                number,
                directory / str(number),
                target=lambda: self.target,
                default_delay_ms=lambda: self.delay_ms,
                on_trouble=self.disturb,
                on_death_in_thread=self._died,
            )
            broker.clock.ahead_ms = rng.randbelow(CLOCKS_MS) - CLOCKS_MS // 2
            self.brokers.append(broker)
        self.replicas = Replicas(
            loop,
            SeededRng(rng.randbelow(1 << 62)),
            [broker.replica for broker in self.brokers],
            is_unclean=settings.is_unclean,
            on_led=self._led,
            on_told=self._told,
            on_committed=self._committed,
            on_cut=self._cut,
        )
        target_rng = SeededRng(rng.randbelow(1 << 62))
        self.target = DelayTarget(loop, target_rng, self.replicas, settings.target_partitions)
        self.target.on_decided = self._decided
        self.target.on_progress = lambda found: self.rules.committed(progress_of(found.offset, found.metadata))

    def start(self) -> None:
        """All brokers start."""
        for broker in self.brokers:
            broker.start()
            broker.replica.is_up = True
        self.replicas.elect()

    def _died(self, broker: DelayBroker) -> None:
        self.on_death_in_thread(broker)

    @property
    def now_ms(self) -> int:
        """Since the beginning, on the clock that all share."""
        return int(self.loop.time() * 1000)

    def disturb(self, for_ms: int = 0) -> None:
        """What is due may be late from now on, and for some time."""
        self._calm_since_ms = max(self._calm_since_ms, self.now_ms + for_ms)

    def look(self) -> None:
        """Whether something is late."""
        if self.is_held():
            self._held_ms = self.now_ms
        leader = self.replicas.leader
        if leader is None or not self.replicas.is_calm or not self.target.is_there:
            self.disturb()
            return
        broker = self.brokers[leader.number]
        if broker.disk.is_full:
            self.disturb(FULL_MS)
        if not broker.is_running:
            self.disturb()
        if self.now_ms - self._calm_since_ms >= CALM_MS:
            clock_ms = BEGIN_MS + broker.clock.ahead_ms + self.now_ms
            self.rules.look(self.now_ms, self._calm_since_ms, self._held_ms, clock_ms)

    def _led(self, replica: Replica) -> None:
        self.disturb()
        led = replica.led
        if led is not None:
            self.say(f"broker {replica.number} leads in epoch {led.leader_epoch} from {led.log.log_end_offset} on")
            self.loop.in_world(self.replicas.draw_way_s(), self._hear, replica, led)

    def _hear(self, replica: Replica, led: LedPartition) -> None:
        """A broker hears that it leads."""
        if replica.led is led:
            self.brokers[replica.number].lead(led)

    def _told(self, replica: Replica) -> None:
        self.say(f"broker {replica.number} leads no more")
        self.brokers[replica.number].resign()

    def _cut(self, end: int) -> None:
        self.say(f"committed records are lost from {end} on")
        self.rules.cut(end)
        self.rules.blind(self.now_ms + ENDED_MS)
        self._seen = min(self._seen, end)

    def _committed(self) -> None:
        """Read what is committed, as far as no transaction is open."""
        leader = self.replicas.leader
        if leader is None:
            return
        end = leader.log.last_stable_offset(leader.high_watermark)
        if end <= self._seen:
            return
        for batch in leader.log.between(self._seen, end):
            if batch.ends is None and batch.producer_id < FIRST_PRODUCER_ID and not leader.log.is_aborted(batch):
                found = decode_records(batch.data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
                for offset, _, _, value, _ in found:
                    number = int((value or b"").rstrip(b"."))
                    self.say(f"record {number} is committed at {offset}")
                    self.rules.read(number, offset, self.now_ms, self.replicas.epoch)
        self._seen = end

    def _decided(self, transaction: MoverTransaction) -> None:
        self.look()
        rows = ", ".join(
            f"{'letter of ' if row.is_letter else ''}{row.value.rstrip(b'.').decode()}" for row in transaction.rows
        )
        word = "commits" if transaction.is_committed else "is aborted"
        self.say(
            f"transaction {transaction.epoch} of leader epoch {transaction.mover_epoch} {word}: {rows or 'nothing'}"
        )
        if transaction.is_committed:
            self.rules.delivered(transaction)
