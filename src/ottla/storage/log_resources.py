"""What the logs of one data directory share."""

from collections.abc import Awaitable, Callable, Iterable
from typing import ParamSpec, Protocol, TypeVar

from msgspec import Struct

from ottla.runtime.disk import Disk
from ottla.runtime.rng import Rng
from ottla.storage.index_cache import IndexCache
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_writer import LogWriter
from ottla.storage.open_file import OpenFiles
from ottla.storage.producer_room import ProducerRoom

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs a function that may block in another thread: `Tasks.in_thread`."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


class LogResources(Struct, frozen=True):
    """Access to disk and threads, and the caches with their limits."""

    disk: Disk
    writer: LogWriter
    files: OpenFiles
    indexes: IndexCache
    in_thread: InThread
    producers: ProducerRoom
    rng: Rng

    def retire(self, segments: Iterable[LogSegment]) -> None:
        """The files of `segments` are about to be renamed, cut or removed: nobody opens them for these any more."""
        for segment in segments:
            segment.is_gone = True
            self.files.forget(segment)
            self.indexes.forget(segment)
