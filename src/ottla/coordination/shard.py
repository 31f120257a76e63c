"""A coordinator's state machine over one partition of an internal topic."""

from collections.abc import Hashable
from typing import Any, Protocol

from ottla.coordination.outcome import Outcome


class CoordinatorShard(Protocol):
    """The state of all groups (or transactions, or queues) that hash to one partition, and the decisions over it.

    A shard is pure: it gets the time, it returns outcomes, it never waits. `handle_*` methods read the state and return
    an `Outcome`; they may change what is in memory only (who waits, which timers run). `replay` alone changes what
    survives a restart: when a record is decided, and when it is read back from the log.

    A step that writes while the partition is short of replicas is thrown away with all of its outcome, or not taken at
    all if it is of those that `needs_log` names (`ShardRunner.submit`): one that has changed what is in memory cannot
    be thrown away. No step of `handle_timer` is taken then. If `handle_loaded` writes something, the shard is loaded
    again.

    What a record is, is the shard's business: `encode` turns it into the key and value for the log, `decode` back.
    """

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        """The key and the value of a record as they go to the log; None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> Any | None:
        """The record that was read, or None for a kind this shard does not know. Raises InvalidInputError.

        Called in a thread while the shard loads, so it must not look at the shard's state.
        """
        ...

    def replay(self, record: Any) -> None:
        """Apply a record: one that a step of this shard has just decided, or one that was read from the log.

        Before `handle_loaded` records come from the log, after it from steps.
        """
        ...

    def handle_loaded(self, now_ms: int) -> Outcome:
        """Everything was replayed: set the timers that the loaded state needs."""
        ...

    def handle_timer(self, now_ms: int, key: Hashable) -> Outcome:
        """A timer set by an earlier outcome is due."""
        ...

    def handle_unloaded(self) -> Outcome:
        """This broker no longer coordinates the shard: answer everybody who still waits. Records are not written."""
        ...


class TransactionalShard(CoordinatorShard, Protocol):
    """A shard in whose partition producers' transactions have a part. Of others no log has transactional batches."""

    def replay_transactional(self, record: Any, producer_id: int) -> None:
        """Keep a record until the transaction of its producer ends."""
        ...

    def replay_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """The transaction of a producer ended: apply its records, or forget them."""
        ...
