"""Frames out of bytes, however they are delimited. No socket is touched here.

    buffer |........|  frame  |  frame  |  fra           |
                    ^start                     ^end
             parsed       not parsed yet         window: where the socket's next bytes go

Bytes are received into a buffer and stay there; a frame is handed out as a piece of it. Three cases are copied:
- A partial frame of up to 16 KiB that is left when the socket is empty is set aside and the buffer given back, so a
  connection that waits holds no buffer, and one that waits in the middle of a request holds what arrived.
- A partial frame that does not fit the rest of its buffer moves to the beginning of a larger one.
- That one is never larger than 64 KiB, or twice what has arrived, or the last request of this connection (rounded up to
  a pooled size): an announcement alone costs nothing.

What a connection receives next is guessed from what it received last, in the manner of Netty's adaptive allocator. A
connection that sends large frames gets a buffer for one of them, and its reads end where a frame ends, so that nothing
of a large frame is copied.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from ottla.network.receive_buffer import KIB, LARGEST, SMALLEST, ReceiveBuffer, pooled_size
from ottla.network.request_memory import Reader, RequestMemory

_UNEARNED = 64 * KIB
"""The buffer any announced frame may have."""

_SEVERAL_BYTES = 128
"""What two frames take that are worth to be looked at together."""

MIXED_MAX = 256 * KIB
"""The largest buffer for a connection of small frames; a larger frame gets a buffer of its own."""


class FrameReader(ABC):
    """The receiving state of one connection. A subclass says where a frame ends.

    The order of calls: `window`, receive into it, `received`, `next_frame` until None, `trim`; or `adopt`, `next_frame`
    until None, `trim`.

    What a subclass works with: the bytes from `_start` to `_end` of `buffer` are not parsed; `_need` is how many bytes
    the first frame of them has with its delimiters, 0 while that is not known, and is what makes room for the rest of
    it. A position that is kept from one call to the next is counted from `_start`, for frames move. To hand a frame
    out is to move `_start` behind it, to forget `_need`, and to set `_large` to its size if that is above MIXED_MAX and
    to 0 otherwise.
    """

    __slots__ = (
        "_end",
        "_expected",
        "_is_holding",
        "_is_shared",
        "_large",
        "_last",
        "_limit",
        "_max_bytes",
        "_memory",
        "_need",
        "_owner",
        "_set_aside",
        "_start",
        "buffer",
    )

    def __init__(self, memory: RequestMemory, owner: Reader, frame_max_bytes: int) -> None:
        """`owner` is told when there is memory again; a frame above `frame_max_bytes` is an error."""
        self._memory = memory
        self._owner = owner
        self._max_bytes = frame_max_bytes
        self._limit = "socket.request.max.bytes"
        self.buffer: ReceiveBuffer | None = None
        """Where the frame that was taken last lies, until `trim`."""
        self._start = 0
        self._end = 0
        self._need = 0  # bytes of the first unparsed frame with its length; 0 when not known yet
        self._set_aside = b""
        self._last: ReceiveBuffer | None = None  # given up here, still held by others, with room at its end
        self._expected = SMALLEST
        self._large = 0  # size of the last frame when that was a large one
        self._is_holding = False
        self._is_shared = False  # `buffer` is that of many connections, for the turn

    def limit(self, frame_max_bytes: int, setting: str) -> None:
        """No frame may be larger from now on; the setting is named to who sends a larger one."""
        self._max_bytes = frame_max_bytes
        self._limit = setting

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of a frame is here, and what comes next is expected to be small: it may be received together
        with what others send, and adopted.
        """
        return self.buffer is None and not self._set_aside and self._expected <= SMALLEST and not self._large

    def only_frame(self, buffer: ReceiveBuffer, start: int, end: int) -> memoryview | None:
        """The frame, if these bytes are one and nothing else: then there is nothing to adopt. For a reader at rest.

        A framing that cannot say so at a glance does not, and adopts them.
        """
        return None

    def adopt(self, buffer: ReceiveBuffer, start: int, end: int) -> None:
        """The next bytes lie in a buffer that is shared, and lent until `trim`: SMALLEST of them at most.

        In place of `window` and `received`, for a reader that is at rest.
        """
        assert self.buffer is None
        assert not self._set_aside
        if self._last is not None:  # where it has room is known by the place that these bytes take
            self._last.on_return = None
            self._last = None
        self.buffer = buffer
        self._start, self._end = start, end
        self._is_shared = True
        if end - start >= SMALLEST:
            self._expected = 2 * SMALLEST

    def window(self) -> memoryview | None:
        """Where the next bytes go, never empty. None when there is no memory now; the owner is told when to go on."""
        buffer = self.buffer
        if buffer is None:
            buffer = self._continue() if self._set_aside else self._begin()
        elif self._start + self._need > buffer.capacity or self._end == buffer.capacity:
            buffer = self._move()
        if buffer is None:
            return None
        end = self._end
        if self._large and end < buffer.capacity:
            ahead = self._start + self._need if self._need else end + _UNEARNED
            return buffer.view[end:ahead]
        return buffer.view[end:] if end else buffer.view

    def received(self, count: int) -> None:
        """`count` bytes have been put into the window."""
        self._end += count
        assert self.buffer is not None
        if self._end == self.buffer.capacity:
            self._expected = min(self._expected * 2, MIXED_MAX)
        elif count <= self._expected // 8:
            self._expected = max(self._expected // 2, SMALLEST)

    @property
    def has_several(self) -> bool:
        """Whether there may be more than one whole frame that nobody has looked at."""
        return self._end - self._start >= _SEVERAL_BYTES and not self._need and self.buffer is not None

    @property
    def unparsed(self) -> tuple[int, int]:
        """Where in `buffer` what is not parsed begins and ends."""
        return self._start, self._end

    def taken(self, position: int) -> None:
        """Whole frames up to there, none of them large, have been handed out by somebody else."""
        self._start = position
        self._large = 0

    @abstractmethod
    def next_frame(self) -> memoryview | None:
        """The next whole frame, without what delimits it; None when there is none. It lies in `buffer`.

        Raises InvalidInputError when the bytes cannot be the beginning of a frame, or of one that is too large.
        """

    def trim(self, *, is_paused: bool = False) -> None:
        """No more frames are taken for now: let go of what need not be kept.

        `is_paused` says that there may be whole frames left, to be taken later without receiving.
        """
        buffer = self.buffer
        if buffer is None:
            return
        left = self._end - self._start
        if self._is_shared:
            self._is_shared = False
            self.buffer = None
            if left and is_paused:
                self._keep(buffer.view[self._start : self._end])
            elif left:
                self._set_aside = bytes(buffer.view[self._start : self._end])
            return
        if left > SMALLEST or (left and is_paused):
            self._memory.hold(self._owner, buffer.capacity)
            self._is_holding = True
            return
        if left:
            self._set_aside = bytes(buffer.view[self._start : self._end])
        elif buffer.reference_count > 1 and buffer.capacity - self._end >= buffer.capacity // 4:
            self._last = buffer
            buffer.on_return = self._forget_last
        self.buffer = None
        buffer.release()
        self._hold_nothing()

    def close(self) -> None:
        """Give everything back."""
        if self._last is not None:
            self._last.on_return = None
            self._last = None
        if self.buffer is not None:
            if not self._is_shared:
                self.buffer.release()
            self.buffer = None
        self._is_shared = False
        self._set_aside = b""
        self._start = self._end = self._need = 0
        self._memory.forget(self._owner)

    def _begin(self) -> ReceiveBuffer | None:
        """A buffer to receive a new frame into: the rest of the last one while that is in use anyway."""
        last = self._last
        if last is not None and not self._large:
            last.retain()
            last.on_return = None
            self._last = None
            self.buffer = last
            self._start = self._end
            return last
        size = self._expected
        if self._large:
            size = pooled_size(self._large) if self._large <= LARGEST else _UNEARNED
        return self._use(self._memory.take_to_begin(self._owner, size), 0)

    def _continue(self) -> ReceiveBuffer | None:
        """A buffer with what was set aside in it."""
        data = self._set_aside
        size = self._size_for(len(data))
        if not self._memory.permits(self._owner, size):
            return None
        if self._expected > size and self._memory.fits(self._expected):
            size = self._expected
        buffer = self._use(self._memory.pool.take(size), len(data))
        assert buffer is not None
        buffer.view[: len(data)] = data
        self._set_aside = b""
        return buffer

    def _move(self) -> ReceiveBuffer | None:
        """The buffer ends within the frame: move the frame to a larger one, or grow this one."""
        old = self.buffer
        assert old is not None
        received = self._end - self._start
        size = self._size_for(received)
        if size <= old.capacity - self._start and self._end < old.capacity:
            return old
        if not self._memory.permits(self._owner, size):
            return None
        if not self._start and old.grow(size):
            return old
        buffer = self._memory.pool.take(size)
        buffer.view[:received] = old.view[self._start : self._end]
        old.release()
        return self._use(buffer, received)

    def _use(self, buffer: ReceiveBuffer | None, end: int) -> ReceiveBuffer | None:
        if buffer is not None:
            self.buffer = buffer
            self._start, self._end = 0, end
            if self._last is not None:
                self._last.on_return = None
                self._last = None
        return buffer

    def _size_for(self, received: int) -> int:
        """How large a buffer the first frame has earned, of which `received` bytes are here."""
        if not self._need:  # a frame ends where its last byte says: make room for as much again
            return pooled_size(max(SMALLEST, 2 * received))
        return pooled_size(min(self._need, max(_UNEARNED, 2 * received, self._large)))

    def _keep(self, data: memoryview) -> None:
        """Have a buffer of its own for what was received with others and is not to be handed out yet."""
        buffer = self._memory.pool.take(pooled_size(len(data)))
        buffer.view[: len(data)] = data
        self._use(buffer, len(data))
        self._memory.hold(self._owner, buffer.capacity)
        self._is_holding = True

    def _forget_last(self) -> None:
        self._last = None

    def _hold_nothing(self) -> None:
        if self._is_holding:
            self._is_holding = False
            self._memory.hold(self._owner, 0)


Framing = Callable[[RequestMemory, Reader, int], FrameReader]
"""Makes the reader of a connection: `FrameReader`'s arguments."""
