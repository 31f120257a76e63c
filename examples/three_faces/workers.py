"""Workers of one group: each takes a job, gives it back or finishes it, by its own protocol."""

import json
import socket
import struct
from types import TracebackType
from typing import Any, Final, Protocol, Self

import msgspec

from examples.flights.failure import DemoError
from ottla.client import (
    AcknowledgementMode,
    AcknowledgeType,
    AcquireMode,
    ShareConsumerOptions,
    SyncShareConsumer,
)

WAIT_S: Final = 30
MESSAGE: Final = 2


class Worker(Protocol):
    """Has at most one job."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None: ...

    def take(self) -> str:
        """The next job. Raises DemoError when none comes."""
        ...

    def give_back(self) -> None:
        """Somebody else is to do it."""
        ...

    def finish(self) -> None:
        """It is done."""
        ...


class _Socket:
    """A connection, and what has been read of it ahead."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def read(self, size: int) -> bytes:
        """So many bytes."""
        while len(self._received) < size:
            self._receive()
        data, self._received = self._received[:size], self._received[size:]
        return data

    def read_line(self) -> bytes:
        """Up to the end of a line."""
        while b"\r\n" not in self._received:
            self._receive()
        line, self._received = self._received.split(b"\r\n", 1)
        return line

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise DemoError("the broker hung up")
        self._received += data


class Redis(_Socket):
    """A client of Redis, and a worker by XREADGROUP, XNACK and XACK."""

    def __init__(self, port: int, key: str = "", group: str = "") -> None:
        super().__init__(port)
        self._key, self._group, self._held = key, group, b""

    def call(self, *words: str | bytes) -> Any:
        """The reply to a command."""
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))
        return self._reply()

    def _reply(self) -> Any:
        line = self.read_line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise DemoError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def take(self) -> str:
        """Satisfies `Worker`. With CLAIM, what nobody has comes first."""
        words = ("COUNT", "1", "BLOCK", str(WAIT_S * 1000), "CLAIM", "3600000", "STREAMS", self._key, ">")
        reply = self.call("XREADGROUP", "GROUP", self._group, "redis-worker", *words)
        if reply is None:
            raise DemoError("no job came to the Redis worker")
        self._held, fields = reply[0][1][0][:2]
        return job_of_fields(fields)

    def give_back(self) -> None:
        """Satisfies `Worker`."""
        self.call("XNACK", self._key, self._group, "FAIL", "IDS", "1", self._held)

    def finish(self) -> None:
        """Satisfies `Worker`."""
        self.call("XACK", self._key, self._group, self._held)


class Nsq(_Socket):
    """A worker by SUB, REQ and FIN."""

    def __init__(self, port: int, topic: str, channel: str) -> None:
        super().__init__(port)
        self.socket.sendall(b"  V2")
        self._send(b"IDENTIFY", json.dumps({"client_id": "nsq-worker"}).encode())
        self._frame()
        self._send(f"SUB {topic} {channel}".encode())
        self._frame()
        self._held = b""

    def _send(self, line: bytes, body: bytes | None = None) -> None:
        self.socket.sendall(line + b"\n" + (b"" if body is None else struct.pack(">i", len(body)) + body))

    def _frame(self) -> tuple[int, bytes]:
        (size,) = struct.unpack(">i", self.read(4))
        data = self.read(size)
        if data[4:] == b"_heartbeat_":
            self._send(b"NOP")
            return self._frame()
        return struct.unpack(">i", data[:4])[0], data[4:]

    def take(self) -> str:
        """Satisfies `Worker`."""
        self._send(b"RDY 1")
        kind, data = self._frame()
        if kind != MESSAGE:
            raise DemoError(f"the NSQ worker was told {data!r}")
        self._send(b"RDY 0")
        self._held = data[10:26]
        return job_of(data[26:])

    def give_back(self) -> None:
        """Satisfies `Worker`."""
        self._send(b"REQ " + self._held + b" 0")
        self._close()

    def finish(self) -> None:
        """Satisfies `Worker`."""
        self._send(b"FIN " + self._held)
        self._close()

    def _close(self) -> None:
        """What was said before is on disk when this is answered."""
        self._send(b"CLS")
        self._frame()


class Kafka:
    """A worker by KafkaShareConsumer's protocol."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        options = ShareConsumerOptions(
            group,
            acknowledgement_mode=AcknowledgementMode.EXPLICIT,
            acquire_mode=AcquireMode.RECORD_LIMIT,
            max_poll_records=1,
        )
        self._consumer = SyncShareConsumer(bootstrap, options)
        self._topic = topic
        self._held: Any = None

    def __enter__(self) -> Self:
        self._consumer.__enter__()
        self._consumer.subscribe([self._topic])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.__exit__(kind, error, trace)

    def take(self) -> str:
        """Satisfies `Worker`."""
        for record in self._consumer.poll(timeout_ms=WAIT_S * 1000):
            self._held = record
            return job_of(record.value)
        raise DemoError("no job came to the Kafka worker")

    def give_back(self) -> None:
        """Satisfies `Worker`."""
        self._settle(AcknowledgeType.RELEASE)

    def finish(self) -> None:
        """Satisfies `Worker`."""
        self._settle(AcknowledgeType.ACCEPT)

    def _settle(self, how: AcknowledgeType) -> None:
        self._consumer.acknowledge(self._held, how)
        refused = [error for error in self._consumer.commit().values() if error]
        if refused:
            raise DemoError(f"the Kafka worker's acknowledgement was refused: {refused[0]}")


def job_of(value: bytes | None) -> str:
    """The job in a record: that of XADD is a MessagePack array of names and values in turn."""
    data = value or b""
    return data.decode() if data.startswith(b"job ") else job_of_fields(msgspec.msgpack.decode(data))


def job_of_fields(fields: list[bytes]) -> str:
    """The job in an entry: what Kafka's and NSQ's clients send is a field `value`."""
    named = dict(zip(*[iter(fields)] * 2, strict=True))
    return named.get(b"job", named.get(b"value", b"")).decode()


def publish(port: int, topic: str, body: bytes) -> None:
    """PUB of NSQ, until it is acknowledged."""
    with _Socket(port) as connection:
        connection.socket.sendall(b"  V2" + f"PUB {topic}\n".encode() + struct.pack(">i", len(body)) + body)
        connection.read(struct.unpack(">i", connection.read(4))[0])
