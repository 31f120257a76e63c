"""The replicas of the simulated partition: who leads, who has copied what, and what is lost when they end.

append    the leader writes; in-sync followers copy, each some milliseconds later
elect     the next epoch: somebody in sync, or anybody where elections may be unclean; the others cut what differs.
          It knows of each follower what it has copied in this epoch; who copies nothing leaves the ISR after a while
the one before may go on as leader until it is told: what it writes or commits then reaches nobody
again     the only one in sync that is back at once leads on in the same epoch, whatever its disk has kept
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.runtime.rng import Rng
from ottla.simulation.delays.delay_log import DelayLog, LedPartition, LogBatch, Record
from ottla.simulation.whole.event_loop import SimulatedLoop

COPY_S_MAX: Final = 0.015
NOTICE_S_MAX: Final = 1.0
"""How long it takes until it is noticed that a broker is gone, or copies nothing."""

TOLD_S_MAX: Final = 0.05
AGAIN_S: Final = 0.1
POLL_S: Final = 0.003


class Replica:
    """What one broker has of the partition. It outlives its processes."""

    def __init__(self, number: int, log: DelayLog) -> None:
        self.number = number
        self.log = log
        self.high_watermark = 0
        self.is_up = False
        self.is_paused = False
        self.is_lagging = False
        self.led: LedPartition | None = None
        """While its broker believes that it leads."""

    @property
    def is_copying(self) -> bool:
        """Whether it does what a follower does."""
        return self.is_up and not self.is_paused and not self.is_lagging and self.led is None


class Replicas:
    """Belongs to the world: brokers are told what it decides by `on_led` and `on_told`."""

    def __init__(
        self,
        loop: SimulatedLoop,
        rng: Rng,
        replicas: list[Replica],
        *,
        is_unclean: bool,
        on_led: Callable[[Replica], None],
        on_told: Callable[[Replica], None],
        on_committed: Callable[[], None],
        on_cut: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._rng = rng
        self.replicas = replicas
        self.is_unclean = is_unclean
        self.epoch = 0
        self.leader: Replica | None = None
        self._before: Replica | None = None
        """The last leader, while there is none."""
        self.in_sync: set[int] = {each.number for each in replicas}
        self._known: set[int] = set()
        """Followers that have copied in this epoch."""
        self._on_led = on_led
        self._on_told = on_told
        self._on_committed = on_committed
        self._on_cut = on_cut
        self._committed: list[LogBatch] = []
        self._waiting: deque[Callable[[Replica], None]] = deque()

    @property
    def is_calm(self) -> bool:
        """Whether there is a leader, and all in sync copy what it writes."""
        leader = self.leader
        if leader is None or leader.is_paused:
            return False
        others = [each for each in self.replicas if each.number in self.in_sync and each is not leader]
        return all(each.is_copying and each.number in self._known for each in others)

    # --- what is written --------------------------------------------------------------------------------------------

    def append(
        self, records: list[Record], producer_id: int = -1, on_appended: Callable[[LogBatch], None] = lambda _: None
    ) -> None:
        """Write as soon as there is a leader."""

        def write(leader: Replica) -> None:
            on_appended(leader.log.append(records, self.epoch, producer_id))
            self._spread()

        self._when_led(write)

    def append_to_former(self, records: list[Record]) -> None:
        """Write where somebody leads who was not told that another one does: nobody copies that."""
        for each in self.replicas:
            led = each.led
            if led is not None and each is not self.leader and each.is_up and not each.is_paused:
                each.log.append(records, led.leader_epoch)
                return
        self.append(records)

    def end_transaction(self, producer_id: int, commits: bool, on_ended: Callable[[], None] = lambda: None) -> None:
        """Write a marker, until one is committed."""

        def write(leader: Replica) -> None:
            marker = leader.log.append_marker(producer_id, self.epoch, commits=commits)
            self._spread()
            self._wait_for(marker, on_ended, lambda: self.end_transaction(producer_id, commits, on_ended))

        self._when_led(write)

    def _wait_for(self, batch: LogBatch, on_committed: Callable[[], None], again: Callable[[], None]) -> None:
        is_committed = self.is_committed(batch)
        if is_committed:
            on_committed()
        elif is_committed is None:
            again()
        else:
            self._loop.in_world(POLL_S, self._wait_for, batch, on_committed, again)

    def _when_led(self, write: Callable[[Replica], None]) -> None:
        self._waiting.append(write)
        if len(self._waiting) == 1:
            self._write_waiting()

    def _write_waiting(self) -> None:
        """What waits is written in order."""
        while self._waiting:
            leader = self.leader
            if leader is None or leader.is_paused:
                self._loop.in_world(AGAIN_S, self._write_waiting)
                return
            write = self._waiting[0]
            write(leader)
            self._waiting.popleft()

    def is_committed(self, batch: LogBatch) -> bool | None:
        """Whether the leader has committed a batch; None when it has none such."""
        leader = self.leader
        if leader is None:
            return False
        if not any(each is batch for each in leader.log.batches):
            return None
        return leader.high_watermark >= batch.end_offset

    # --- who leads --------------------------------------------------------------------------------------------------

    def elect(self, *, avoid: Replica | None = None, told_s: float = 0.0) -> None:
        """Another leader, or the same one in a new epoch; the one before is told after some seconds."""
        up = [each for each in self.replicas if each.is_up]
        of = [each for each in up if each.number in self.in_sync] or (up if self.is_unclean else [])
        of = [each for each in of if each is not avoid] or of
        before = self.leader
        if not of:
            self._lose_leader()
            self._loop.in_world(NOTICE_S_MAX / 2, self._elect_if_none)
            return
        leader = of[self._rng.randbelow(len(of))]
        if before is not None and before is not leader:
            self._loop.in_world(told_s, self._tell, before, self.epoch)
        elif leader.led is not None:  # it was not told of the epochs between
            self._resign(leader)
        if leader.number not in self.in_sync:
            self.in_sync = {leader.number}
        self.epoch += 1
        self._lead(leader)

    def _lead(self, leader: Replica) -> None:
        self.leader = leader
        self._known = set()
        end = common_end(self._committed, leader.log.batches)
        if self._committed and end < self._committed[-1].end_offset:
            assert self.is_unclean, "a clean election loses nothing"
            lost = [batch for batch in self._committed if batch.end_offset > end and batch.ends is not None]
            self._committed = leader.log.up_to(end)
            self._on_cut(end)
            for marker in lost:  # somebody ends the transactions that hang now
                self.end_transaction(marker.producer_id, bool(marker.ends))
        leader.led = LedPartition(leader.log, self.epoch, lambda: leader.high_watermark)
        self._on_led(leader)
        self._loop.in_world(self._rng.uniform(0.2, NOTICE_S_MAX), self._drop_unknown, self.epoch)
        self._spread()

    def draw_way_s(self) -> float:
        """How long it takes until somebody hears that it leads."""
        return self._rng.uniform(0.0, TOLD_S_MAX)

    def _lose_leader(self) -> None:
        self._before, self.leader = self.leader or self._before, None

    def _elect_if_none(self) -> None:
        if self.leader is None:
            self.elect()

    def _drop_unknown(self, epoch: int) -> None:
        """Who has copied nothing in this epoch is in sync no more."""
        if self.leader is not None and epoch == self.epoch:
            self.in_sync = {each for each in self.in_sync if each in self._known or each == self.leader.number}
            self.advance()

    def _tell(self, replica: Replica, epoch: int) -> None:
        if replica.is_paused:
            self._loop.in_world(AGAIN_S, self._tell, replica, epoch)
        elif replica.led is not None and replica.led.leader_epoch == epoch and self.leader is not replica:
            self._resign(replica)
            self._spread()

    def _resign(self, replica: Replica) -> None:
        led, replica.led = replica.led, None
        if led is not None:
            led.is_leader = False
            self._on_told(replica)

    def went(self, replica: Replica, *, loses: int) -> None:
        """Its broker has ended; its log loses the last batches that were not on the disk."""
        replica.is_up, replica.is_paused, replica.led = False, False, None
        if loses:
            batches = replica.log.batches
            replica.log.cut(batches[-loses].base_offset if loses <= len(batches) else 0)
            if self.in_sync != {replica.number}:
                self.in_sync.discard(replica.number)
        # What it knows to be committed is written from time to time.
        replica.high_watermark = min(self._rng.randbelow(replica.high_watermark + 1), replica.log.log_end_offset)
        if self.leader is replica:
            self._lose_leader()
        self._loop.in_world(self._rng.uniform(0.0, NOTICE_S_MAX), self._notice, replica)

    def came(self, replica: Replica) -> None:
        """Its broker is there again."""
        replica.is_up = True
        replica.log.opened_end_offset = replica.log.log_end_offset
        is_alone = self.in_sync == {replica.number} and self._before is replica
        if self.leader is None and is_alone and self._rng.random() < 0.7:
            self._lead(replica)
        else:
            self._elect_if_none()
        self._spread()

    def _notice(self, replica: Replica) -> None:
        if not replica.is_up and self.in_sync != {replica.number}:
            self.in_sync.discard(replica.number)
        self._elect_if_none()
        self.advance()

    # --- copies -----------------------------------------------------------------------------------------------------

    def _spread(self) -> None:
        for each in self.replicas:
            if each is not self.leader:
                self._loop.in_world(self._rng.uniform(0.0, COPY_S_MAX), self._copy, each, self.epoch)
        self.advance()

    def _copy(self, follower: Replica, epoch: int) -> None:
        leader = self.leader
        if leader is None or leader is follower or epoch != self.epoch or leader.is_paused or not follower.is_copying:
            return
        follower.log.cut(common_end(follower.log.batches, leader.log.batches))
        for batch in leader.log.batches[len(follower.log.batches) :]:
            follower.log.take(batch)
        follower.log.log_start_offset = leader.log.log_start_offset
        self.in_sync.add(follower.number)
        self._known.add(follower.number)
        self.advance()
        follower.high_watermark = min(leader.high_watermark, follower.log.log_end_offset)

    def catch_up(self, replica: Replica) -> None:
        """It is as fast as others again."""
        replica.is_lagging = replica.is_paused = False
        self._spread()

    def drop(self, replica: Replica) -> None:
        """It copies nothing for so long that it is in sync no more."""
        if replica is not self.leader and self.leader is not None and not replica.is_copying:
            self.in_sync.discard(replica.number)
            self.advance()

    def advance(self) -> None:
        """The high watermark of the leader rises to what all in sync have."""
        leader = self.leader
        if leader is None or leader.is_paused:
            return
        others = [each for each in self.replicas if each.number in self.in_sync and each is not leader]
        if all(each.number in self._known for each in others):
            ends = [common_end(each.log.batches, leader.log.batches) for each in others]
            leader.high_watermark = max(leader.high_watermark, min((*ends, leader.log.log_end_offset)))
        if not self._committed or leader.high_watermark >= self._committed[-1].end_offset:
            self._committed = leader.log.up_to(leader.high_watermark)
            self._on_committed()
        if leader.led is not None:
            leader.led.changed()


def common_end(batches: list[LogBatch], others: list[LogBatch]) -> int:
    """Up to where two logs have the same batches."""
    end = 0
    for mine, theirs in zip(batches, others, strict=False):
        if mine is not theirs:
            break
        end = mine.end_offset
    return end
