"""A piece of a file on its way to a socket."""

from typing import final

from msgspec import Struct


@final
class FileSlice(Struct, frozen=True, eq=False):
    """`size` bytes of the file open as `fd`, from `position`.

    The bytes must be there and stay as they are until the slice is sent. `owner` is held until then: whatever keeps
    `fd` open (a log segment, say), so that the file is not closed, and its number not given to another, meanwhile. It
    is the same object for all slices of a file that is read on, and can be referred to weakly.

    What may be one or bytes is told apart by `type(part) is FileSlice`, at a third of the price of `isinstance`, which
    asks the class's class.
    """

    fd: int
    position: int
    size: int
    owner: object

    def __len__(self) -> int:
        return self.size
