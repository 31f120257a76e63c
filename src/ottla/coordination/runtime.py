"""All shards of one coordinator on this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ottla.coordination.limits import DEFAULT_LIMITS, CoordinatorLimits
from ottla.coordination.outcome import Answer, Outcome, Send, Waiter, send_nothing
from ottla.coordination.shard import CoordinatorShard
from ottla.coordination.shard_state import ShardState
from ottla.model.error_code import ErrorCode
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment

if TYPE_CHECKING:
    from ottla.coordination.shard_runner import ShardRunner

S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorRuntime(Generic[S]):
    """Holds a `ShardRunner` for every partition of an internal topic that this broker leads.

    Belongs to the event loop; its methods never block. The answers of a shard leave in the order of its steps.
    """

    __slots__ = ("_environment", "_every_record", "_limits", "_new_shard", "_runners", "_send")

    def __init__(
        self,
        new_shard: Callable[[int], S],
        environment: Environment,
        limits: CoordinatorLimits = DEFAULT_LIMITS,
        *,
        send: Send = send_nothing,
        every_record: bool = False,
    ) -> None:
        """`new_shard` makes the empty shard of a partition, by its index. `send` takes the messages of outcomes, each
        once what it rests on is committed.

        With `every_record` a shard loads every record of its log: one is not over when a newer one has its key.
        """
        self._limits = limits
        self._send = send
        self._every_record = every_record
        self._new_shard = new_shard
        self._environment = environment
        self._runners: dict[int, ShardRunner] = {}

    def elected(self, partition: Partition) -> None:
        """This broker leads a partition of the internal topic: load its shard in the background.

        Until that is done its requests are refused with COORDINATOR_LOAD_IN_PROGRESS.
        """
        from ottla.coordination.shard_runner import ShardRunner  # nobody needs it who leads no such partition

        self.resigned(partition.index)
        index = partition.index
        runner = ShardRunner(
            partition,
            lambda: self._new_shard(index),
            self._environment,
            self._limits,
            send=self._send,
            every_record=self._every_record,
        )
        self._runners[index] = runner
        runner.start()

    def resigned(self, index: int) -> None:
        """This broker no longer leads the partition; whoever waits hears NOT_COORDINATOR."""
        runner = self._runners.pop(index, None)
        if runner is not None:
            runner.close()

    def submit(
        self,
        index: int,
        operation: Callable[[S, int, Waiter], Outcome],
        waiter: Waiter,
        answer_type: type[Answer],
        *,
        needs_log: bool = False,
    ) -> None:
        """Take a step of the shard of a partition: `operation(shard, now_ms, waiter)`.

        The waiter is called exactly once, with an `answer_type`. It is called at once, with NOT_COORDINATOR or
        COORDINATOR_LOAD_IN_PROGRESS, when the shard does not serve here, and with COORDINATOR_NOT_AVAILABLE when it has
        something to write and its partition is short of replicas. `needs_log`: as in `ShardRunner.submit`.
        """
        runner = self._runners.get(index)
        if runner is None:
            waiter(answer_type(error=ErrorCode.NOT_COORDINATOR))
        else:
            runner.submit(operation, waiter, answer_type, needs_log=needs_log)

    def takes_records(self, index: int) -> bool:
        """Whether the shard of a partition serves here, and could write now."""
        runner = self._runners.get(index)
        return runner is not None and runner.active_shard is not None and not runner.partition.is_short_of_replicas

    def step_all(self, step: Callable[[S, int], Outcome]) -> None:
        """Take a step of every shard that serves: `step(shard, now_ms)`; of those that cannot write now, later."""
        for runner in tuple(self._runners.values()):
            if runner.state is ShardState.ACTIVE:
                runner.step_once_it_can_write(step)

    def active_shard(self, index: int) -> S | None:
        """The shard of a partition, to look at; None while it does not serve here."""
        runner = self._runners.get(index)
        return None if runner is None else cast("S | None", runner.active_shard)

    def active_shards(self) -> Iterator[S]:
        """The shards that serve, to look at; what they say may not be committed yet."""
        for runner in self._runners.values():
            shard = runner.active_shard
            if shard is not None:
                yield cast("S", shard)

    def state(self, index: int) -> ShardState | None:
        """What the shard of a partition does; None when this broker does not lead it."""
        runner = self._runners.get(index)
        return None if runner is None else runner.state

    @property
    def is_loading(self) -> bool:
        """Whether any shard is still being loaded."""
        return any(runner.state is ShardState.LOADING for runner in self._runners.values())

    def close(self) -> None:
        """Tell everybody who waits; used when the broker stops."""
        for index in tuple(self._runners):
            self.resigned(index)
