"""Requests that wait for something to happen: delayed produce, delayed fetch, delayed join.

    key                         operations that watch it
    ("orders", 0)  ------->     fetch of client a, fetch of client b
    ("orders", 1)  ------->     fetch of client a

An operation watches each key whose change may complete it. When a key changes, its watchers are told which; when the
time is up, the operation completes with what there is. It completes once, whichever comes first, and is then gone from
every key at once, so a purgatory holds nothing but operations that still wait and an idle one costs nothing.

Source: the purgatory of Apache Kafka's broker. One thread owns ours, so there are no locks, no second attempt after the
watch, and no lists of finished operations to purge.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable

from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)


class DelayedOperation(ABC):
    """Something that completes when its condition holds or its time is up.

    A subclass says when (`try_complete`, and `on_change` if it can tell more cheaply) and what then (`on_complete`).
    """

    __slots__ = ("_keys", "_purgatory", "_timeout", "is_completed")

    def __init__(self) -> None:
        self.is_completed = False
        self._keys: tuple[Hashable, ...] = ()
        self._purgatory: Purgatory | None = None
        self._timeout: TimerTask | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Look whether the condition holds, and if so return `self.force_complete()`; otherwise False."""

    def on_change(self, key: Hashable) -> bool:
        """`key`, which it watches, has changed: as `try_complete`, for those who need to look only at what changed."""
        del key
        return self.try_complete()

    @abstractmethod
    def on_complete(self) -> None:
        """Answer. Called exactly once, whatever completed the operation."""

    def on_expiration(self) -> None:  # noqa: B027 (most operations have nothing to add)
        """The time was up before the condition held; called after `on_complete`."""

    def force_complete(self) -> bool:
        """Complete now. True for the one call that completed the operation."""
        if self.is_completed:
            return False
        self.is_completed = True
        if self._purgatory is not None:
            self._purgatory._forget(self)
        self.on_complete()
        return True

    def cancel(self) -> None:
        """Nobody wants the outcome any more: be gone without completing."""
        if not self.is_completed:
            self.is_completed = True
            if self._purgatory is not None:
                self._purgatory._forget(self)

    def _expire(self) -> None:
        if self.force_complete():
            self.on_expiration()


class Purgatory:
    """Holds delayed operations until one of their keys or the timer completes them. Belongs to one event loop."""

    __slots__ = ("_delayed", "_timer", "_watchers", "_watches_max", "watched_count")

    def __init__(self, timer: Timer, watches_max: int | None = None) -> None:
        """`watches_max` limits the (key, operation) pairs: an operation there is no room for expires at once."""
        self._timer = timer
        self._watches_max = watches_max
        self.watched_count = 0
        """How many (key, operation) pairs are held: an operation counts once for each key it watches."""
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._delayed: dict[DelayedOperation, None] = {}

    @property
    def delayed_count(self) -> int:
        """How many operations wait."""
        return len(self._delayed)

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> bool:
        """Complete `operation` if it can be, otherwise have it watch `keys` for at most `timeout_ms`.

        True when it is completed on return. It expires at once when the time-out is 0 or less or there is no room. Each
        operation is given once.
        """
        return operation.try_complete() or self.watch(operation, keys, timeout_ms)

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> bool:
        """`try_complete_else_watch` of an operation that was seen not to complete now."""
        watched = tuple(dict.fromkeys(keys))
        if timeout_ms <= 0 or not self._has_room(len(watched)):
            operation._expire()
            return True
        operation._purgatory = self
        operation._keys = watched
        self.watched_count += len(watched)
        for key in operation._keys:
            self._watchers.setdefault(key, {})[operation] = None
        operation._timeout = self._timer.schedule(timeout_ms, operation._expire)
        self._delayed[operation] = None
        return False

    def is_watched(self, key: Hashable) -> bool:
        """Whether an operation watches `key`."""
        return key in self._watchers

    def check_and_complete(self, key: Hashable) -> int:
        """Tell the operations that watch `key` that it changed, the longest waiting first. How many were completed.

        One that raises is logged and waits on for its time-out: whoever changed the key is not to blame.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        for operation in tuple(watchers):
            try:
                if not operation.is_completed and operation.on_change(key):
                    completed += 1
            except Exception:
                logger.exception("a delayed operation failed when %r changed", key)
        return completed

    def close(self) -> None:
        """Complete every operation as if its time were up."""
        for operation in tuple(self._delayed):
            try:
                operation._expire()
            except Exception:
                logger.exception("a delayed operation failed at shutdown")

    def _has_room(self, count: int) -> bool:
        return self._watches_max is None or self.watched_count + count <= self._watches_max

    def _forget(self, operation: DelayedOperation) -> None:
        self.watched_count -= len(operation._keys)
        for key in operation._keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        operation._keys = ()
        operation._purgatory = None
        del self._delayed[operation]
        if operation._timeout is not None:
            operation._timeout.cancel()
            operation._timeout = None
