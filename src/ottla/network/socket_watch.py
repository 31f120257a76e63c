"""What a socket is watched for, by the event loop or by a reactor."""

import asyncio
from typing import Protocol

from ottla.native import SocketPoll

READABLE, WRITABLE, RECEIVE = SocketPoll.READABLE, SocketPoll.WRITABLE, SocketPoll.RECEIVE
_WATCHED = READABLE | WRITABLE


class OnReadable(Protocol):
    """What receives for a connection. None of these raises."""

    def on_readable(self) -> None:
        """There is something to receive, or the peer is gone."""
        ...


class OnWritable(Protocol):
    """What sends for a connection."""

    def on_writable(self) -> None:
        """There is room to send, or the peer is gone."""
        ...


class SocketOwner(Protocol):
    """A connection, as far as its socket goes."""

    @property
    def receiver(self) -> OnReadable:
        """Told when there is something to read."""
        ...

    @property
    def sender(self) -> OnWritable:
        """Told when there is room to write."""
        ...


class SocketWatch(Protocol):
    """Two switches: to be called when there is something to read, and when there is room to write.

    To turn a switch to where it is already costs nothing; to turn it is a system call.
    """

    is_reading: bool
    is_writing: bool

    @property
    def receives(self) -> bool:
        """Whether what there is to read is received together with what others hold."""
        ...

    def read(self, on: bool) -> None:
        """Watch for something to read, or not."""
        ...

    def write(self, on: bool) -> None:
        """Watch for room to write, or not."""
        ...

    def receive(self, on: bool) -> None:
        """Have what there is to read received together with what others hold, where that can be. A system call."""
        ...

    def close(self) -> None:
        """Watch for nothing; comes before the socket is closed."""
        ...


class LoopSocketWatch:
    """The event loop's own watch; nothing is received for its owner."""

    __slots__ = ("_fd", "_loop", "_owner", "is_reading", "is_writing")

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, owner: SocketOwner) -> None:
        self._loop = loop
        self._fd = fd
        self._owner = owner
        self.is_reading = False
        self.is_writing = False

    def read(self, on: bool) -> None:
        """As `SocketWatch` says."""
        if on is self.is_reading:
            return
        self.is_reading = on
        if on:
            self._loop.add_reader(self._fd, self._owner.receiver.on_readable)
        else:
            self._loop.remove_reader(self._fd)

    def write(self, on: bool) -> None:
        """As `SocketWatch` says."""
        if on is self.is_writing:
            return
        self.is_writing = on
        if on:
            self._loop.add_writer(self._fd, self._owner.sender.on_writable)
        else:
            self._loop.remove_writer(self._fd)

    @property
    def receives(self) -> bool:
        """As `SocketWatch` says."""
        return False

    def receive(self, on: bool) -> None:
        """The owner receives, whenever it is called."""

    def close(self) -> None:
        """As `SocketWatch` says."""
        self.read(False)
        self.write(False)


class PolledSocketWatch:
    """A reactor's watch; `owner` is whom the reactor tells."""

    __slots__ = ("_events", "_fd", "_owner", "_poll", "is_reading", "is_writing")

    def __init__(self, poll: SocketPoll, fd: int, owner: SocketOwner, *, receives: bool) -> None:
        """`receives`: whether the reactor is to receive, to begin with."""
        self._poll = poll
        self._fd = fd
        self._owner = owner
        self._events = RECEIVE if receives else 0
        self.is_reading = False
        self.is_writing = False

    def read(self, on: bool) -> None:
        """As `SocketWatch` says."""
        if on is not self.is_reading:
            self.is_reading = on
            self._change(self._events ^ READABLE)

    def write(self, on: bool) -> None:
        """As `SocketWatch` says."""
        if on is not self.is_writing:
            self.is_writing = on
            self._change(self._events ^ WRITABLE)

    @property
    def receives(self) -> bool:
        """As `SocketWatch` says."""
        return self._events & RECEIVE != 0

    def receive(self, on: bool) -> None:
        """As `SocketWatch` says."""
        if on is not bool(self._events & RECEIVE):
            self._change(self._events ^ RECEIVE)

    def close(self) -> None:
        """As `SocketWatch` says."""
        if self.is_reading or self.is_writing:
            self.is_reading = self.is_writing = False
            self._change(0)

    def _change(self, events: int) -> None:
        before, self._events = self._events, events
        if (before | events) & _WATCHED:  # and never once it is closed: the number may be another socket's by then
            self._poll.watch(self._fd, self._owner, events if events & _WATCHED else 0)
