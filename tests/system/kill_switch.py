"""Kills a process of Spark, or a broker, at a step of an exactly-once batch, as files in a directory order it.

Copied as `sitecustomize.py`, with the directory's path in it, to where every Python that Spark starts finds it. An
order is a file `NUMBER.json`: `{"step": "end", "when": "before", "kill": "executor"}`; `kill` may be `driver`,
`executor`, `process`, which is the one that comes by, or the process id of a broker. Who renames the file of the lowest
number carries it out, and writes the process ids of those it kills into what it is called then, `NUMBER.taken`.
"""

import functools
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ORDERS = Path("@ORDERS@")
PATCHED = {
    "ottla.client.producing.blocking_transactions": ("BlockingTransactions", {"take_over": "take over", "end": "end"}),
    "ottla.client.producing.blocking_producer": ("BlockingProducer", {"flush": "flush"}),
    "pyspark_ottla.sink_ledger": ("SinkLedger", {"append": "append"}),
    "pyspark_ottla.sink_task": ("TransactionTask", {"_deliver": "rows"}),
}
EXECUTOR = b"CoarseGrainedExecutorBackend"
_closing = False


def step_of(name: str, given: tuple[Any, ...]) -> str:
    """What the call is in the batch: entries of the ledger by their kind, a flush by what it is of."""
    global _closing
    if name == "append":
        kind = type(given[1]).__name__
        _closing = _closing or kind == "Closing"
        return kind
    if name == "flush":
        return "state" if _closing else "rows, flushed"
    return name


def come_by(step: str, when: str) -> None:
    """Carry out the next order, where it is for here."""
    for order in sorted(ORDERS.glob("*.json")):
        try:
            wanted = json.loads(order.read_text())
            if (wanted["step"], wanted["when"]) != (step, when):
                return
            order.rename(order.with_suffix(".taken"))
        except FileNotFoundError:
            continue
        found = victims(wanted["kill"])
        order.with_suffix(".taken").write_text(json.dumps(found))
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return


def victims(who: str | int) -> list[int]:
    """The processes that are to die, this one last. Of the others those of a task live on, as they would."""
    if isinstance(who, int):
        return [who]
    if who == "process":
        return [os.getpid()]
    above = list(ancestors())
    jvms = [pid for pid, command in above if b"java" in command.partition(b"\0")[0]]
    executors = [pid for pid, command in above if EXECUTOR in command]
    if who == "driver":
        # The outermost JVM, and the command that started it, which would end it in order.
        commands = [pid for pid, command in above if b"ottla.cli" in command]
        return [jvms[-1], *commands, *([] if executors else [os.getpid()])]
    return [*executors, os.getpid()] if executors else executors_below(jvms[-1])


def executors_below(driver: int) -> list[int]:
    """The executors that a driver has started: those of the master `local-cluster`."""
    above = {
        pid: parent_of(pid) for pid in (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())
    }
    found = []
    for pid in above:
        higher: int | None = pid
        while higher is not None and higher != driver:
            higher = above.get(higher)
        if higher == driver and EXECUTOR in command_of(pid):
            found.append(pid)
    return found


def parent_of(pid: int) -> int | None:
    """None where there is none any more."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def command_of(pid: int) -> bytes:
    """The command line; nothing where the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def ancestors() -> Iterator[tuple[int, bytes]]:
    """Process ids and command lines, from the parent upwards."""
    pid: int | None = os.getppid()
    while pid is not None and pid > 1:
        yield pid, command_of(pid)
        pid = parent_of(pid)


def watched(name: str, function: Any) -> Any:
    """The function, with a look at the orders before it and after."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        step = step_of(name, given)
        come_by(step, "before")
        made = function(*given, **named)
        come_by(step, "after")
        return made

    return call


class Patcher(importlib.abc.MetaPathFinder):
    """Patches the modules when they are imported: to import them in each Python would slow all of them down."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in PATCHED:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def patched(module: Any) -> None:
            execute(module)
            name, methods = PATCHED[fullname]
            for method, step in methods.items():
                found = getattr(module, name)
                setattr(found, method, watched(step, getattr(found, method)))

        spec.loader.exec_module = patched  # type: ignore[method-assign]
        return spec


if not str(ORDERS).startswith("@"):
    sys.meta_path.insert(0, Patcher())
