"""A request of any API in any version to a whole broker: an answer of its version, or a connection that is closed.

    key of the API, 1 byte (255: the rest is a frame as it is) | version, 1 byte, from the first one served | body

The broker is new after some inputs; what one leaves behind, the next one meets. Its clock stands still but for a moment
after each request. Whatever it logs as an error is a finding: a handler, a task or a timer that failed.
"""

import asyncio
import logging
import os
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.gateways.kafka.apis import APIS
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.principal import ANONYMOUS
from ottla.network.address import Address
from ottla.protocol.api_keys import APIS as PROTOCOL_APIS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_response
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.header import RequestHeader
from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.environment import Environment
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager
from tests.unit.server.new_server import new_server

SERVED = tuple(APIS.values())
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "2",
}
CORRELATION_ID = 77
RAW = 255
"""Begins an input that is a frame as it is."""
TOPIC = "flights"
"""The topic that is there."""
TOPIC_ID = UUID("7f2c1f6e-54a2-4b6c-9d3e-0a1b2c3d4e5f")
"""Stands in an input for the id that the topic really has."""
INPUTS_OF_A_BROKER = 300
TURNS_MAX = 30
LOG_LINE_MAX = 1100


class Failures(logging.Handler):
    """Keeps what the broker logs as an error; sees to it that a warning is one line that was not chosen by the peer."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        text = self.format(record)
        if record.levelno >= logging.ERROR or not text.isprintable() or len(text) > LOG_LINE_MAX:
            self.lines.append(text)


class Buffer:
    """Counts who holds the bytes of the request."""

    def __init__(self) -> None:
        self.held = 1

    def retain(self) -> None:
        """One more."""
        assert self.held > 0
        self.held += 1

    def release(self) -> None:
        """One less."""
        assert self.held > 0
        self.held -= 1


class Slot:
    """What was answered."""

    is_void = False

    def __init__(self) -> None:
        self.frame: bytes | None = None

    def send(self, parts: Sequence[Any]) -> None:
        """Once, and at once read from wherever the parts lie."""
        assert self.frame is None, "a request is answered once"
        self.frame = b"".join(map(bytes_of, parts))

    def answer(self, answer: bytes) -> None:
        """The same of bytes."""
        self.send((answer,))

    def skip(self) -> None:
        """There is no answer."""
        self.frame = b""

    def when_first(self, call: Callable[[], None]) -> None:
        """Each slot is the only one."""
        call()


def bytes_of(part: Any) -> bytes:
    """The bytes of a part of a response, which may be a piece of a file."""
    return os.pread(part.fd, part.size, part.position) if hasattr(part, "fd") else bytes(part)


class Client:
    """A connection without a socket."""

    listener_name = "PLAINTEXT"
    principal = ANONYMOUS
    is_draining = False

    def __init__(self, throttle: LogThrottle) -> None:
        self._throttle = throttle
        self.peer = self.local = Address("127.0.0.1", 9)
        self.closed_because: str | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed it."""
        return self.closed_because is not None

    def fail(self, reason: str, slot: object = None) -> None:
        """What the broker says when it closes it."""
        del slot
        self.closed_because = reason
        self._throttle.warning("%s", reason)

    def drain(self) -> None:
        """It is closed once it has its answers."""
        self.is_draining = True

    def complain(self, what: str) -> None:
        """What the broker says in its log."""
        self._throttle.warning("%s", what)


class ServedGateway:
    """A broker with one topic, and the loop it lives in."""

    def __init__(self) -> None:
        self.inputs = 0
        self.failures = Failures()
        logging.getLogger("ottla").addHandler(self.failures)
        logging.getLogger("ottla").propagate = False
        # Every line is let through, to be looked at.
        self.throttle = LogThrottle(logging.getLogger("ottla.fuzz"), ManualClock(), lines_max=1 << 60)
        self.directory = tempfile.TemporaryDirectory(prefix="ottla-fuzz-")
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        clock = ManualClock(1_700_000_000_000)
        rng = SeededRng(1)
        self.timer = ManualTimer(clock)
        self.tasks = Tasks("fuzz")
        data_dir = Path(self.directory.name) / "data"
        logs = LogManager(data_dir, disk=OsDisk(), clock=clock, timer=self.timer, tasks=self.tasks, rng=rng)
        logs.load()
        settings = BrokerSettings({**SETTINGS, "log.dirs": str(data_dir)})
        self.server = new_server(settings, logs, Environment(clock, rng, self.timer, self.tasks, self.loop.call_soon))
        await self.server.start()
        created = CreateTopicsRequest(
            topics=(CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1),), timeout_ms=1000
        )
        version = CreateTopicsRequest.MAX_VERSION
        answer, _ = await self.ask(head_of(ApiKey.CREATE_TOPICS, version) + created.encode(version), patience=10_000)
        assert answer
        response = decode_response(ApiKey.CREATE_TOPICS, version, answer[4:])[1]
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NONE, response
        self.topic_id = response.topics[0].topic_id

    def close(self) -> None:
        """Stop the broker and remove what it wrote."""
        self.loop.run_until_complete(self.server.stop())
        self.loop.close()
        self.directory.cleanup()
        logging.getLogger("ottla").removeHandler(self.failures)

    async def ask(self, frame: bytes, patience: int = 0) -> tuple[bytes | None, str | None]:
        """The answer, None when there is none yet or never, and why the connection was closed, if it was."""
        client, buffer, slot = Client(self.throttle), Buffer(), Slot()
        connection = self.server.gateways.connect(client)  # type: ignore[arg-type]
        try:
            connection.on_frame(memoryview(bytearray(frame)), buffer, slot)  # type: ignore[arg-type]
        except InvalidInputError as error:
            client.fail(str(error))
        buffer.release()
        for turn in range(TURNS_MAX + patience):
            if slot.frame is not None or client.closed_because is not None:
                break
            # Other threads write the log and the metadata: let them, the longer the more there is to do.
            await asyncio.sleep(0 if turn < TURNS_MAX // 2 else 0.0005)
        self.timer.advance(5)
        await asyncio.sleep(0)
        connection.on_close()
        assert not self.failures.lines, self.failures.lines
        return slot.frame, client.closed_because


_gateways: list[ServedGateway] = []


def check(data: bytes) -> None:
    """See the top of the file."""
    if len(data) < 2:
        return
    gateway = current_gateway()
    if data[0] == RAW:
        gateway.loop.run_until_complete(gateway.ask(data[1:]))
        return
    api = APIS.get(data[0]) or SERVED[data[0] % len(SERVED)]
    version = api.min_version + data[1] % (api.max_version - api.min_version + 1)
    body = data[2:].replace(TOPIC_ID.bytes, gateway.topic_id.bytes)
    answer, closed_because = gateway.loop.run_until_complete(gateway.ask(head_of(api.key, version) + body))
    if closed_because is not None:
        assert answer is None, "closed and answered"
    elif answer:
        assert struct.unpack_from(">i", answer) == (len(answer) - 4,)
        correlation_id, _ = decode_response(api.key, version, answer[4:])
        assert correlation_id == CORRELATION_ID


def head_of(api_key: int, version: int) -> bytes:
    """The header of a request."""
    header = RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=CORRELATION_ID, client_id="fuzz"
    )
    return header.encode(PROTOCOL_APIS[api_key].request_header_version(version))


def current_gateway() -> ServedGateway:
    """The broker, a new one every now and then."""
    if _gateways and _gateways[0].inputs >= INPUTS_OF_A_BROKER:
        _gateways.pop().close()
    if not _gateways:
        _gateways.append(ServedGateway())
    _gateways[0].inputs += 1
    return _gateways[0]


def close() -> None:
    """Stop the broker, if there is one."""
    while _gateways:
        _gateways.pop().close()
