"""What the log asks of the thread that writes it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.native import LogIo as NativeLogIo

if TYPE_CHECKING:
    from ottla.storage.log_io_trace import Reading

WRITTEN = NativeLogIo.WRITTEN
SYNC = NativeLogIo.SYNC
CLOSED = NativeLogIo.CLOSED


class Completion(Protocol):
    """A token that wants to know when its operation is done."""

    def completed(self, stage: int, errno: int) -> None:
        """The operation reached `stage`, or failed with `errno` (0: it did not). Called from the event loop."""
        ...


class LogIo(Protocol):
    """The face of `ottla.native.LogIo`, which describes each method; simulation brings its own."""

    def fileno(self) -> int: ...

    def create(self, path: str, preallocate_bytes: int = 0) -> int: ...

    def append(
        self, handle: int, position: int, data: bytes | bytearray | memoryview, token: object | None, flags: int
    ) -> None: ...

    def sync(self, handle: int, token: object | None = None) -> None: ...

    def close_handle(self, handle: int, token: object | None = None) -> None: ...

    def resume(self, token: object | None = None) -> None: ...

    def submit(self, inline_bytes_max: int = 0) -> bool: ...

    def submit_here(self, bytes_max: int) -> bool: ...

    def write_here(self, handle: int, position: int, data: bytes, bytes_max: int) -> bool: ...

    def completions(self) -> list[tuple[object | None, int, int]]: ...

    def close(self) -> None: ...

    def trace(self) -> "Sequence[Reading]": ...

    @property
    def failure(self) -> tuple[str, object, int] | None: ...

    @property
    def queued_bytes(self) -> int: ...
