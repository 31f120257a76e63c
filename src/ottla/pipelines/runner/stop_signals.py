"""SIGINT and SIGTERM while pipelines run."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

TOLD_MAX: Final = 2
"""The number of signals that are passed on: the first stops in order, the second at once. The next one interrupts."""


class StopSignals:
    """Handles SIGINT and SIGTERM, as a context manager. Does nothing outside of the main thread.

    Until `tell` a signal raises KeyboardInterrupt: nothing runs yet that had to be ended in order.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._stop: Callable[[], None] | None = None
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        self._install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def tell(self, stop: Callable[[], None]) -> None:
        """Sets the function that signals call. It runs between two steps of whatever the main thread does."""
        self._stop = stop
        # PySpark takes SIGINT for itself when it makes a session.
        self._install()

    def _install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._handle)
            self._before.setdefault(number, before if before is not None else signal.SIG_DFL)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        if self._stop is None or len(self.received) > TOLD_MAX:
            raise KeyboardInterrupt
        self._stop()
