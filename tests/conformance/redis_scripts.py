"""Random scripts of stream commands.

Ids are drawn from a small set, so that commands meet: what one adds another deletes, claims or trims. Half of what is
said is a little wrong, for errors are compared as well.
"""

from __future__ import annotations

import random

from tests.conformance.redis_replies import Command
from tests.conformance.redis_steps import Step

KEYS = ("s", "t", "user:1")
GROUPS = ("g", "h")
CONSUMERS = ("alice", "bob", "carol")


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
    def streams(self) -> list[str]:
        return [self.stream for _ in range(self.random.choices((1, 2), (4, 1))[0])]

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
        keys, group, consumer = self.streams, self.name, self.consumer
        ids = [self.random.choices((">", "0", self.entry_id, "$"), (14, 3, 3, 1))[0] for _ in keys]
        options = self.maybe(0.7, "COUNT", self.count) + self.maybe(0.1, "NOACK")
        return [
            # Releases behind 7.0 make the consumer even when there is nothing to read.
            *(("XGROUP", "CREATECONSUMER", key, group, consumer) for key in keys),
            ("XREADGROUP", "GROUP", group, consumer, *options, "STREAMS", *keys, *ids),
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
                ("SELECT", self.one("0", "0", "0", "1", "99", "x")),
                ("MOVE", key, self.one("0", "1", "1", "99", "x")),
                ("KEYS", self.one("*", "?", "user*", "[st]", "nothing")),
                ("SCAN", self.one("0", "x"), *self.maybe(0.5, "MATCH", self.one("*", "s*")), "COUNT", "100"),
                ("FLUSHDB",),
            ),
            (1, 3, 2, 1, 1, 3, 2, 4, 2, 3, 1, 1, 2, 1, 2, 1, 1, 1, 1),
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
                    ("WATCH", key),
                    ("WATCH",),
                    ("UNWATCH",),
                    ("XCLAIM", key, "g", "alice", "0", "1-0", "FOO"),
                )
            )
        ]


def drawn_script(seed: int, size: int) -> list[list[Step]]:
    """About so many commands of one client."""
    drawn, script = Script(seed), list[list[Step]]()
    while sum(map(len, script)) < size:
        script.append([Step(0, command) for command in drawn.draw()])
    return script
