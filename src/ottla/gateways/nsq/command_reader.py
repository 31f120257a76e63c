"""Commands out of the bytes of a connection.

```
"  V2"                                          once
PUB clicks\n [ size int32 ][ body ]             a line, its parameters between single spaces; some have a body
MPUB clicks\n [ size ][ count ] ([ size ][ body ])*
```

What is wrong with a command is said as soon as it is seen: a topic that cannot be is refused before its body is there.
Sans-I/O: `feed` takes bytes, `next` gives commands.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from ottla.gateways.nsq.command import (
    Auth,
    Command,
    Finish,
    FinishMany,
    Identify,
    Nop,
    Publish,
    Ready,
    Requeue,
    StartClose,
    Subscribe,
    Touch,
)
from ottla.gateways.nsq.error import NsqError, invalid
from ottla.gateways.nsq.limits import NsqLimits
from ottla.gateways.nsq.message_id import ID_BYTES, leading_finishes
from ottla.gateways.nsq.names import is_valid_name, is_valid_topic_name

MAGIC: Final = b"  V2"
LINE_BYTES_MAX: Final = 16 * 1024
"""A longer command line ends the connection, as with nsqd."""
SIZE_BYTES: Final = 4
NS_PER_MS: Final = 1_000_000
TOGETHER_BYTES_MAX: Final = 256 * 1024
"""PUBs are one command up to about this size."""


class ConnectionState(IntEnum):
    """What a connection may do; the numbers are those of nsqd's statistics."""

    INIT = 0
    SUBSCRIBED = 3
    CLOSING = 4


class LineTooLongError(Exception):
    """A command line does not end; there is nothing that could be answered."""


class CommandReader:
    """Belongs to one connection. After an error that is fatal nothing more is read."""

    def __init__(self, limits: NsqLimits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._at = 0
        self._has_magic = False
        self.state = ConnectionState.INIT
        self.has_tls = False
        """Whether the client uses TLS, without which it may do nothing where that is required."""
        self.has_heartbeats = True
        """Whether the client takes heartbeats; without them it may not subscribe."""
        self.authorize: Callable[[str, str, str], None] = lambda command, topic, channel: None
        """Called with a command and what it names, an empty channel for PUB, MPUB and DPUB. May raise NsqError."""

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take what has arrived."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    @property
    def buffered_bytes(self) -> int:
        """So much is kept until the rest of a command arrives."""
        return len(self._buffer) - self._at

    def take_rest(self) -> bytes:
        """What has not been read yet, for whoever reads from now on: a layer of TLS or compression."""
        rest = bytes(self._buffer[self._at :])
        self._buffer.clear()
        self._at = 0
        return rest

    def next(self) -> Command | None:
        """The next command; None until more arrives. Raises NsqError, and LineTooLongError."""
        if not self._has_magic and not self._read_magic():
            return None
        if self.state is not ConnectionState.INIT and self._buffer.startswith(b"FIN ", self._at):
            numbers, self._at = leading_finishes(self._buffer, self._at)
            if numbers:
                return FinishMany(numbers)
        end = self._buffer.find(b"\n", self._at, self._at + LINE_BYTES_MAX)
        if end < 0:
            if self.buffered_bytes >= LINE_BYTES_MAX:
                raise LineTooLongError
            return None
        line = bytes(self._buffer[self._at : end]).removesuffix(b"\r")
        name, *parameters = line.split(b" ")
        if self._limits.is_tls_required and not self.has_tls and name != b"IDENTIFY":
            raise invalid(b"cannot " + name + b" in current state (TLS required)")
        read = _READ.get(name)
        if read is None:
            raise invalid(b"invalid command " + name)
        body_at = end + 1
        command, command_end = read(self, parameters, body_at)
        if command is not None:
            self._at = command_end
        return command

    def _read_magic(self) -> bool:
        if self.buffered_bytes < len(MAGIC):
            return False
        if self._buffer[self._at : self._at + len(MAGIC)] != MAGIC:
            raise NsqError("E_BAD_PROTOCOL", "")
        self._at += len(MAGIC)
        self._has_magic = True
        return True

    # --- commands, each from its parameters and the place behind its line: what was read, and where it ends ---------

    def _identify(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_init("IDENTIFY")
        body, end = self._body("IDENTIFY", "E_BAD_BODY", "body", at, self._limits.body_bytes_max)
        return (None if body is None else Identify(body)), end

    def _auth(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_init("AUTH")
        if parameters:
            raise invalid("AUTH invalid number of parameters")
        body, end = self._body("AUTH", "E_BAD_BODY", "body", at, self._limits.body_bytes_max)
        return (None if body is None else Auth(body)), end

    def _subscribe(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_init("SUB")
        if not self.has_heartbeats:
            raise invalid("cannot SUB with heartbeats disabled")
        if len(parameters) < 2:
            raise invalid("SUB insufficient number of parameters")
        topic = _topic("SUB", parameters[0])
        channel = _text(parameters[1])
        if not is_valid_name(channel):
            raise NsqError("E_BAD_CHANNEL", f"SUB channel name {quoted(parameters[1])} is not valid")
        self.authorize("SUB", topic, channel)
        self.state = ConnectionState.SUBSCRIBED
        return Subscribe(topic, channel), at

    def _publish(self, parameters: list[bytes], at: int) -> "_Read":
        if not parameters:
            raise invalid("PUB insufficient number of parameters")
        topic = _topic("PUB", parameters[0])
        body, end = self._body("PUB", "E_BAD_MESSAGE", "message body", at, self._limits.message_bytes_max)
        if body is None:
            return None, end
        self.authorize("PUB", topic, "")
        bodies = [body]
        return Publish("PUB", topic, bodies), self._more_of(bytes(self._buffer[self._at : at]), end, bodies)

    def _more_of(self, line: bytes, at: int, bodies: list[bytes]) -> int:
        """Read the PUBs with the same line that follow and are sound; returns where they end."""
        buffer, bytes_max, end_max = self._buffer, self._limits.message_bytes_max, at + TOGETHER_BYTES_MAX
        while at < end_max and buffer.startswith(line, at):
            body_at = at + len(line) + SIZE_BYTES
            size = int.from_bytes(buffer[body_at - SIZE_BYTES : body_at], "big", signed=True)
            if not 0 < size <= bytes_max or len(buffer) < body_at + size:
                break
            at = body_at + size
            bodies.append(bytes(buffer[body_at:at]))
        return at

    def _publish_many(self, parameters: list[bytes], at: int) -> "_Read":
        if not parameters:
            raise invalid("MPUB insufficient number of parameters")
        topic = _topic("MPUB", parameters[0], repeats=True)
        self.authorize("MPUB", topic, "")
        body, end = self._body("MPUB", "E_BAD_BODY", "body", at, self._limits.body_bytes_max)
        return (None if body is None else Publish("MPUB", topic, self._bodies(body))), end

    def _publish_later(self, parameters: list[bytes], at: int) -> "_Read":
        if len(parameters) < 2:
            raise invalid("DPUB insufficient number of parameters")
        topic = _topic("DPUB", parameters[0])
        delay_ms = _number("DPUB could not parse timeout ", parameters[1])
        # As nanoseconds in 64 bits, where nsqd has it, some numbers that are too large wrap to a delay.
        wrapped_ms, rest = divmod(delay_ms * NS_PER_MS & ((1 << 64) - 1), NS_PER_MS)
        if wrapped_ms > self._limits.requeue_delay_max_ms or (wrapped_ms == self._limits.requeue_delay_max_ms and rest):
            raise invalid(f"DPUB timeout {delay_ms} out of range 0-{self._limits.requeue_delay_max_ms}")
        delay_ms = wrapped_ms
        body, end = self._body("DPUB", "E_BAD_MESSAGE", "message body", at, self._limits.message_bytes_max)
        if body is None:
            return None, end
        self.authorize("DPUB", topic, "")
        return Publish("DPUB", topic, [body], delay_ms), end

    def _ready(self, parameters: list[bytes], at: int) -> "_Read":
        if self.state is ConnectionState.CLOSING:
            return Nop(), at
        self._require_subscribed("RDY")
        count = _number("RDY could not parse count ", parameters[0]) if parameters else 1
        if count >= 1 << 63:
            count -= 1 << 64  # nsqd has it as a signed number
        if not 0 <= count <= self._limits.ready_count_max:
            raise invalid(f"RDY count {count} out of range 0-{self._limits.ready_count_max}")
        return Ready(count), at

    def _finish(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_delivery("FIN")
        return Finish(_id("FIN", parameters, 1)), at

    def _requeue(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_delivery("REQ")
        message_id = _id("REQ", parameters, 2)
        delay_ms = _number("REQ could not parse timeout ", parameters[1])
        return Requeue(message_id, min(delay_ms, self._limits.requeue_delay_max_ms)), at

    def _touch(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_delivery("TOUCH")
        return Touch(_id("TOUCH", parameters, 1)), at

    def _close(self, parameters: list[bytes], at: int) -> "_Read":
        self._require_subscribed("CLS")
        self.state = ConnectionState.CLOSING
        return StartClose(), at

    def _nop(self, parameters: list[bytes], at: int) -> "_Read":
        return Nop(), at

    # --- their parts ------------------------------------------------------------------------------------------------

    def _require_init(self, name: str) -> None:
        if self.state is not ConnectionState.INIT:
            raise invalid(f"cannot {name} in current state")

    def _require_subscribed(self, name: str) -> None:
        if self.state is not ConnectionState.SUBSCRIBED:
            raise invalid(f"cannot {name} in current state")

    def _require_delivery(self, name: str) -> None:
        if self.state is ConnectionState.INIT:
            raise invalid(f"cannot {name} in current state")

    def _body(self, name: str, code: str, what: str, at: int, bytes_max: int) -> tuple[bytes | None, int]:
        """The body behind a line and where it ends; None until it is there."""
        if len(self._buffer) < at + SIZE_BYTES:
            return None, at
        size = int.from_bytes(self._buffer[at : at + SIZE_BYTES], "big", signed=True)
        if size <= 0:
            raise NsqError(code, f"{name} invalid {what} size {size}")
        if size > bytes_max:
            subject = "message" if code == "E_BAD_MESSAGE" else "body"
            raise NsqError(code, f"{name} {subject} too big {size} > {bytes_max}")
        end = at + SIZE_BYTES + size
        return (None if len(self._buffer) < end else bytes(self._buffer[at + SIZE_BYTES : end])), end

    def _bodies(self, body: bytes) -> list[bytes]:
        return bodies_of(body, self._limits)


_Read = tuple[Command | None, int]


def bodies_of(body: bytes, limits: NsqLimits) -> list[bytes]:
    """The messages of the body of an MPUB. Raises NsqError."""
    if len(body) < SIZE_BYTES:
        raise NsqError("E_BAD_BODY", "MPUB failed to read message count")
    count = int.from_bytes(body[:SIZE_BYTES], "big", signed=True)
    if not 0 < count <= limits.messages_max:
        raise NsqError("E_BAD_BODY", f"MPUB invalid message count {count}")
    found: list[bytes] = []
    at = SIZE_BYTES
    for index in range(count):
        if len(body) < at + SIZE_BYTES:
            raise NsqError("E_BAD_MESSAGE", f"MPUB failed to read message({index}) body size")
        size = int.from_bytes(body[at : at + SIZE_BYTES], "big", signed=True)
        if size <= 0:
            raise NsqError("E_BAD_MESSAGE", f"MPUB invalid message({index}) body size {size}")
        if size > limits.message_bytes_max:
            raise NsqError("E_BAD_MESSAGE", f"MPUB message too big {size} > {limits.message_bytes_max}")
        at += SIZE_BYTES
        if len(body) < at + size:
            raise NsqError("E_BAD_MESSAGE", "MPUB failed to read message body")
        found.append(body[at : at + size])
        at += size
    return found


_READ: Final[dict[bytes, Callable[[CommandReader, list[bytes], int], _Read]]] = {
    b"IDENTIFY": CommandReader._identify,
    b"AUTH": CommandReader._auth,
    b"SUB": CommandReader._subscribe,
    b"PUB": CommandReader._publish,
    b"MPUB": CommandReader._publish_many,
    b"DPUB": CommandReader._publish_later,
    b"RDY": CommandReader._ready,
    b"FIN": CommandReader._finish,
    b"REQ": CommandReader._requeue,
    b"TOUCH": CommandReader._touch,
    b"CLS": CommandReader._close,
    b"NOP": CommandReader._nop,
}


def quoted(text: bytes) -> str:
    """Text as Go quotes it in errors (`%q`).

    >>> quoted(b'a"b\\n')
    '"a\\\\"b\\\\n"'
    """
    shown = []
    for character in text.decode(errors="surrogateescape"):
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            shown.append(f"\\x{code - 0xDC00:02x}")
        elif character in _ESCAPES:
            shown.append(_ESCAPES[character])
        elif character.isprintable():
            shown.append(character)
        elif code < 0x80:
            shown.append(f"\\x{code:02x}")
        else:
            shown.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(shown) + '"'


_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def _text(name: bytes) -> str:
    return name.decode("latin-1")


def _topic(command: str, name: bytes, *, repeats: bool = False) -> str:
    topic = _text(name)
    if not is_valid_topic_name(topic):
        again = "E_BAD_TOPIC " if repeats else ""
        raise NsqError("E_BAD_TOPIC", f"{again}{command} topic name {quoted(name)} is not valid")
    return topic


def _number(complaint: str, text: bytes) -> int:
    """Digits; nothing is 0. What does not fit into 64 bits wraps, as nsqd has it: its last 64 digits tell."""
    if text and not (text.isdigit() and text.isascii()):
        raise invalid(complaint.encode() + text)
    return int(text[-64:] or b"0") & ((1 << 64) - 1)


def _id(command: str, parameters: list[bytes], count: int) -> bytes:
    if len(parameters) < count:
        raise invalid(f"{command} insufficient number of params")
    if len(parameters[0]) != ID_BYTES:
        raise invalid("invalid message ID")
    return parameters[0]
