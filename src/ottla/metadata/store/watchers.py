"""Whom a store tells of what others did: the part of `MetadataStore` that is the same in every engine."""

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)


class StoreWatchers:
    """The watches of one process. Belongs to its event loop."""

    def __init__(self) -> None:
        self._on_growth: list[Callable[[int], object]] = []
        self._on_brokers: list[Callable[[], object]] = []
        self._on_controller: list[Callable[[], object]] = []
        self._on_session_end: list[Callable[[], object]] = []

    def watch(self, callback: Callable[[int], object]) -> None:
        """Call back with the new end offset after each growth of the log."""
        self._on_growth.append(callback)

    def watch_brokers(self, callback: Callable[[], object]) -> None:
        """Call back when sessions of others came or went."""
        self._on_brokers.append(callback)

    def watch_controller(self, callback: Callable[[], object]) -> None:
        """Call back after an election, and when the controller's session ended."""
        self._on_controller.append(callback)

    def watch_session(self, callback: Callable[[], object]) -> None:
        """Call back when this process's session has ended other than by `close`."""
        self._on_session_end.append(callback)

    def tell_growth(self, end_offset: int) -> None:
        """The log has grown."""
        _tell(self._on_growth, end_offset)

    def tell_brokers(self) -> None:
        """Sessions of others came or went."""
        _tell(self._on_brokers)

    def tell_controller(self) -> None:
        """There was an election, or the controller's session ended."""
        _tell(self._on_controller)

    def tell_session_end(self) -> None:
        """This process's session has ended."""
        _tell(self._on_session_end)


def _tell(callbacks: Iterable[Callable[..., object]], *args: object) -> None:
    for callback in callbacks:
        try:
            callback(*args)
        except Exception:
            # What happened in the store happened, whatever those who are told of it make of that.
            logger.exception("a watcher of the metadata store failed")
