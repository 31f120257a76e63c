"""Random scripts of stream commands, and how their replies are compared between two servers.

Ids are drawn from a small set, so that commands meet: what one adds another deletes, claims or trims. Half of what is
said is a little wrong, for errors are compared as well.
"""

from __future__ import annotations

import random
from typing import Any

from tests.redis_client import RawRedis, ReplyError

Command = tuple[str | bytes, ...]

TOGETHER = 50
"""Commands that are sent as one."""
KEYS = ("s", "t", "user:1")
GROUPS = ("g", "h")
CONSUMERS = ("alice", "bob", "carol")
LEFT = {"TTL": 60, "EXPIRETIME": 60, "PTTL": 60_000, "PEXPIRETIME": 60_000}
"""What is answered with a time, and how far that may be off: a minute, for a script takes a while."""
TIMES = frozenset({b"idle", b"inactive", b"seen-time", b"active-time", b"radix-tree-nodes"})
"""What depends on when a command ran, or on what is not Redis' business."""
NEWER = frozenset(
    {
        b"inactive",
        b"active-time",
        b"nacked-count",
        b"idmp-duration",
        b"idmp-maxsize",
        b"pids-tracked",
        b"iids-tracked",
        b"iids-added",
        b"iids-duplicates",
    }
)
"""What releases behind 7.0 added to XINFO."""
UNBALANCED = "list of streams: for each stream key an ID"


class Script:
    """Draws commands. The same seed gives the same script."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = 1

    def draw(self) -> list[Command]:
        """A command, or some that belong together."""
        choice = self.random.random
        kinds = (
            (0.30, self.add),
            (0.08, self.delete),
            (0.06, self.trim),
            (0.10, self.read_range),
            (0.05, self.read),
            (0.13, self.read_group),
            (0.08, self.acknowledge),
            (0.06, self.group),
            (0.06, self.claim),
            (0.05, self.pending),
            (0.06, self.info),
            (0.03, self.key),
            (0.01, self.set_id),
            (0.03, self.odd),
        )
        at = choice() * sum(weight for weight, _ in kinds)
        for weight, kind in kinds:
            at -= weight
            if at < 0:
                return kind()
        return self.add()

    def one(self, *words: str) -> str:
        return self.random.choice(words)

    def maybe(self, chance: float, *words: str) -> tuple[str, ...]:
        return words if self.random.random() < chance else ()

    @property
    def stream(self) -> str:
        return self.random.choices(KEYS, (6, 2, 1))[0]

    @property
    def name(self) -> str:
        return self.random.choices((*GROUPS, "nobody"), (8, 3, 1))[0]

    @property
    def consumer(self) -> str:
        return self.one(*CONSUMERS)

    @property
    def entry_id(self) -> str:
        draw = self.random.random()
        if draw < 0.75:
            return f"{self.random.randint(max(1, self.clock - 60), self.clock + 1)}-{self.random.randint(0, 2)}"
        if draw < 0.9:
            return str(self.random.randint(0, self.clock + 2))
        return self.one("0", "0-0", "-", "+", "$", "x", "18446744073709551615-18446744073709551615", "007", "1-2-3", "")

    @property
    def border(self) -> str:
        return self.one("-", "+", self.entry_id, self.entry_id, "(" + self.entry_id)

    @property
    def count(self) -> str:
        return self.random.choices((str(self.random.randint(1, 5)), "0", "-1", "100", "abc"), (8, 1, 1, 2, 1))[0]

    def fields(self) -> list[str]:
        shape = self.random.random()
        if shape < 0.5:
            names = ["name", "value"]
        elif shape < 0.8:
            names = [self.one("a", "b", "7", "")]
        else:
            names = [self.one("a", "b", "c") for _ in range(self.random.randint(1, 4))]
        value = (str(self.random.randint(-5000, 5000)), "x" * self.random.randint(0, 90), "y" * 700, "0", "-0", "00")
        return [word for name in names for word in (name, self.random.choices(value, (6, 6, 1, 1, 1, 1))[0])]

    def strategy(self) -> tuple[str, ...]:
        kind = self.one("MAXLEN", "MINID")
        mark = self.maybe(0.7, self.one("~", "~", "="))
        if kind == "MAXLEN":
            threshold = self.random.choices((str(self.random.randint(0, 300)), "-1", "x"), (20, 1, 1))[0]
        else:
            threshold = self.entry_id
        return kind, *mark, threshold, *self.maybe(0.15, "LIMIT", self.one("0", "1", "10", "50", "-1"))

    def add(self) -> list[Command]:
        options = self.maybe(0.1, "NOMKSTREAM") + (self.strategy() if self.random.random() < 0.12 else ())
        made: list[Command] = []
        for _ in range(self.random.choices((1, 20), (9, 1))[0]):
            if self.random.random() < 0.85:
                self.clock += self.random.randint(0, 1)
                number = self.one("0", "1", "*", "*", "*")
                text = f"{self.clock}-{number}"
            else:
                text = self.entry_id
            made.append(("XADD", self.stream, *options, text, *self.fields(), *self.maybe(0.01, "odd")))
        return made

    def delete(self) -> list[Command]:
        ids = [self.entry_id for _ in range(self.random.randint(1, 4))]
        return [("XDEL", self.stream, *(each for each in ids if not each.startswith("1844")))]

    def trim(self) -> list[Command]:
        return [("XTRIM", self.stream, *self.strategy())]

    def read_range(self) -> list[Command]:
        name = self.one("XRANGE", "XREVRANGE")
        borders = ("-", "+") if name == "XRANGE" else ("+", "-")
        if self.random.random() < 0.7:
            borders = self.border, self.border
        return [(name, self.stream, *borders, *self.maybe(0.6, "COUNT", self.count)), ("XLEN", self.stream)]

    def read(self) -> list[Command]:
        keys = [self.stream for _ in range(self.random.randint(1, 2))]
        ids = [self.one("0", "$", self.entry_id, self.entry_id).replace("+", "5-1") for _ in keys]
        return [("XREAD", *self.maybe(0.6, "COUNT", self.count), "STREAMS", *keys, *ids, *self.maybe(0.03, "more"))]

    def read_group(self) -> list[Command]:
        key, group, consumer = self.stream, self.name, self.consumer
        entry_id = self.random.choices((">", "0", self.entry_id, "$"), (14, 3, 3, 1))[0]
        options = self.maybe(0.7, "COUNT", self.count) + self.maybe(0.1, "NOACK")
        return [
            # Releases behind 7.0 make the consumer even when there is nothing to read.
            ("XGROUP", "CREATECONSUMER", key, group, consumer),
            ("XREADGROUP", "GROUP", group, consumer, *options, "STREAMS", key, entry_id),
        ]

    def acknowledge(self) -> list[Command]:
        return [("XACK", self.stream, self.name, *(self.entry_id for _ in range(self.random.randint(1, 6))))]

    def group(self) -> list[Command]:
        key, group = self.stream, self.name
        start = self.one("0", "$", self.entry_id)
        # Above what was ever added, releases behind 7.0 take less.
        read = self.maybe(0.2, "ENTRIESREAD", self.one("0", "-1", "-2", "x"))
        match self.random.randint(0, 9):
            case 0 | 1 | 2 | 3:
                return [("XGROUP", "CREATE", key, group, start, *self.maybe(0.5, "MKSTREAM"), *read)]
            case 4 | 5:
                return [("XGROUP", "SETID", key, group, start, *read)]
            case 6:
                return [("XGROUP", "DESTROY", key, group)] if self.random.random() < 0.4 else []
            case 7:
                return [("XGROUP", "CREATECONSUMER", key, group, self.consumer)]
            case 8:
                return [("XGROUP", "DELCONSUMER", key, group, self.consumer)]
        return [("XGROUP", self.one("CREATE", "SETID", "FOO", "destroy"), *self.maybe(0.7, key))]

    def claim(self) -> list[Command]:
        key, group, consumer = self.stream, self.name, self.consumer
        idle = self.one("0", "0", "0", "100000000", "-1", "x")
        made = ("XGROUP", "CREATECONSUMER", key, group, consumer)
        if self.random.random() < 0.4:
            start = self.one("0", "-", self.entry_id, "(" + self.entry_id)
            options = self.maybe(0.5, "COUNT", self.count) + self.maybe(0.3, "JUSTID") + self.maybe(0.05, "FOO")
            return [made, ("XAUTOCLAIM", key, group, consumer, idle, start, *options)]
        ids = [self.entry_id for _ in range(self.random.randint(1, 5))]
        options = (
            self.maybe(0.2, "IDLE", self.one("0", "1000", "-5", "x"))
            + self.maybe(0.1, "TIME", self.one("1000", "99999999999999"))
            + self.maybe(0.2, "RETRYCOUNT", self.one("0", "7", "-1"))
            + self.maybe(0.3, "FORCE")
            + self.maybe(0.3, "JUSTID")
            + self.maybe(0.1, "LASTID", self.entry_id)
        )
        return [made, ("XCLAIM", key, group, consumer, idle, *ids, *options)]

    def pending(self) -> list[Command]:
        key, group = self.stream, self.name
        if self.random.random() < 0.4:
            return [("XPENDING", key, group)]
        idle = self.maybe(0.2, "IDLE", self.one("0", "100000000", "x"))
        return [("XPENDING", key, group, *idle, self.border, self.border, self.count, *self.maybe(0.4, self.consumer))]

    def info(self) -> list[Command]:
        key = self.one(self.stream, "nothing")
        match self.random.randint(0, 4):
            case 0 | 1:
                return [("XINFO", "STREAM", key, *self.maybe(0.6, "FULL", *self.maybe(0.5, "COUNT", self.count)))]
            case 2:
                return [("XINFO", "GROUPS", key)]
            case 3:
                return [("XINFO", "CONSUMERS", key, self.name)]
        return [("XINFO", self.one("STREAM", "FOO", "GROUPS"))]

    def key(self) -> list[Command]:
        key = self.stream
        other = self.stream
        command: Command = self.random.choices(
            (
                ("DEL", key),
                ("EXISTS", key, other, "nothing"),
                ("TYPE", key),
                ("RENAME", key, other),
                ("RENAMENX", key, other),
                ("COPY", key, other, *self.maybe(0.5, "REPLACE"), *self.maybe(0.1, "DB", self.one("0", "99", "x"))),
                ("OBJECT", "ENCODING", key),
                (self.one("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"), key),
                ("PERSIST", key),
                (
                    "EXPIRE",
                    key,
                    str(self.random.randint(10**5, 10**9)),
                    *self.maybe(0.5, self.one("NX", "XX", "GT", "LT", "ZZ")),
                ),
                ("PEXPIRE", key, self.one("-1", "x", "90000000")),
                (
                    "PEXPIREAT",
                    key,
                    str(4 * 10**12 + self.random.randint(0, 10**11)),
                    *self.maybe(0.3, self.one("NX", "XX", "GT", "LT")),
                ),
                ("DBSIZE",),
                ("UNLINK", key, other),
                ("SELECT", self.one("0", "0", "0", "99", "x")),
            ),
            (1, 3, 2, 1, 1, 3, 2, 4, 2, 3, 1, 1, 2, 1, 2),
        )[0]
        return [command]

    def set_id(self) -> list[Command]:
        # Below what was deleted, and in an empty stream, 7.0 answers one way or the other.
        self.clock += 1
        added = self.maybe(0.3, "ENTRIESADDED", self.one("0", "1000", "-1", "x"))
        deleted = self.maybe(0.3, "MAXDELETEDID", self.entry_id)
        return [("XSETID", self.stream, self.one(f"{self.clock}-1", "x", "-"), *added, *deleted)]

    def odd(self) -> list[Command]:
        key = self.stream
        return [
            self.random.choice(
                (
                    ("XADD", key),
                    ("XADD", key, "*"),
                    ("XADD", key, "MAXLEN", "~", "5", "LIMIT", "1"),
                    ("XRANGE", key, "-"),
                    ("XREAD", "STREAMS", key),
                    ("XREAD", "COUNT", "1", "BLOCK", "x", "STREAMS", key, "0"),
                    ("XREAD", "BLOCK", "-1", "STREAMS", key, "0"),
                    ("XREAD", "GROUP", "g", "alice", "STREAMS", key, "0"),
                    ("XREAD", "STREAMS", key, ">"),
                    ("XREADGROUP", "COUNT", "1", "NOACK", "STREAMS", key, "0", "1"),
                    ("NOSUCH", "a", "b"),
                    ("XTRIM", key, "FOO", "1"),
                    ("XTRIM", key, "MAXLEN"),
                    ("XGROUP", "CREATE", key),
                    ("XINFO",),
                    ("XSETID", key),
                    ("XPENDING", key, "g", "-", "+"),
                    ("XPENDING", key),
                    ("ECHO", "hello"),
                    ("PING",),
                    ("PING", "hello"),
                    ("MULTI",),
                    ("EXEC",),
                    ("DISCARD",),
                    ("XCLAIM", key, "g", "alice", "0", "1-0", "FOO"),
                )
            )
        ]


WITHIN_MULTI = frozenset(
    {
        "ERR MULTI calls can not be nested",
        "ERR WATCH inside MULTI is not allowed",
        "ERR Command not allowed inside a transaction",  # of Valkey
    }
)


class About:
    """A number that is the same as another one not far away."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: int, tolerance: int) -> None:
        self.value = value
        self.tolerance = tolerance

    def __eq__(self, other: object) -> bool:
        return isinstance(other, About) and abs(self.value - other.value) <= self.tolerance

    def __repr__(self) -> str:
        return f"about {self.value}"


def comparable(command: Command, reply: Any) -> Any:
    """A reply without what two servers need not agree on."""
    name = str(command[0]).upper()
    if isinstance(reply, ReplyError):
        if str(reply) in WITHIN_MULTI:
            return "not within MULTI"
        if name == "XREADGROUP" and "+" in command and ("meaningless" in reply or "Invalid stream ID" in reply):
            return "an ID of XREAD"  # 7.0 does not know it
        return "an unbalanced list" if "nbalanced" in reply else str(reply)
    if name == "XPENDING" and len(command) > 3 and isinstance(reply, list):
        return [[row[0], row[1], "some time", row[3]] for row in reply]
    if name == "XINFO":
        return _without_times(reply)
    if name in LEFT and isinstance(reply, int) and reply > 0:
        return About(reply, LEFT[name])
    return reply


def _without_times(value: Any) -> Any:
    """XINFO's rows as dicts, whichever protocol."""
    if not isinstance(value, list):
        return value
    if value[:1] == ["%"]:
        return _row({pair[0]: pair[1] for pair in value[1:]})
    if len(value) % 2 == 0 and value and value[0] in (b"length", b"name"):
        return _row(dict(zip(value[::2], value[1::2], strict=True)))
    return [_without_times(each) for each in value]


def _row(row: dict[bytes, Any]) -> dict[bytes, Any]:
    made = {name: _without_times(each) for name, each in row.items() if name not in TIMES and name not in NEWER}
    pending = made.get(b"pending")
    if isinstance(pending, list):
        made[b"pending"] = [[*row[:-2], row[-1]] for row in pending]
    if b"lag" in made and b"pel-count" not in made:
        _forget_position(made)  # whether 7.0 counts as others do depends on the stream, which is not in this reply
    groups = made.get(b"groups")
    if isinstance(groups, list) and (
        made[b"length"] != made[b"entries-added"] or made[b"max-deleted-entry-id"] != b"0-0"
    ):
        for group in groups:
            _forget_position(group)
    return made


def _forget_position(group: dict[bytes, Any]) -> None:
    """Releases behind 7.0 count otherwise where entries are gone."""
    del group[b"lag"], group[b"entries-read"]


def first_difference(left: RawRedis, right: RawRedis, commands: list[Command]) -> tuple[int, Command, Any, Any] | None:
    """Where two servers differ: at which command, and what they answer; None where they agree."""
    queued: list[Command] = []
    for start in range(0, len(commands), TOGETHER):
        some = commands[start : start + TOGETHER]
        for index, (command, *replies) in enumerate(zip(some, left.pipeline(some), right.pipeline(some), strict=True)):
            if command == ("EXEC",) and all(isinstance(reply, list) for reply in replies):
                ours, theirs = ([comparable(*each) for each in zip(queued, reply, strict=True)] for reply in replies)
            else:
                ours, theirs = (comparable(command, reply) for reply in replies)
            if isinstance(ours, str) and ours.startswith(("EXECABORT CROSSSLOT", "CROSSSLOT")):
                return None  # keys that were renamed may have several leaders: what follows is not comparable
            if ours != theirs:
                return start + index, command, ours, theirs
            if replies[0] == "+QUEUED":
                queued.append(command)
            elif command in (("EXEC",), ("DISCARD",), ("MULTI",)):
                queued = []
    return None


def shrunk(left: RawRedis, right: RawRedis, script: list[list[Command]]) -> list[list[Command]]:
    """A shorter script in which they differ as well; commands that belong together stay so."""

    def differs(tried: list[list[Command]]) -> bool:
        begin_anew(left, right)
        return first_difference(left, right, flat(tried)) is not None

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


def flat(script: list[list[Command]]) -> list[Command]:
    """The commands of a script."""
    return [command for some in script for command in some]


def begin_anew(*servers: RawRedis) -> None:
    """Have no keys, whatever was under way."""
    for each in servers:
        each.call("DISCARD")
        each.call("SELECT", "0")
        each.call("FLUSHALL")


def lead_all(address: tuple[str, int]) -> None:
    """Have the broker there lead all keys of scripts that there are not, for as long as their topics are kept."""
    with RawRedis(address) as client:
        for key in KEYS:
            client.call("DEL", key)
            client.call("XADD", key, "1-1", "a", "b")
            client.call("DEL", key)


def drawn_script(seed: int, size: int) -> list[list[Command]]:
    """About so many commands."""
    drawn, script = Script(seed), list[list[Command]]()
    while sum(map(len, script)) < size:
        script.append(drawn.draw())
    return script


def compare(
    left: tuple[str, int], right: tuple[str, int], seed: int, size: int, *, without: frozenset[str] = frozenset()
) -> tuple[int, str | None]:
    """Run one script, without some commands, against two servers; how many it had, and how the two differ."""
    protocol = 2 + seed % 2
    with RawRedis(left, protocol) as ours, RawRedis(right, protocol) as theirs:
        begin_anew(ours, theirs)
        script = [some for some in drawn_script(seed, size) if without.isdisjoint(str(each[0]) for each in some)]
        commands = flat(script)
        difference = first_difference(ours, theirs, commands)
        if difference is None:
            return len(commands), None
        short = flat(shrunk(ours, theirs, script))
        begin_anew(ours, theirs)
        again = first_difference(ours, theirs, short) or difference
        lines = [" ".join(map(str, command)) for command in short]
        return len(commands), "\n".join([f"seed {seed}:", *lines, f"ours   {again[2]}", f"theirs {again[3]}"])
