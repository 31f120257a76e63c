"""Reading ahead of those who catch up from the disk: it goes on reading while their sockets take what it has given.

    position of a reader     sent          in the page cache         asked for
         |---------------------|-----------------|---------------------|
                               ^ not in the page cache: wait for it, and ask for a window behind it
                                                 ^ half of the window is left: ask for the next half

Whoever reads what memory holds never comes here. What is asked for is page cache, which the system takes back when it
wants; a reader has a window ahead of it at most, so much more is read than anybody took.
"""

from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from ottla.runtime.file_slice import FileSlice

WINDOW_BYTES: Final = 8 << 20
"""What a reader has ahead of it: some milliseconds of a fast disk."""

SEQUENTIAL_BYTES: Final = 128 << 10
"""Who asks for less at a time is not catching up."""

Ask = Callable[[FileSlice], None]
"""Has the system read these bytes, elsewhere."""


class ReadAhead:
    """Where the windows end, by the file, which is the owner of its slices. Belongs to the event loop."""

    __slots__ = ("_ask", "_ends")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._ends: WeakKeyDictionary[object, int] = WeakKeyDictionary()

    def missed(self, piece: FileSlice) -> bool:
        """A reader waits for these bytes, which somebody else reads now. Whether a window begins behind them: then the
        system is to read nothing of this file by itself any more.
        """
        if piece.size < SEQUENTIAL_BYTES or self._goes_on(piece):
            return False
        begin = piece.position + piece.size
        self._ends[piece.owner] = begin + WINDOW_BYTES
        self._ask(FileSlice(piece.fd, begin, WINDOW_BYTES, piece.owner))
        return True

    def found(self, piece: FileSlice) -> None:
        """A reader found these bytes in the page cache."""
        if self._ends:
            self._goes_on(piece)

    def _goes_on(self, piece: FileSlice) -> bool:
        """Whether the piece lies in a window, of which the next half is asked for when it is time."""
        end = self._ends.get(piece.owner, -1)
        left = end - (piece.position + piece.size)
        if not 0 <= left <= WINDOW_BYTES:
            return False
        if left < WINDOW_BYTES // 2:
            self._ends[piece.owner] = end + WINDOW_BYTES // 2
            self._ask(FileSlice(piece.fd, end, WINDOW_BYTES // 2, piece.owner))
        return True
