"""A server that registers at a lookup service: nsqlookupd's TCP protocol, "V1".

```
"  V1"                                  once
IDENTIFY\n [ size int32 ][ JSON ]       who it is; answered with who we are
REGISTER topic [channel]\n              UNREGISTER alike
PING\n                                  it is there
answer: [ size int32 ][ data ]          an error ends the connection
```
"""

import logging
import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.gateways.nsq.lookup.registry import FullError, Producer, ProducerInfo
from ottla.gateways.nsq.names import is_valid_name

if TYPE_CHECKING:
    from ottla.gateways.nsq.lookup.service import LookupService
    from ottla.network.connection import Connection
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.network.response_queue import ResponseSlot
    from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

MAGIC: Final = b"  V1"
LINE_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 64 * 1024
SIZE_BYTES: Final = 4
COMMAND_MS: Final = 30_000
"""How long a command may take to arrive, whatever the pace of its bytes."""


class RefusedError(Exception):
    """A command that fails, with the answer; the connection ends."""


class LookupConnection:
    """Belongs to the event loop. A handler of `ottla.network.connection`."""

    def __init__(self, service: "LookupService", connection: "Connection") -> None:
        self._service = service
        self._connection = connection
        self._buffer = bytearray()
        self._has_magic = False
        self._has_failed = False
        self._producer: Producer | None = None
        self._deadline: TimerTask | None = None

    def on_frame(self, data: memoryview, buffer: "ReceiveBuffer", slot: "ResponseSlot") -> None:
        """Bytes have arrived; they may hold many commands, or a part of one."""
        answers: list[bytes] = []
        self._buffer += data
        try:
            while not self._has_failed and (answer := self._next()) is not None:
                answers.append(answer)
        except RefusedError as error:
            answers.append(str(error).encode())
            self._has_failed = True
        slot.send((b"".join(struct.pack(">i", len(each)) + each for each in answers),))
        if answers or not self._buffer:
            self._forget_deadline()
        if self._has_failed:
            self._connection.fail("a command of it failed")
        elif self._buffer and self._deadline is None:
            self._deadline = self._service.environment.timer.schedule(COMMAND_MS, self._on_late)

    def on_end_of_input(self) -> None:
        """It sends nothing more."""
        self._connection.drain()

    def on_close(self) -> None:
        """It is gone, and what it registered with it."""
        self._forget_deadline()
        if self._producer is not None:
            self._service.registry.remove(self._producer)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_late(self) -> None:
        self._connection.close(f"its command took more than {COMMAND_MS} ms")

    def _next(self) -> bytes | None:
        """Obey the next command; what is answered, None until more arrives."""
        buffer = self._buffer
        if not self._has_magic:
            if len(buffer) < len(MAGIC):
                return None
            if buffer[: len(MAGIC)] != MAGIC:
                raise RefusedError("E_BAD_PROTOCOL")
            del buffer[: len(MAGIC)]
            self._has_magic = True
        end = buffer.find(b"\n", 0, LINE_BYTES_MAX)
        if end < 0:
            if len(buffer) >= LINE_BYTES_MAX:
                raise RefusedError("E_INVALID the command line does not end")
            return None
        name, *parameters = bytes(buffer[:end]).strip().decode(errors="replace").split(" ")
        if name == "IDENTIFY":
            return self._identify(end + 1)
        del buffer[: end + 1]
        match name:
            case "PING":
                self._heard()
                return b"OK"
            case "REGISTER" | "UNREGISTER":
                self._register(name, parameters)
                return b"OK"
        raise RefusedError(f"E_INVALID invalid command {name}")

    def _identify(self, at: int) -> bytes | None:
        if self._producer is not None:
            raise RefusedError("E_INVALID cannot IDENTIFY again")
        buffer = self._buffer
        if len(buffer) < at + SIZE_BYTES:
            return None
        size = int.from_bytes(buffer[at : at + SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= BODY_BYTES_MAX:
            raise RefusedError(f"E_BAD_BODY IDENTIFY body of {size} bytes, where 0 to {BODY_BYTES_MAX} may be")
        end = at + SIZE_BYTES + size
        if len(buffer) < end:
            return None
        info = self._info(bytes(buffer[at + SIZE_BYTES : end]))
        del buffer[:end]
        self._producer = Producer(info, self._service.now_ms())
        self._service.registry.add(self._producer)
        return self._service.identity()

    def _info(self, body: bytes) -> ProducerInfo:
        try:
            said: Any = msgspec.json.decode(body)
            if not isinstance(said, dict):
                raise msgspec.DecodeError
            info = ProducerInfo(
                broadcast_address=said.get("broadcast_address") or "",
                hostname=said.get("hostname") or "",
                tcp_port=said.get("tcp_port") or 0,
                http_port=said.get("http_port") or 0,
                version=said.get("version") or "",
                remote_address=str(self._connection.peer),
            )
            msgspec.convert(msgspec.to_builtins(info), ProducerInfo)
        except (msgspec.DecodeError, RecursionError):
            raise RefusedError("E_BAD_BODY IDENTIFY failed to decode JSON body") from None
        if not (info.broadcast_address and info.tcp_port and info.http_port and info.version):
            raise RefusedError("E_BAD_BODY IDENTIFY missing fields")
        return info

    def _register(self, name: str, parameters: list[str]) -> None:
        producer = self._identified()
        if not parameters:
            raise RefusedError(f"E_INVALID {name} insufficient number of params")
        topic, channel = parameters[0], parameters[1] if len(parameters) > 1 else ""
        if not is_valid_name(topic):
            raise RefusedError(f"E_BAD_TOPIC {name} topic name '{topic}' is not valid")
        if channel and not is_valid_name(channel):
            raise RefusedError(f"E_BAD_CHANNEL {name} channel name '{channel}' is not valid")
        if name == "UNREGISTER":
            self._service.registry.unregister(producer, topic, channel)
            return
        try:
            self._service.registry.register(producer, topic, channel)
        except FullError:
            raise RefusedError("E_INVALID there are too many registrations") from None

    def _identified(self) -> Producer:
        self._heard()
        if self._producer is None:
            raise RefusedError("E_INVALID client must IDENTIFY")
        return self._producer

    def _heard(self) -> None:
        if self._producer is not None:
            self._producer.heard_ms = self._service.now_ms()
