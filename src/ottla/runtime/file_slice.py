"""A piece of a file on its way to a socket."""

from msgspec import Struct


class FileSlice(Struct, frozen=True, eq=False):
    """`size` bytes of the file open as `fd`, from `position`.

    The bytes must be there and stay as they are until the slice is sent. `owner` is held until then: whatever keeps
    `fd` open (a log segment, say), so that the file is not closed, and its number not given to another, meanwhile.
    """

    fd: int
    position: int
    size: int
    owner: object

    def __len__(self) -> int:
        return self.size
