"""Scripts run against two servers of Redis' protocol, reply by reply.

A script is a list of steps, some of which belong together. One client sends them, in pipelines; or two take turns:

    client 0   XADD s ..             EXEC
    client 1            XREAD BLOCK ........ its reply is read at END, and CLIENT UNBLOCK makes it come
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.conformance.redis_replies import Command, comparable
from tests.conformance.redis_scripts import KEYS
from tests.conformance.redis_steps import Kind, Script, Step, Steps, flat, without_nesting
from tests.redis_client import RawRedis, encoded

Address = tuple[str, int]

TOGETHER = 50
"""Commands that are sent as one."""
LOOK_S = 0.05
"""After CLIENT UNBLOCK had nothing to do, the reply is on its way: so long it is waited for before the next look."""
CROSSED = ("EXECABORT CROSSSLOT", "CROSSSLOT")
"""Keys that were renamed have several leaders: what follows is not comparable."""
ALL_KEYS = "ERR commands on all keys are not served in MULTI by several brokers"


class NoReplyError(Exception):
    """A server did not answer, or closed the connection."""


class Difference(NamedTuple):
    """Two servers answer a step in two ways."""

    number: int
    step: Step
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        words = " ".join(map(str, self.step.command))
        return f"step {self.number}, client {self.step.client}: {words}\nours   {self.ours}\ntheirs {self.theirs}"


class _Client:
    """A connection, and another one to the same server that sees whether it waits."""

    def __init__(self, server: str, address: Address, protocol: int) -> None:
        self._server = server
        try:
            self.connection = RawRedis(address, protocol)
            self._control = RawRedis(address)
            self._id = str(self.connection.call("CLIENT", "ID"))
        except (OSError, EOFError) as error:
            raise NoReplyError(f"{server} at {address} does not serve: {error or type(error).__name__}") from error

    def close(self) -> None:
        self.connection.close()
        self._control.close()

    def run(self, commands: list[Command]) -> list[Any]:
        """The replies to commands that are sent together."""
        replies: list[Any] = []
        try:
            self.connection.socket.sendall(b"".join(map(encoded, commands)))
            while len(replies) < len(commands):
                replies.append(self.connection.reply())
        except (OSError, EOFError) as error:
            raise self._silence(commands[min(len(replies), len(commands) - 1)], error) from error
        return replies

    def begin(self, command: Command) -> None:
        """Send a command, and wait until it is answered or waits."""
        try:
            self.connection.send(*command)
            while not self.connection.has_reply(0) and not self._waits():
                pass
        except (OSError, EOFError) as error:
            raise self._silence(command, error) from error

    def _waits(self) -> bool:
        return b"blocked_clients:0\r\n" not in self._control.call("INFO", "clients")

    def end(self, command: Command) -> Any:
        """The reply to the command that was begun, which waits no more."""
        try:
            while not self.connection.has_reply(0) and not self._control.call("CLIENT", "UNBLOCK", self._id):
                if self.connection.has_reply(LOOK_S):
                    break
            return self.connection.reply()
        except (OSError, EOFError) as error:
            raise self._silence(command, error) from error

    def _silence(self, command: Command, error: Exception) -> NoReplyError:
        words = " ".join(map(str, command))[:300]
        return NoReplyError(f"{self._server} does not answer {words}: {error or type(error).__name__}")


class Server:
    """One of the two, and its clients, as long as the block lasts. Raises NoReplyError."""

    def __init__(self, name: str, addresses: list[Address], protocol: int) -> None:
        self._name = name
        self._addresses = addresses
        self._protocol = protocol
        self._clients: list[_Client] = []
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        for address in self._addresses:
            client = _Client(self._name, address, self._protocol)
            self._exits.callback(client.close)
            self._clients.append(client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def begin_anew(self) -> None:
        """Have no keys, whatever was under way."""
        for client in self._clients:
            client.run([("DISCARD",), ("UNWATCH",), ("SELECT", "0")])
        self._clients[0].run([("FLUSHALL",)])

    def replies(self, steps: Steps) -> list[Any]:
        """The replies to neighbouring steps of one client that are taken in the same way."""
        client = self._clients[steps[0].client]
        match steps[0].kind:
            case Kind.RUN:
                return client.run([step.command for step in steps])
            case Kind.BEGIN:
                (step,) = steps
                client.begin(step.command)
                return [None]
            case Kind.END:
                (step,) = steps
                return [client.end(step.command)]


def first_difference(left: Server, right: Server, steps: Steps, together: int = TOGETHER) -> Difference | None:
    """Where two servers differ first; None where they agree. Raises NoReplyError."""
    queued: dict[int, list[Command]] = {}
    number = 0
    for some in _sent_as_one(steps, together):
        for step, *replies in zip(some, left.replies(some), right.replies(some), strict=True):
            number += 1
            command, mine = step.command, queued.setdefault(step.client, [])
            if command == ("EXEC",) and all(isinstance(reply, list) for reply in replies):
                ours, theirs = ([comparable(*each) for each in zip(mine, reply, strict=True)] for reply in replies)
            else:
                ours, theirs = (comparable(command, reply) for reply in replies)
            if isinstance(ours, str) and ours.startswith(CROSSED):
                return None
            if not _agree(ours, theirs):
                return Difference(number, step, ours, theirs)
            if replies[0] == "+QUEUED":
                mine.append(command)
            elif command in (("EXEC",), ("DISCARD",)):
                mine.clear()
    return None


def _agree(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list) and ALL_KEYS in ours:
        return isinstance(theirs, list) and all(map(_agree, ours, theirs))
    return bool(ours in (theirs, ALL_KEYS))


def _sent_as_one(steps: Steps, together: int) -> list[Steps]:
    found: list[Steps] = []
    for (_, kind), group in groupby(steps, key=lambda step: (step.client, step.kind)):
        some = list(group)
        size = together if kind is Kind.RUN else 1
        found += [some[at : at + size] for at in range(0, len(some), size)]
    return found


def shrunk(script: Script, differs: Callable[[Script], bool]) -> Script:
    """A shorter script of which the same is true; steps that belong together stay so."""
    size = len(script) // 2
    while size:
        at = 0
        while at < len(script):
            tried = script[:at] + script[at + size :]
            if differs(tried):
                script = tried
            else:
                at += size
        size //= 2
    return script


def lead_all(address: Address) -> None:
    """Have the broker there lead all keys of scripts that there are not, for as long as their topics are kept."""
    with RawRedis(address) as client:
        for key in KEYS:
            client.call("DEL", key)
            client.call("XADD", key, "1-1", "a", "b")
            client.call("DEL", key)


def compare(
    ours: list[Address],
    theirs: list[Address],
    seed: int,
    script: Script,
    *,
    together: int = TOGETHER,
    nests: bool = True,
) -> str | None:
    """Run a script against two servers, at an address for each client; how the two differ, if they do. With `nests`,
    MULTI and WATCH inside MULTI are among its steps. Raises NoReplyError.
    """
    protocol = 2 + seed % 2
    head = f"seed {seed}, RESP{protocol}"
    with Server("the broker", ours, protocol) as left, Server("the other server", theirs, protocol) as right:

        def found(tried: Script) -> Difference | None:
            left.begin_anew()
            right.begin_anew()
            steps = flat(tried) if nests else without_nesting(flat(tried))
            return first_difference(left, right, steps, together)

        try:
            difference = found(script)
        except NoReplyError as error:
            raise NoReplyError(f"{head}: {error}") from error
        if difference is None:
            return None
        try:
            short = shrunk(script, lambda tried: found(tried) is not None)
            again = found(short)
        except NoReplyError as error:
            raise NoReplyError(f"{head}: {error}\nwhile a shorter script was looked for of\n{difference}") from error
    if again is None:
        return f"{head}, as the whole script was run, and not when it was run again:\n{difference}"
    lines = [f"{step.client} {step.kind.value:<5} {' '.join(map(str, step.command))}" for step in flat(short)]
    return "\n".join([f"{head}:", *lines, str(again)])
