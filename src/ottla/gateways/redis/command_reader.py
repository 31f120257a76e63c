"""Commands out of bytes: arrays of bulk strings, or lines (redis.io, Redis serialization protocol specification).

    *2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n        XLEN s\\r\\n

What has arrived of a command is kept, argument by argument; what is announced costs nothing until it is here.
"""

from typing import Final

from ottla.gateways.redis.error import ProtocolError
from ottla.gateways.redis.inline import split_line
from ottla.gateways.redis.numbers import find_integer
from ottla.native import StreamAdds, cut_commands

LINE_BYTES_MAX: Final = 64 * 1024
ARGUMENTS_MAX: Final = (1 << 31) - 1
ARGUMENT_BYTES: Final = 48
"""What an argument takes in memory beside its own bytes, about: it counts as that long, and so does an empty one."""
LOGIN_ARGUMENTS_MAX: Final = 10
LOGIN_BULK_BYTES_MAX: Final = 16 * 1024

PIECE_BYTES_MAX: Final = 256 * 1024
"""What arrives together is read by the kernel up to this size."""

Command = list[bytes] | StreamAdds
"""The arguments of one command, or several that add entries to one stream."""

OVERHEAD_BYTES: Final = 48
"""What an argument takes beside its bytes."""

_ARRAY: Final = 42
_BULK: Final = 36
_DIGITS_MAX: Final = 10


class CommandReader:
    """The commands of one connection. Sans I/O."""

    __slots__ = (
        "_arguments",
        "_bulk_bytes_max",
        "_command_bytes",
        "_command_bytes_max",
        "_data",
        "_error",
        "_left",
        "_position",
        "_size",
        "is_limited",
    )

    def __init__(self, *, bulk_bytes_max: int, command_bytes_max: int) -> None:
        """The largest argument, and all arguments of a command together."""
        self._bulk_bytes_max = bulk_bytes_max
        self._command_bytes_max = command_bytes_max
        self._data: bytes | bytearray = b""
        self._position = 0
        self._arguments: list[bytes] = []
        self._left = 0  # arguments that the command still lacks
        self._size = -1  # of the next argument, -1 while that is not known
        self._command_bytes = 0
        self._error: ProtocolError | None = None
        self.is_limited = False
        """Whether the client may send no more than it takes to log in, and commands are read one at a time."""

    def feed(self, data: bytes | memoryview) -> None:
        """Bytes have arrived."""
        rest = self._data[self._position :] if self._position else self._data
        self._position = 0
        if not rest:
            self._data = bytes(data)
        elif isinstance(rest, bytearray):
            rest += data
            self._data = rest
        else:
            self._data = bytearray(rest)
            self._data += data

    @property
    def has_more(self) -> bool:
        """Whether something is left that was not read as a command; or what comes next is none."""
        return self._position < len(self._data) or self._error is not None

    @property
    def held_bytes(self) -> int:
        """What is kept of a command that is not whole yet; not what is announced of it."""
        held = len(self._data) - self._position
        if self._left:
            held += self._command_bytes - max(self._size, 0) + OVERHEAD_BYTES * len(self._arguments)
        return held

    def clear(self) -> None:
        """Nothing more is read: keep nothing."""
        self._data, self._position, self._left, self._arguments = b"", 0, 0, []

    def commands(self) -> list[Command]:
        """The commands that are whole by now, none of them empty.

        Raises ProtocolError when what comes next is none, which is for ever.
        """
        found: list[Command] = []
        if self._left and self._size >= 0 and len(self._data) - self._position < self._size + 2:
            return found
        data = bytes(self._data)
        self._data = data
        if self._error is None:
            try:
                if not self.is_limited:
                    self._cut(data, found)
                while self._continue(data, found) if self._left else self._begin(data, found):
                    if self.is_limited and found:
                        break
            except ProtocolError as error:
                self._error = error
        if self._error is not None and not found:
            raise self._error
        return found

    def _cut(self, data: bytes, found: list[Command]) -> None:
        """Read the whole commands at the beginning of what is here, as far as they are plain."""
        size = len(data) - self._position
        if self._left or size > min(PIECE_BYTES_MAX, self._bulk_bytes_max, self._command_bytes_max):
            return
        commands, self._position = cut_commands(data, self._position)
        found += commands

    def _begin(self, data: bytes, found: list[Command]) -> bool:
        """Read the head of a command; returns whether there was one, or a line."""
        position = self._position
        if position >= len(data):
            return False
        if data[position] != _ARRAY:
            return self._line(data, position, found)
        stop = data.find(b"\r\n", position)
        if stop < 0:
            return self._incomplete(data, "too big mbulk count string")
        count = find_integer(data[position + 1 : stop])
        if count is None or count > ARGUMENTS_MAX:
            raise _protocol_error("invalid multibulk length")
        if self.is_limited and count > LOGIN_ARGUMENTS_MAX:
            raise _protocol_error("unauthenticated multibulk length")
        self._position = stop + 2
        if count > 0:
            self._left = count
            self._size = -1
            self._arguments = []
            self._command_bytes = 0
        return True

    def _continue(self, data: bytes, found: list[Command]) -> bool:
        """Read arguments; returns whether the command is whole."""
        position, left, size, arguments = self._position, self._left, self._size, self._arguments
        end = len(data)
        try:
            while left:
                if size < 0:
                    stop = data.find(b"\r\n", position)
                    if stop < 0:
                        self._position = position
                        return self._incomplete(data, "too big bulk count string")
                    if data[position] != _BULK:
                        raise _protocol_error(f"expected '$', got '{chr(data[position])}'")
                    digits = data[position + 1 : stop]
                    size = int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else -1
                    if not 0 <= size <= self._bulk_bytes_max:
                        raise _protocol_error("invalid bulk length")
                    if self.is_limited and size > LOGIN_BULK_BYTES_MAX:
                        raise _protocol_error("unauthenticated bulk length")
                    self._command_bytes += size + ARGUMENT_BYTES
                    if self._command_bytes > self._command_bytes_max:
                        raise _protocol_error("the command is larger than redis.client.query.buffer.limit")
                    position = stop + 2
                if end < position + size + 2:
                    return False
                arguments.append(data[position : position + size])
                position += size + 2
                size = -1
                left -= 1
        finally:
            self._position, self._left, self._size = position, left, size
        found.append(arguments)
        return True

    def _line(self, data: bytes, position: int, found: list[Command]) -> bool:
        stop = data.find(b"\n", position)
        if stop < 0:
            return self._incomplete(data, "too big inline request")
        words = split_line(data[position:stop].removesuffix(b"\r"))
        if words is None:
            raise _protocol_error("unbalanced quotes in request")
        self._position = stop + 1
        if words:
            found.append(words)
        return True

    def _incomplete(self, data: bytes, error: str) -> bool:
        if len(data) - self._position > LINE_BYTES_MAX:
            raise _protocol_error(error)
        return False


def _protocol_error(reason: str) -> ProtocolError:
    return ProtocolError(f"ERR Protocol error: {reason}")
