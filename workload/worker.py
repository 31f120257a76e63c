"""A thread that works until it is stopped, and whose crash is somebody's business."""

from abc import ABC, abstractmethod
from threading import Event, Thread

PATIENCE_S = 60


class Worker(ABC):
    """Runs `run` in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stopping = Event()
        self._crash: BaseException | None = None
        self._thread = Thread(target=self._run_and_keep_crash, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing new and wait for the end. Raises what the thread died of."""
        self._stopping.set()
        self._thread.join(2 * PATIENCE_S)
        self.require_sound()
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} does not come to its end")

    def give_up(self) -> None:
        """Begin nothing new; nobody waits for the end."""
        self._stopping.set()

    def require_sound(self) -> None:
        """Raise what the thread died of, if it did."""
        if self._crash is not None:
            raise self._crash

    @property
    def is_stopping(self) -> bool:
        """Whether to begin nothing new."""
        return self._stopping.is_set()

    def _run_and_keep_crash(self) -> None:
        try:
            self.run()
        except BaseException as crash:
            self._crash = crash

    @abstractmethod
    def run(self) -> None:
        """Work until `is_stopping`."""
