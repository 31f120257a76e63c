"""One connection of a Redis client: its commands one after the other, and its answers once they are true.

    pieces --> commands --> run --> Answers --> socket
                              |
                              '-- needs entries or a topic: fetched, then run again
                              '-- waits (BLOCK): run again when a key changes, or its time is up
                              '-- its key is another broker's: sent there

Commands run without pause, so each is atomic, and EXEC is. Nothing of a command is done before it has all that it
needs.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.traffic_quota import TrafficQuota
from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.add_commands import add_all
from ottla.gateways.redis.answers import LOST, Answers, LostError
from ottla.gateways.redis.command_call import call
from ottla.gateways.redis.command_reader import Command, CommandReader
from ottla.gateways.redis.command_table import TRANSACTION
from ottla.gateways.redis.connection_transactions import ConnectionTransactions
from ottla.gateways.redis.error import ProtocolError, RedisError, failed
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.forwarded_commands import ForwardedCommands
from ottla.gateways.redis.logins import LoginMissingError
from ottla.gateways.redis.long_reply import LongReplyError, Span, SpanBrokenError
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.session import BlockError, OthersError, QuitError, Session
from ottla.gateways.redis.stream_log import Flush
from ottla.gateways.redis.transaction import MISSING
from ottla.gateways.redis.waiters import Waiter
from ottla.model.errors import ApiError
from ottla.native import StreamAdds
from ottla.network.config import LOGIN_MS

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.network.connection import Connection
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.network.response_queue import ResponseSlot
    from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

CHUNK_BYTES_MAX: Final = 256 * 1024
"""Answers beyond it are sent before more commands are run."""
UNWRITTEN_BYTES_MAX: Final = 16 * 1024 * 1024
"""A client that has sent so much of which the answers wait for the disk is not read from."""
ALL_UNWRITTEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""The same of all clients together: none is read from whose answers wait."""
COMMAND_BYTES: Final = 150
"""What a command takes that waits, beside its bytes."""
QUIT: Final = "the client quits"
KILLED: Final = "CLIENT KILL"

NOT_LOGGED_IN: Final = "NOAUTH Authentication required."
BEFORE_LOGIN: Final = frozenset({b"AUTH", b"HELLO", b"QUIT", b"RESET"})
"""What is served to who has to log in first."""

_Missing = (*MISSING, OthersError, LoginMissingError)


class RedisConnection:
    """Belongs to the event loop. A handler of `ottla.network.connection`."""

    def __init__(self, gateway: "RedisGateway", connection: "Connection", session: Session) -> None:
        self.gateway = gateway
        self.connection = connection
        self.session = session
        config = gateway.config
        self._reader = CommandReader(bulk_bytes_max=config.bulk_bytes_max, command_bytes_max=config.command_bytes_max)
        self._commands: deque[Command] = deque()
        self._slots: list[ResponseSlot] = []
        self._quota = TrafficQuota(
            gateway.broker.request_quotas,
            gateway.broker.timer,
            connection,
            lambda: (session.principal, session.name.decode(errors="replace")),
            self._pump_again,
        )
        self._answers = Answers(
            connection, gateway.keyspace, self._quota.pushed, self._pump_again, self._on_left, self._on_end
        )
        self._task: asyncio.Task[None] | None = None
        self._waiter: Waiter | None = None
        self._waits_until_ms: int | None = None  # of the command under way, if it has begun to wait
        self._forwarded = ForwardedCommands(self)
        self._transactions = ConnectionTransactions(self, self._forwarded)
        self._fetched: Fetched | None = None
        self._error: ProtocolError | None = None
        self._ends: str | None = None
        self._is_over = False
        self._has_said_all = False
        self._has_begun = False  # the next command: it ran before, and lacked something
        self._login_deadline: TimerTask | None = None
        if not session.is_known:
            self._login_deadline = gateway.broker.timer.schedule(LOGIN_MS, self._on_login_late)
        self._unwritten_bytes = 0  # of input since nothing waited for the disk
        self._queued_bytes = 0  # of the commands that wait, at most
        self.held_bytes = 0
        """Of input that has not become answers: a part of a command, and commands that wait for another."""

    def on_frame(self, data: memoryview, buffer: "ReceiveBuffer", slot: "ResponseSlot") -> None:
        """Bytes have arrived; they may hold many commands, or a part of one."""
        self._slots.append(slot)
        self._quota.begin()
        self._reader.feed(data)
        self._queued_bytes += len(data)
        self._unwritten_bytes += len(data)
        self.gateway.unwritten_bytes += len(data)
        if not (self._reader.is_limited and (self._commands or self._is_busy)):
            self._read()
        self.pump()
        self._quota.end()

    def _read(self) -> None:
        """Take the commands that are whole; of who has to log in first one at a time, for it may be what lets it."""
        reader = self._reader
        reader.is_limited = not self.session.is_known
        try:
            while commands := reader.commands():
                self._commands.extend(commands)
                if self._quota.is_counting:
                    self._quota.brings(sum(map(_size_of, commands)))
                if reader.is_limited or not reader.has_more:
                    return
        except ProtocolError as error:
            self._error = error

    def on_end_of_input(self) -> None:
        """The client sends nothing more, and so waits for nothing."""
        self._has_said_all = True
        if self._waiter is not None:
            self._waiter.time_out()

    def on_close(self) -> None:
        """The connection is gone."""
        self._is_over = True
        self._quota.stop()
        if self._login_deadline is not None:
            self._login_deadline.cancel()
        self.session.end_transaction()
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None
        if self._task is not None:
            self._task.cancel()
        self._commands.clear()
        self._reader.clear()
        self._answers.clear()
        self._answer_slots()
        self.gateway.unwritten_bytes -= self._unwritten_bytes
        self._unwritten_bytes = 0
        self.gateway.unfinished.move(self.held_bytes, 0)
        self.held_bytes = 0
        self.gateway.forget(self)

    def _on_login_late(self) -> None:
        if not self.session.is_known:
            self.connection.close(f"it did not log in within {LOGIN_MS} ms")

    # --- commands ---------------------------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        return (
            self._task is not None
            or self._waiter is not None
            or self._answers.is_full
            or (self._quota.is_resting and not self._has_begun)
            or self._is_over
        )

    def pump(self) -> None:
        """Run the commands that are here, as far as nothing has to be waited for."""
        self.session.now_ms = self.gateway.broker.clock.now_ms()
        while self._commands and not self._is_busy and self._ends is None:
            command = self._commands.popleft()
            if isinstance(command, list):
                self._run(command)
            elif not self._add_all(command):
                self._commands.extendleft(reversed(command.commands()))
            if self._answers.size > CHUNK_BYTES_MAX:
                self._finish_chunk()
            if self._reader.is_limited and not self._commands and not self._is_busy and self._ends is None:
                self._read()
        if self._error is not None and not self._commands and not self._is_busy and self._ends is None:
            self._answer(replies.error(self._error.line))
            self._ends = str(self._error)
        self._finish_chunk()
        if not self._commands:
            self._queued_bytes = 0
        self._on_left()
        self._count_held()

    def _on_left(self) -> None:
        """Commands have run, or answers have left. What is not answered in the end is held, and where much waits for
        the disk the input too: then nothing more is read.
        """
        gateway, waits = self.gateway, self._answers.are_waiting
        if not waits:
            gateway.unwritten_bytes -= self._unwritten_bytes
            self._unwritten_bytes = 0
        if self._commands or self._is_busy:
            return
        if not waits:
            self._answer_slots()
        elif self._unwritten_bytes < UNWRITTEN_BYTES_MAX and gateway.unwritten_bytes < ALL_UNWRITTEN_BYTES_MAX:
            last = self._slots.pop() if self._slots else None
            self._answer_slots()
            if last is not None:
                self._slots.append(last)

    def _count_held(self) -> None:
        before = self.held_bytes
        self.held_bytes = self._reader.held_bytes + self._queued_bytes + COMMAND_BYTES * len(self._commands)
        if before != self.held_bytes and not self.gateway.unfinished.move(before, self.held_bytes):
            self.gateway.close_largest_unfinished()

    def _add_all(self, adds: StreamAdds) -> bool:
        """Run commands that add entries to one stream together; False, and none has run, where each is to run by
        itself: it may be refused, wait, or change what the next one sees.
        """
        session, gateway = self.session, self.gateway
        if not gateway.is_ready or gateway.keyspace.is_holding or self._has_begun or self._quota.is_counting:
            return False
        session.look_for_user()
        if not session.is_known or session.queued is not None or session.access is not None:
            return False
        replies = add_all(session, adds)
        if replies is None:
            return False
        session.commands += len(adds)
        gateway.commands_total += len(adds)
        session.last_command = "xadd"
        session.wrote(adds.key)
        gateway.statistics.ran("xadd", count=len(adds))
        self._answer(replies)
        return True

    def _run(self, arguments: list[bytes]) -> None:
        session = self.session
        self._has_begun = False
        session.commands += 1
        self.gateway.commands_total += 1
        if not self.gateway.is_ready or self.gateway.keyspace.is_holding:
            self._spawn(self._run_later(arguments))
            return
        fetched = self._fetched
        if fetched is not None:
            fetched.hold()
        try:
            session.look_for_user()
            if not session.is_known and arguments[0].upper() not in BEFORE_LOGIN:
                raise RedisError(NOT_LOGGED_IN)
            if session.queued is not None or (name := arguments[0].upper()) in TRANSACTION:
                self._transactions.run(arguments[0].upper(), arguments)
            else:
                self._answer(call(session, arguments, name))
        except RedisError as error:
            self._fail(error)
        except (*_Missing, ElsewhereError, LongReplyError) as later:
            self._run_in_task(arguments, later)
            return
        except BlockError as block:
            self._wait(block)
        except QuitError:
            self._answer(replies.OK.data)
            self._ends = QUIT
        if session.is_killed:
            self._ends = KILLED
        self._forget_fetched()
        if self.gateway.waiters.changed_places:
            self.gateway.serve_waiters()

    def _run_in_task(self, arguments: list[bytes], later: Exception) -> None:
        """A command lacks something, or is answered bit by bit."""
        if isinstance(later, ElsewhereError):
            self._spawn(self._forwarded.run(arguments, later))
        elif isinstance(later, LongReplyError):
            awaited = set(self.gateway.keyspace.awaited)  # the answers before it rest on some of that too
            self._finish_chunk()
            self._answers.take_awaited()
            self._forget_fetched()
            task = self._spawn(self._send_long(later.parts, awaited))
            task.add_done_callback(lambda _, reply=later: reply.end())  # type: ignore[misc]
        else:
            self._spawn(self._fetch_and_run(arguments, later))

    def _forget_fetched(self) -> None:
        self.session.others = None
        if self._fetched is not None:
            self._fetched = None
            self.gateway.keyspace.cache.trim()

    def _fail(self, error: RedisError) -> None:
        self.gateway.statistics.answered(error.line)
        if self.session.queued is not None:
            self.session.has_failed = True
        self._answer(replies.error(error.line))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._finish_chunk()
        task = self._task = self.gateway.broker.tasks.spawn(self._guarded(work), "redis-command")

        def done(task: asyncio.Task[None]) -> None:
            self._task = None
            work.close()  # where the client was gone before it began
            if self._is_over or task.cancelled():
                return
            if task.exception() is not None:
                self.connection.close("a command failed")
            else:
                self.pump()

        task.add_done_callback(done)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LostError as error:
            self.connection.fail(f"{LOST}: {error}")
        except ApiError as error:
            self._fetched = None
            self._fail(failed(error))
        except RedisError as error:
            self._fetched = None
            self._fail(error)

    async def _run_later(self, arguments: list[bytes]) -> None:
        await self.gateway.until_free()
        self._run_again(arguments)

    async def _fetch_and_run(self, arguments: list[bytes], missing: Exception) -> None:
        if isinstance(missing, OthersError):
            self.session.others = await self.gateway.forwarding.run_everywhere(self.session, missing.arguments)
        else:
            self._fetched = self._fetched or Fetched()
            await self.gateway.fetch(missing, self._fetched, self.session)
        self._run_again(arguments)

    def _run_again(self, arguments: list[bytes]) -> None:
        """Put a command back to where it was: it runs when the task is over."""
        self._commands.appendleft(arguments)
        self._has_begun = True
        self.session.commands -= 1
        self.gateway.commands_total -= 1

    # --- what other brokers have answered -----------------------------------------------------------------------------

    @property
    def next_command(self) -> list[bytes] | None:
        """The command behind the one under way, if it is here."""
        if not self._commands:
            return None
        command = self._commands[0]
        if isinstance(command, list):
            return command
        self._commands.popleft()
        self._commands.extendleft(reversed(command.commands()))
        return self.next_command

    def take_next(self) -> None:
        """The next command runs elsewhere."""
        self._commands.popleft()

    def put_back(self, commands: list[list[bytes]]) -> None:
        """Commands that were taken have not run: they come next."""
        for arguments in reversed(commands):
            self._run_again(arguments)

    def give(self, data: bytes) -> None:
        """The reply to the command under way."""
        self._answer(data)

    def begin_task(self, work: Coroutine[Any, Any, None]) -> None:
        """The command under way goes on in a task; those behind it wait."""
        self._spawn(work)

    def finish_answers(self) -> None:
        """What has been answered may leave."""
        self._finish_chunk()

    def block(self, block: BlockError) -> None:
        """The command under way waits."""
        self._wait(block)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self, block: BlockError) -> None:
        self._finish_chunk()
        now_ms = self.gateway.broker.clock.monotonic_ms()
        if self._waits_until_ms is None:
            self._waits_until_ms = now_ms + block.timeout_ms
        left_ms = max(1, self._waits_until_ms - now_ms) if block.timeout_ms else 0
        self._waiter = Waiter(self.gateway.waiters, self, block, left_ms)
        self.gateway.remote_waits.begin()
        if self._has_said_all:
            self._waiter.time_out()

    def woken(self, waiter: Waiter) -> bool:
        """A key has changed for which the client waits: run the command again; returns whether it waits no more."""
        session, keyspace = self.session, self.gateway.keyspace
        awaited, keyspace.awaited = keyspace.awaited, set()
        session.now_ms = self.gateway.broker.clock.now_ms()
        try:
            session.look_for_user()
            if not session.is_known:
                raise RedisError(NOT_LOGGED_IN)
            self._answer(call(session, waiter.arguments))
        except BlockError:
            return False
        except RedisError as error:
            self._fail(error)
        except (*_Missing, ElsewhereError, LongReplyError) as later:
            if isinstance(later, LongReplyError):
                later.end()
            self._commands.appendleft(waiter.arguments)
        finally:
            self._finish_chunk()
            keyspace.awaited = awaited
        self._waited(waiter)
        return True

    def timed_out(self, waiter: Waiter, error: bytes | None) -> None:
        """The time of a command is up."""
        self.gateway.statistics.ran(waiter.arguments[0].decode().lower())
        if error is not None:
            self.gateway.statistics.answered(error)
        self._answer(replies.error(error) if error else replies.encode(replies.NULL_ARRAY, self.session.protocol))
        self._finish_chunk()
        self._waited(waiter)

    def unblock(self, *, with_error: bool) -> bool:
        """CLIENT UNBLOCK; returns whether a command waited."""
        if self._waiter is None:
            return False
        self._waiter.time_out(b"UNBLOCKED client unblocked via CLIENT UNBLOCK" if with_error else None)
        return True

    def _waited(self, waiter: Waiter) -> None:
        self._waiter = None
        asyncio.get_running_loop().call_soon(self._pump_again)

    def _pump_again(self) -> None:
        if not self._is_over:
            self.pump()

    # --- answers ----------------------------------------------------------------------------------------------------

    async def _send_long(self, parts: list[bytes | Span], awaited: set[Flush]) -> None:
        try:
            await self._answers.send_long(parts, awaited)
        except (ApiError, SpanBrokenError) as error:
            self.connection.fail(f"a reply could not be sent to its end: {error}")

    def _answer(self, data: bytes) -> None:
        self._waits_until_ms = None
        self._answers.add(data)

    def _finish_chunk(self) -> None:
        self._answers.finish(self._ends)

    def _on_end(self, reason: str) -> None:
        """The last answer has left."""
        if self._is_over:
            return
        self._commands.clear()
        self._answer_slots()
        if reason in (QUIT, KILLED):
            self.connection.drain()
        else:
            self.connection.fail(reason)

    def _answer_slots(self) -> None:
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.skip()


def _size_of(command: Command) -> int:
    return sum(map(len, command)) if isinstance(command, list) else command.size_bytes
