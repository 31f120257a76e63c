"""One shard at work: its life, its log, its timers."""

import logging
from collections.abc import Callable, Hashable
from typing import Any, Final, cast

from ottla.coordination.limits import DEFAULT_LIMITS, CoordinatorLimits
from ottla.coordination.outcome import (
    Answer,
    OnceWaiter,
    Outcome,
    Send,
    TransactionalRecord,
    TransactionEnd,
    Waiter,
    deliver,
    send_nothing,
)
from ottla.coordination.shard import CoordinatorShard, TransactionalShard
from ottla.coordination.shard_loader import load_shard
from ottla.coordination.shard_log import LogEntry, ShardLog, TransactionalEntry
from ottla.coordination.shard_state import REFUSALS, TRANSITIONS, ShardState
from ottla.coordination.shard_timers import ShardTimers
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment
from ottla.runtime.log_throttle import LogThrottle

logger = logging.getLogger(__name__)

Step = Callable[[Any, int], Outcome]
"""Given the shard and the time in milliseconds, what it decides."""

Operation = Callable[[Any, int, Waiter], Outcome]
"""A step on behalf of a client, with whoever waits for the answer."""


SHORT_RETRY_MS: Final = 500
"""A timer that is due while the log takes no records is due again after this time, as in Apache Kafka."""

LOAD_RETRY_MS: Final = 1_000
"""How long after a load that the disk failed the next one begins."""


def may_pass(error: Exception) -> bool:
    """Whether a log can be read later that could not be read now: its disk fails, or this broker is fenced."""
    return isinstance(error, OSError) or (
        isinstance(error, ApiError) and error.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    )


class ShardRunner:
    """Runs one shard over one partition that this broker leads.

    Records are applied when they are decided, before they are committed, and answers wait for the commit. So whether
    the partition is short of replicas is asked before they are applied: a step that would write is thrown away then,
    who asked is told COORDINATOR_NOT_AVAILABLE, timers are due later, and everything else goes on. When an append fails
    for another reason, what is in memory is no longer what the log says: everybody who waits is told NOT_COORDINATOR,
    the memory is thrown away and the shard loads again from the log, if this broker still leads it. (Apache Kafka keeps
    snapshots to go back to; an append fails so rarely, after these checks, that to read the log again is cheaper to
    keep right.) A step that raises is our own mistake and ends the same way.

    Belongs to the event loop; never blocks.
    """

    __slots__ = (
        "_environment",
        "_every_record",
        "_limits",
        "_log",
        "_new_shard",
        "_send",
        "_shard",
        "_throttled",
        "_timers",
        "partition",
        "state",
    )

    def __init__(
        self,
        partition: Partition,
        new_shard: Callable[[], CoordinatorShard],
        environment: Environment,
        limits: CoordinatorLimits = DEFAULT_LIMITS,
        *,
        send: Send = send_nothing,
        every_record: bool = False,
    ) -> None:
        self.partition = partition
        self._limits = limits
        self._send = send
        self._every_record = every_record
        self.state = ShardState.LOADING
        self._new_shard = new_shard
        self._environment = environment
        self._timers = ShardTimers(environment.timer, self._on_timer)
        self._throttled = LogThrottle(logger, environment.clock, lines_max=2, window_ms=60_000)
        self._shard = new_shard()
        self._log = self._open_log()

    @property
    def active_shard(self) -> CoordinatorShard | None:
        """The shard, to look at; None while it does not serve."""
        return self._shard if self.state is ShardState.ACTIVE else None

    def start(self) -> None:
        """Load the shard in the background; it serves when that is done."""
        self._environment.tasks.spawn(self._load(self._shard), f"load {self.partition.topic_partition}")

    def submit(
        self, operation: Operation, waiter: Waiter, answer_type: type[Answer], *, needs_log: bool = False
    ) -> None:
        """Take a step on behalf of a client; the waiter is answered exactly once, at once when it is refused.

        `needs_log`: the step may change what is in memory and write what came of it, so that it cannot be thrown away.
        It is refused at once while the partition is short of replicas.
        """
        if self.state is not ShardState.ACTIVE:
            waiter(answer_type(error=REFUSALS[self.state]))
            return
        if needs_log and self.partition.is_short_of_replicas:
            waiter(answer_type(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        once = OnceWaiter(waiter)
        if not self.step(lambda shard, now_ms: operation(shard, now_ms, once), may_throw_away=True):
            once(answer_type(error=ErrorCode.UNKNOWN_SERVER_ERROR))

    def step(self, step: Step, *, may_throw_away: bool = False) -> bool:
        """Take a step of the shard, which must be active, and carry out what it decides. False when it crashed.

        With `may_throw_away` nothing comes of it if it would write and the partition is short of replicas.
        """
        assert self.state is ShardState.ACTIVE, f"a step of {self.partition.topic_partition} while {self.state}"
        try:
            outcome = step(self._shard, self._environment.clock.now_ms())
            if may_throw_away and outcome.records and self.partition.is_short_of_replicas:
                self._throw_away(outcome)
                return True
            encoded = [self._encode(record) for record in outcome.records]
            for record in outcome.records:
                self._replay(record)
        except Exception:
            logger.exception(
                "an operation of coordinator partition %s failed; reloading it", self.partition.topic_partition
            )
            self._reload()
            return False
        self._timers.apply(outcome.timers)
        answers = outcome.answers
        if outcome.messages:
            answers = [*answers, *((self._sender_of(message), Answer()) for message in outcome.messages)]
        self._log.write(encoded, answers)
        return True

    def step_once_it_can_write(self, step: Step) -> None:
        """Take a step of the shard that nobody waits for, later while the partition is short of replicas.

        What is loaded meanwhile is to know of it by itself.
        """
        if not self.partition.is_short_of_replicas:
            self.step(step)
            return
        shard = self._shard

        def again() -> None:
            if self.active_shard is shard:
                self.step_once_it_can_write(step)

        self._environment.timer.schedule(SHORT_RETRY_MS, again)

    def close(self) -> None:
        """This broker no longer leads the partition: tell everybody who waits, forget everything."""
        if self.state is not ShardState.CLOSED:
            self._unload(ShardState.CLOSED)

    def _throw_away(self, outcome: Outcome) -> None:
        """Nothing of what was decided holds. Whoever was heard of was heard of: timers that run may move."""
        self._timers.move(outcome.timers)
        deliver(
            [(waiter, type(answer)(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)) for waiter, answer in outcome.answers]
        )

    def _encode(self, record: Any) -> LogEntry:
        if isinstance(record, TransactionalRecord):
            return TransactionalEntry(*self._shard.encode(record.record), record.producer, record.guard)
        return record if isinstance(record, TransactionEnd) else self._shard.encode(record)

    def _replay(self, record: Any) -> None:
        if isinstance(record, TransactionalRecord):
            cast("TransactionalShard", self._shard).replay_transactional(record.record, record.producer.producer_id)
        elif isinstance(record, TransactionEnd):
            marker = record.marker
            cast("TransactionalShard", self._shard).replay_transaction_end(
                marker.producer_id, committed=marker.committed
            )
        else:
            self._shard.replay(record)

    def _sender_of(self, message: Any) -> Waiter:
        def on_committed(answer: Answer) -> None:
            if answer.error is ErrorCode.NONE:
                self._send(message)

        return on_committed

    async def _load(self, shard: CoordinatorShard) -> None:
        started_ms = self._environment.clock.monotonic_ms()
        try:
            report = await load_shard(
                shard, self.partition, self._environment, self._limits, every_record=self._every_record
            )
        except Exception as error:
            if self._is_loading(shard):
                await self._after_failed_load(shard, error)
            return
        if not self._is_loading(shard):
            return
        self._move_to(ShardState.ACTIVE)
        if report.record_count:
            logger.info(
                "loaded %s: %d records up to offset %d in %d ms, %d of unknown types",
                self.partition.topic_partition,
                report.record_count,
                report.end_offset,
                self._environment.clock.monotonic_ms() - started_ms,
                report.unknown_count,
            )
        self.step(lambda loaded, now_ms: loaded.handle_loaded(now_ms))

    async def _after_failed_load(self, shard: CoordinatorShard, error: Exception) -> None:
        """What cannot be read now may be read later; a log that is broken is so for good."""
        name = self.partition.topic_partition
        if not may_pass(error):
            logger.error("cannot load %s; its coordinator is unavailable", name, exc_info=error)
            self._move_to(ShardState.FAILED)
            return
        self._throttled.warning("cannot read %s, clients have to retry: %s", name, error)
        await self._environment.timer.sleep(LOAD_RETRY_MS)
        if self._is_loading(shard):
            self._shard = self._new_shard()
            self.start()

    def _is_loading(self, shard: CoordinatorShard) -> bool:
        return self.state is ShardState.LOADING and shard is self._shard

    def _on_timer(self, key: Hashable) -> None:
        if self.partition.is_short_of_replicas:
            self._timers.apply({key: SHORT_RETRY_MS})
            return
        self.step(lambda shard, now_ms: shard.handle_timer(now_ms, key))

    def _on_append_failure(self, ack: AppendAck) -> None:
        if not self.partition.is_leader:
            self.close()
            return
        self._throttled.warning(
            "an append to %s failed (%s: %s); reloading it",
            self.partition.topic_partition,
            ack.error.name,
            ack.message,
        )
        self._reload()

    def _reload(self) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        if not self.partition.is_leader:
            self.close()
            return
        self._unload(ShardState.LOADING)
        self._shard = self._new_shard()
        self._log = self._open_log()
        self.start()

    def _unload(self, state: ShardState) -> None:
        was_active = self.state is ShardState.ACTIVE
        self._move_to(state)
        self._timers.close()
        self._log.close(ErrorCode.NOT_COORDINATOR)
        if was_active:
            try:
                outcome = self._shard.handle_unloaded()
            except Exception:
                # What follows a lost leadership must happen all the same; those who wait find out by their time-outs.
                logger.exception("could not answer the waiting requests of %s", self.partition.topic_partition)
            else:
                deliver(outcome.answers)

    def _open_log(self) -> ShardLog:
        return ShardLog(self.partition, self._environment, self._limits, self._on_append_failure)

    def _move_to(self, state: ShardState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.partition.topic_partition}: {self.state} to {state}"
        self.state = state
