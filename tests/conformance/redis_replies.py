"""What of a reply two servers of Redis' protocol have to agree on."""

from __future__ import annotations

from typing import Any

from tests.redis_client import ReplyError

Command = tuple[str | bytes, ...]

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
    if name == "XREAD" and isinstance(reply, list) and not any(each[1] for each in reply if each != "%"):
        return None  # of who waited 7.0 says so where what was added is gone again
    if name == "KEYS" and isinstance(reply, list):
        return sorted(reply)
    if name == "SCAN" and isinstance(reply, list):
        return [reply[0], sorted(reply[1])]
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
