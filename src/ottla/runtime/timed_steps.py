"""How long a coroutine keeps the event loop busy: the time of its steps, without what it waits for in between."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TimedSteps(Generic[T]):
    """Await it in place of the coroutine. `nanoseconds` is a clock that does not go back."""

    __slots__ = ("_coroutine", "_nanoseconds", "elapsed_ns")

    def __init__(self, coroutine: Coroutine[Any, Any, T], nanoseconds: Callable[[], int]) -> None:
        self._coroutine = coroutine
        self._nanoseconds = nanoseconds
        self.elapsed_ns = 0
        """What the steps so far took."""

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, nanoseconds = self._coroutine, self._nanoseconds
        error: BaseException | None = None
        try:
            while True:
                begun_ns = nanoseconds()
                try:
                    waits_for = coroutine.send(None) if error is None else coroutine.throw(error)
                except StopIteration as end:
                    result: T = end.value
                    return result
                finally:
                    self.elapsed_ns += nanoseconds() - begun_ns
                error = None
                try:
                    yield waits_for
                except GeneratorExit:
                    raise
                except BaseException as raised:
                    error = raised
        finally:
            coroutine.close()
