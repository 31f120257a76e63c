"""A broker with all its parts, real files and its own time, asked without sockets: requests and answers as bytes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.broker.access import Authorizer
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.principal import ANONYMOUS, broker_principal
from ottla.network.address import Address
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.environment import Environment
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager
from tests.unit.server.new_server import server_on

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "2", "num.partitions": "2"}


async def until(holds: Callable[[], bool]) -> None:
    """Let threads and tasks work until `holds`."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 (what is waited for knows no events)
            await asyncio.sleep(0)


class Slot:
    """The place of one answer."""

    is_void = False

    def __init__(self) -> None:
        self.frame: bytes | None = None

    def send(self, parts: Sequence[Any]) -> None:
        assert self.frame is None, "a request is answered once"
        self.frame = b"".join(map(_bytes_of, parts))

    def answer(self, answer: bytes) -> None:
        self.send((answer,))

    def skip(self) -> None:
        self.send(())

    def when_first(self, call: Callable[[], None]) -> None:
        call()  # each slot is the only one


def _bytes_of(part: Any) -> bytes:
    if not isinstance(part, FileSlice):
        return bytes(part)
    return os.pread(part.fd, part.size, part.position)


class _Lease:
    def retain(self) -> None:
        """The frame belongs to the test and stays."""

    def release(self) -> None:
        """The same."""


class Peer:
    """One connection of a client. `closed_because` says why the broker closed it, if it did."""

    principal = ANONYMOUS

    def __init__(self, server: Server, listener_name: str = "PLAINTEXT", host: str = "127.0.0.1") -> None:
        self.listener_name = listener_name
        self.peer = self.local = Address(host, 9)
        self.receiver = self
        self.frame_bytes_max: int | None = None
        """The bound of a request, where it is not that of the listener."""
        self.is_drained = False
        """Whether nothing more of it is read."""
        self.is_closed = False
        self.is_muted = False
        self.muted_ms: list[int] = []
        """For how long it was to be quiet, each time."""
        self.closed_because: str | None = None
        self._handler = server.gateways.connect(self)  # type: ignore[arg-type]

    def close(self, reason: str = "") -> None:
        if not self.is_closed:
            self.is_closed, self.closed_because = True, reason
            self._handler.on_close()

    def mute(self, throttle_ms: int) -> None:
        """The client is over a quota. What it sends is handled all the same here."""
        self.muted_ms.append(throttle_ms)

    def drain(self) -> None:
        """Nothing more of it is to be read. What it sends is handled all the same here."""
        self.is_drained = True

    def limit_frames(self, max_bytes: int | None, setting: str = "") -> None:
        """No request may be larger from now on. One that is comes through all the same here."""
        self.frame_bytes_max = max_bytes

    def fail(self, reason: str, slot: object = None) -> None:
        """What is asked cannot be answered."""
        self.close(reason)

    def complain(self, what: str) -> None:
        """What the broker says in its log."""

    @contextmanager
    def as_broker(self, broker_id: int = 9) -> Iterator[None]:
        """Meanwhile it has proved that it is another broker."""
        self._handler.principal = broker_principal(broker_id)
        yield
        self._handler.principal = ANONYMOUS

    def send(self, message: ApiMessage, version: int) -> Slot:
        """Send a request; the answer comes into the slot, now or later."""
        return self.send_frame(encode_request(7, "test", message, version)[4:])

    def send_frame(self, frame: bytes) -> Slot:
        """Send a request as it stands on the wire."""
        slot = Slot()
        try:
            self._handler.on_frame(memoryview(bytearray(frame)), _Lease(), slot)  # type: ignore[arg-type]
        except InvalidInputError as error:
            self.close(str(error))
        return slot

    async def ask(self, message: ApiMessage, version: int) -> Any:
        """The answer to a request; fails when the connection is closed instead."""
        slot = self.send(message, version)
        await until(lambda: slot.frame is not None or self.is_closed)
        return decoded(slot, message.API_KEY, version)


def decoded(slot: Slot, api_key: int, version: int) -> Any:
    """The answer in a slot."""
    assert slot.frame is not None, "not answered"
    correlation_id, answer = decode_response(api_key, version, slot.frame[4:])
    assert correlation_id == 7
    return answer


class SocketlessBroker:
    """Started by `open`; `timer.advance` lets its time pass."""

    def __init__(
        self, directory: Path, settings: dict[str, str] | None = None, authorizer: Authorizer | None = None
    ) -> None:
        self.directory = directory
        self.timer = ManualTimer(ManualClock(1_700_000_000_000))
        self.tasks = Tasks("test")
        rng = SeededRng(1)
        self.logs = LogManager(
            directory, disk=OsDisk(), clock=self.timer.clock, timer=self.timer, tasks=self.tasks, rng=rng
        )
        self.logs.load()
        merged = BrokerSettings({**SETTINGS, **(settings or {}), "log.dirs": str(directory)})
        environment = Environment(self.timer.clock, rng, self.timer, self.tasks, asyncio.get_running_loop().call_soon)
        self.store = EmbeddedStore(directory)
        self.server = server_on(self.store, merged, self.logs, environment, authorizer)

    async def open(self) -> SocketlessBroker:
        await self.server.start()
        return self

    async def close(self) -> None:
        await self.server.stop()

    def connect(self, listener_name: str = "PLAINTEXT", host: str = "127.0.0.1") -> Peer:
        """One more client."""
        return Peer(self.server, listener_name, host)

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; its partitions are there when this returns."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = await self.connect().ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer

    def topic_id(self, name: str) -> UUID:
        """The id of a topic that is there."""
        topic = self.server.metadata.current_image().topic(name)
        assert topic is not None
        return topic.topic_id

    def hold_writes(self) -> None:
        """What is appended from now on is not written before `let_writes_go`."""
        self.logs.directories[0].writer.detach()

    def let_writes_go(self) -> None:
        """Writes go on."""
        self.logs.directories[0].writer.attach(asyncio.get_running_loop())
