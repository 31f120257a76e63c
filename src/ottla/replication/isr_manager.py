"""Keeps the ISRs of the partitions that this broker leads: who lags leaves, what was proposed is answered.

                 propose                         answered: adopted
no proposal ----------------> on its way -----------------------------> no proposal
                               |   ^  |
          nobody knows: again  +---+  +--> refused: withdrawn --------> no proposal, and none for a while
                                      +--> something newer is known: stays until the metadata says what
                                      +--> refused, and nobody knows of an earlier attempt: the ISR as it is, as a
                                           barrier, until the partition epoch moves
"""

import logging
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.image.image import PartitionImage
from ottla.model.error_code import ErrorCode
from ottla.replication.alter_partitions import AlterPartitions, IsrAnswer
from ottla.replication.in_sync_replicas import REPEATED, UNKNOWN_BROKER_EPOCH, WITHDRAWN, fate_of
from ottla.replication.leader import Leader
from ottla.replication.replicated_leader import ReplicatedLeader
from ottla.replication.silent_followers import Reaches, SilentFollowers

if TYPE_CHECKING:
    from ottla.replication.batch_decompressor import BatchDecompressor
    from ottla.replication.partition import Partition
    from ottla.runtime.clock import Clock
    from ottla.runtime.purgatory import Purgatory
    from ottla.runtime.tasks import Tasks
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask

logger: Final = logging.getLogger(__name__)

RETRY_MS: Final = 200
"""After an answer that said nothing, or a refusal: the controller may be another one by then, or know more."""

LINES_MAX: Final = 20
"""Proposals of one turn of the loop that the log tells one by one: a broker that comes or goes concerns thousands."""

CHECKS_PER_LAG: Final = 10
"""Lagging replicas are looked for so often in `replica.lag.time.max.ms`: they are in the ISR a tenth longer at most."""


def followers_key(partition: "Partition") -> Hashable:
    """What fetches of followers watch in the purgatory; those of consumers watch the partition's name."""
    return "followers", partition.topic_partition


class IsrManager:
    """Belongs to the event loop."""

    def __init__(
        self,
        broker_id: int,
        alter_partitions: AlterPartitions,
        *,
        clock: "Clock",
        timer: "Timer",
        opener: "BatchDecompressor",
        fetch_purgatory: "Purgatory",
        lag_max_ms: int,
        tasks: "Tasks",
        reaches: Reaches,
        silence_max_ms: int,
    ) -> None:
        """`lag_max_ms` is `replica.lag.time.max.ms`; `silence_max_ms` is `broker.session.timeout.ms`, after which a
        follower that `reaches` does not find leaves the ISR.
        """
        self.broker_id = broker_id
        self.clock = clock
        self.opener = opener
        self.lag_max_ms = lag_max_ms
        self.live_brokers: dict[int, int] = {}
        """Broker epochs of the brokers that are neither fenced nor shutting down."""
        self._silent = SilentFollowers(broker_id, self.live_brokers, reaches, tasks, silence_max_ms=silence_max_ms)
        self._check_ms = max(min(lag_max_ms // CHECKS_PER_LAG, self._silent.silent_ms // 2), 1)
        self._alter_partitions = alter_partitions
        self._timer = timer
        self._fetch_purgatory = fetch_purgatory
        self._leaders: dict[ReplicatedLeader, None] = {}
        self._check: TimerTask | None = None
        self._untold: list[str] = []

    def __len__(self) -> int:
        """How many partitions with other replicas this broker leads."""
        return len(self._leaders)

    def start(self) -> None:
        """Look for lagging replicas from now on."""
        self._check = self._timer.schedule(self._check_ms, self._look)

    def close(self) -> None:
        """Propose nothing any more."""
        if self._check is not None:
            self._check.cancel()
            self._check = None
        self._leaders.clear()

    def lead(self, partition: "Partition", image: PartitionImage, before: Leader | None) -> ReplicatedLeader:
        """The role of a partition that this broker leads from now on, as it did `before` if that is given."""
        leader = ReplicatedLeader(partition, image, self)
        if before is not None:
            leader.take_over(before)
            if image.leader_epoch == partition.leader_epoch:  # alone so far: the epoch is older than what it began with
                leader.in_sync.epoch_start_offset = partition.high_watermark
        self._leaders[leader] = None
        return leader

    def brokers_changed(self, live_brokers: Mapping[int, int]) -> None:
        """Others are alive now, given with their broker epochs: who is gone holds nothing back any more."""
        if live_brokers == self.live_brokers:
            return
        self.live_brokers.clear()
        self.live_brokers.update(live_brokers)
        for leader in self._current():
            leader.advance()
            leader.maybe_expand_isr()

    def tell_followers(self, partition: "Partition") -> None:
        """There is more to fetch from a partition, or it is not to be fetched from here any more."""
        self._fetch_purgatory.check_and_complete(followers_key(partition))

    def propose(self, leader: ReplicatedLeader, isr: tuple[int, ...], reason: str) -> None:
        """Ask the controller for `isr`; the leader has no other proposal on its way."""
        in_sync, partition = leader.in_sync, leader.partition
        self._tell(f"{leader.name}: ISR change from {_listed(in_sync.committed)} to {_listed(isr)} proposed: {reason}")
        members = in_sync.propose(isr)
        proposal = PartitionProposal(
            partition.topic_id, partition.index, partition.leader_epoch, in_sync.partition_epoch, tuple(members)
        )
        self._send(leader, proposal, 0)

    def _tell(self, line: str) -> None:
        """Say what is proposed and why, soon: what is proposed at the same time is told together."""
        if not self._untold:
            self._timer.schedule(0, self._tell_all)
        self._untold.append(line)

    def _tell_all(self) -> None:
        lines, self._untold = self._untold, []
        for line in lines[:LINES_MAX]:
            logger.info("%s", line)
        if len(lines) > LINES_MAX:
            logger.info("and %d more partitions that this broker leads", len(lines) - LINES_MAX)

    def _send(self, leader: ReplicatedLeader, proposal: PartitionProposal, unanswered: int) -> None:
        self._alter_partitions.propose(proposal, lambda answer: self._answered(leader, proposal, unanswered, answer))

    def _answered(
        self, leader: ReplicatedLeader, proposal: PartitionProposal, unanswered: int, answer: IsrAnswer
    ) -> None:
        if not _is_pending(leader, proposal):
            return
        if answer.error is ErrorCode.NONE:
            self._committed(leader, answer)
            return
        fate = fate_of(answer.error, attempts_unanswered=unanswered)
        if fate is REPEATED:
            if fate_of(answer.error, attempts_unanswered=0) is WITHDRAWN:
                # The same would be refused for ever. The ISR as it is makes what may still be on its way stale.
                proposal = _barrier(leader, proposal)
            else:
                unanswered += 1
            self._timer.schedule(RETRY_MS, lambda: self._send_again(leader, proposal, unanswered))
        elif fate is WITHDRAWN:
            logger.info("%s: the controller refused the ISR change: %s", leader.name, answer.error.name)
            leader.next_proposal_ms = self.clock.monotonic_ms() + RETRY_MS
            leader.in_sync.withdraw()
            self._timer.schedule(RETRY_MS, leader.maybe_expand_isr)
            leader.advance()

    def _send_again(self, leader: ReplicatedLeader, proposal: PartitionProposal, unanswered: int) -> None:
        if _is_pending(leader, proposal):
            self._send(leader, proposal, unanswered)

    def _committed(self, leader: ReplicatedLeader, answer: IsrAnswer) -> None:
        partition = leader.partition
        if answer.leader_epoch != partition.leader_epoch:
            return  # there is another leader, or this one again: the metadata is on its way
        if leader.in_sync.adopt(leader.in_sync.replicas, answer.isr, answer.partition_epoch, self.clock.monotonic_ms()):
            logger.debug("%s: ISR is %s", leader.name, _listed(answer.isr))
            partition.isr_size = len(answer.isr)
            leader.advance()
            leader.maybe_expand_isr()

    def _look(self) -> None:
        self._check = self._timer.schedule(self._check_ms, self._look)
        now_ms, silent = self.clock.monotonic_ms(), set[int]()
        for leader in self._current():
            leader.shrink(now_ms)
            leader.advance()
            leader.maybe_expand_isr()
            silent.update(leader.silent(now_ms, self._silent.silent_ms))
        self._silent.ask(frozenset(silent), self._cut_off)

    def _cut_off(self, broker_ids: frozenset[int]) -> None:
        now_ms = self.clock.monotonic_ms()
        for leader in self._current():
            leader.drop(broker_ids, now_ms, self._silent.silent_ms)

    def _current(self) -> list[ReplicatedLeader]:
        """The leaders that still are; the others are forgotten."""
        over = [leader for leader in self._leaders if leader.is_over]
        for leader in over:
            del self._leaders[leader]
        return list(self._leaders)


def _barrier(leader: ReplicatedLeader, proposal: PartitionProposal) -> PartitionProposal:
    """The ISR that the partition has, whichever incarnations its members are of, in place of a proposal.

    Taken, it ends the proposal by a new partition epoch; when it comes too late, an earlier attempt was taken.
    """
    isr = tuple((broker_id, UNKNOWN_BROKER_EPOCH) for broker_id in leader.in_sync.committed)
    return replace(proposal, isr=isr)


def _is_pending(leader: ReplicatedLeader, proposal: PartitionProposal) -> bool:
    """Whether a proposal, or the barrier in place of it, is still the one that is on its way."""
    in_sync = leader.in_sync
    members = tuple(broker_id for broker_id, _ in proposal.isr)
    return (
        not leader.is_over
        and leader.partition.leader_epoch == proposal.leader_epoch
        and in_sync.partition_epoch == proposal.partition_epoch
        and in_sync.proposed is not None
        and members in (in_sync.proposed, in_sync.committed)
    )


def _listed(broker_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, broker_ids))
