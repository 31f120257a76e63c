"""A connection that sends requests of any version, many at once, and writes down what comes back and in which order."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ottla.native.errors import MessageError
from ottla.protocol.api_keys import APIS
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from races.history import ConnectionLog, End, Exchange
from races.stage import Stage

FRAME_BYTES_MAX = 64 << 20

CLIENT_ID = "races"
LONGER_BY_MAX = 500
RECEIVED_AT_ONCE = 16 * 1024
"""What a broker receives of a connection in a turn, and the unit of its buffers."""

OnAnswer = Callable[[Any, Exchange], None]


@dataclass(slots=True)
class Ask:
    """A request to send; `on_answer` is called with its answer."""

    message: ApiMessage
    version: int
    on_answer: OnAnswer | None = None
    wait_s: float = 0.0
    about: str = ""
    is_answered: bool = True
    """False for a Produce with acks=0."""


class RawConnection:
    """One connection. Answers are taken as they come, whether somebody waits for them or not."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.log = ConnectionLog(name, stage.now())
        self._waiting: deque[tuple[Exchange, Ask]] = deque()
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = iter(range(1 << 31))

    async def open(self) -> RawConnection:
        """Connect. Raises OSError when nobody is there."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self.stage.port)
        self.stage.history.connections.append(self.log)
        self.stage.spawn(self._receive(reader))
        return self

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended it."""
        return self.log.end is End.OPEN

    def send(self, asks: Sequence[Ask], cut_behind: int | None = None) -> list[Exchange]:
        """Send requests with one write; only the first `cut_behind` bytes of it, and then end the connection.

        Now and then one gets a longer client id, so that it ends where what is received at once may end.
        """
        assert self._writer is not None
        data, sent = bytearray(), []
        for ask in asks:
            number = next(self._numbers)
            request = encode_request(number, CLIENT_ID, ask.message, ask.version)
            room = -(len(data) + len(request)) % RECEIVED_AT_ONCE
            if 0 < room < LONGER_BY_MAX and self.stage.rng.random() < 0.5:
                request = encode_request(number, CLIENT_ID.ljust(len(CLIENT_ID) + room, "."), ask.message, ask.version)
            data += request
            api = APIS[ask.message.API_KEY].key.name
            exchange = Exchange(number, api, ask.version, self.stage.now(), ask.wait_s, about=ask.about)
            sent.append(exchange)
            if ask.is_answered:
                self.log.exchanges.append(exchange)
                self._waiting.append((exchange, ask))
        self._writer.write(bytes(data[:cut_behind]))
        if cut_behind is not None:
            self._writer.close()
            self._end(End.OURS)
        return sent

    async def ask(self, ask: Ask) -> Any:
        """Send one request and wait for its answer. Raises ConnectionError when none comes."""
        answers: list[Any] = []
        inner = ask.on_answer

        def keep(response: Any, exchange: Exchange) -> None:
            answers.append(response)
            if inner is not None:
                inner(response, exchange)

        ask.on_answer = keep
        self.send([ask])
        await self.settled(self.stage.patience_s + ask.wait_s)
        if not answers:
            raise ConnectionError(f"no answer to {type(ask.message).__name__}")
        return answers[0]

    async def settled(self, timeout_s: float) -> bool:
        """Wait until nothing is unanswered, or the connection has ended; whether that came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._waiting and self.is_open:
                    self._changed.clear()
                    await self._changed.wait()
        return not self._waiting

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None and self.is_open:
            self._writer.close()
            self._end(End.OURS)

    def _end(self, how: End) -> None:
        if self.is_open:
            self.log.end, self.log.ended_at = how, self.stage.now()
        self._changed.set()

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if not 4 <= size <= FRAME_BYTES_MAX:
                    self.log.unreadable.append(f"a frame of {size} bytes")
                    break
                self._take(await reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            self._end(End.BROKERS)
        finally:
            assert self._writer is not None
            self._writer.close()

    def _take(self, frame: bytes) -> None:
        if not self.is_open:
            return
        (number,) = struct.unpack_from(">i", frame)
        self.log.received.append(number)
        if not self._waiting or self._waiting[0][0].number != number:
            return  # the checker compares what came with what was due
        exchange, ask = self._waiting.popleft()
        exchange.answered_at = self.stage.now()
        try:
            _, response = decode_response(ask.message.API_KEY, ask.version, frame)
        except MessageError as error:
            self.log.unreadable.append(f"#{number} {exchange.api} v{exchange.version}: {error}")
        else:
            exchange.errors = tuple(sorted(set(_error_codes(response))))
            self.stage.count(exchange)
            if ask.on_answer is not None:
                ask.on_answer(response, exchange)
        if not self._waiting:
            self._changed.set()


def _error_codes(value: Any) -> Iterator[int]:
    """Every error code in a response."""
    for name in value.__slots__:
        field = getattr(value, name)
        if name == "error_code":
            yield field
        elif type(field) is tuple and field and hasattr(field[0], "__slots__"):
            for each in field:
                yield from _error_codes(each)
