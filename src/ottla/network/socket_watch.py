"""What the event loop watches a socket for."""

import asyncio
from collections.abc import Callable


class SocketWatch:
    """Two switches: to be called when there is something to read, and when there is room to write.

    To turn a switch to where it is already costs nothing; to turn it is a system call.
    """

    __slots__ = ("_fd", "_loop", "_on_readable", "_on_writable", "is_reading", "is_writing")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        on_readable: Callable[[], None],
        on_writable: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_readable = on_readable
        self._on_writable = on_writable
        self.is_reading = False
        self.is_writing = False

    def read(self, on: bool) -> None:
        """Watch for something to read, or not."""
        if on is self.is_reading:
            return
        self.is_reading = on
        if on:
            self._loop.add_reader(self._fd, self._on_readable)
        else:
            self._loop.remove_reader(self._fd)

    def write(self, on: bool) -> None:
        """Watch for room to write, or not."""
        if on is self.is_writing:
            return
        self.is_writing = on
        if on:
            self._loop.add_writer(self._fd, self._on_writable)
        else:
            self._loop.remove_writer(self._fd)

    def close(self) -> None:
        """Watch for nothing; comes before the socket is closed."""
        self.read(False)
        self.write(False)
