"""Ambient time, chance, sleep, durability and tasks have one place each, in `src/ottla/runtime/`.

Everywhere else in the two packages they are arguments, so that tests and simulation decide them. Prints `file:line:`,
what was used and what to use instead, for each use outside, and exits 1 if there is one. References count, not only
calls, and so do imports under another name. A task group is let be: its tasks end with its block and fail into it.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOTS = (Path("src/ottla"), Path("src/pyspark_ottla"))
RUNTIME = Path("src/ottla/runtime")

CLOCK = "take an ottla.runtime.clock.Clock"
CHANCE = "take an ottla.runtime.rng.Rng"
SLEEP = "use ottla.runtime.timer.Timer.sleep"
DURABLE = "take an ottla.runtime.disk.Disk"
TASKS = "use ottla.runtime.tasks.Tasks"
TIMER = "use ottla.runtime.timer.Timer.schedule"

BANNED: dict[str, str] = {
    **{
        f"time.{name}": CLOCK
        for name in (
            *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
            *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
            *("localtime", "gmtime", "ctime"),
        )
    },
    "time.sleep": SLEEP,
    "asyncio.sleep": SLEEP,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "random": CHANCE,
    "secrets": CHANCE,
    **{f"uuid.uuid{version}": CHANCE for version in (1, 4, 6, 7)},
    "os.urandom": CHANCE,
    "os.getrandom": CHANCE,
    "os.fsync": DURABLE,
    "os.fdatasync": DURABLE,
    "os.sync": DURABLE,
    "asyncio.create_task": TASKS,
    "asyncio.ensure_future": TASKS,
    "asyncio.to_thread": TASKS,
}
"""Names by their full path; a module's name bans all that is in it."""

BANNED_METHODS: dict[str, str] = {
    "create_task": TASKS,
    "call_later": TIMER,
    "call_at": TIMER,
}
"""Methods of an event loop, whatever the object is called; to pass one on without calling it is no use."""


def check(source: str, path: Path) -> Iterator[str]:
    """One line for each ambient use in `source`."""
    tree = ast.parse(source, str(path))
    names = imported_names(tree)
    groups = task_groups(tree, names)
    for node in ast.walk(tree):
        found = ambient_call(node, names, groups) if isinstance(node, ast.Call) else ambient_name(node, names)
        for used, instead in found:
            yield f"{path}:{getattr(node, 'lineno', 0)}: {used} is ambient; {instead}"


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `{"sleep": "time.sleep"}` after `from time import sleep`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname is None:
                    top = alias.name.partition(".")[0]
                    names[top] = top
                else:
                    names[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def task_groups(tree: ast.Module, names: dict[str, str]) -> set[str]:
    """The names that stand for a task group: `group` in `async with asyncio.TaskGroup() as group`."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.context_expr, ast.Call) and isinstance(item.optional_vars, ast.Name)
        if full_name(item.context_expr.func, names) == "asyncio.TaskGroup"
    }


def ambient_name(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The ambient things that an import or a reference names, each with what to use instead."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from banned(alias.name)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield from banned(f"{node.module}.{alias.name}")
    elif isinstance(node, ast.Attribute):
        yield from banned(full_name(node, names))


def ambient_call(node: ast.Call, names: dict[str, str], groups: set[str]) -> Iterator[tuple[str, str]]:
    """A method of an event loop that is called on something that may be one."""
    function = node.func
    if not isinstance(function, ast.Attribute) or full_name(function, names) in BANNED:
        return
    if isinstance(function.value, ast.Name) and function.value.id in groups:
        return
    if function.attr in BANNED_METHODS:
        yield f".{function.attr}()", BANNED_METHODS[function.attr]
    if function.attr == "run_in_executor" and node.args and isinstance(node.args[0], ast.Constant):
        yield "the event loop's own pool of threads", TASKS


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """`datetime.datetime.now` for `dt.now` after `from datetime import datetime as dt`; empty for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and (owner := full_name(node.value, names)):
        return f"{owner}.{node.attr}"
    return ""


def banned(name: str) -> Iterator[tuple[str, str]]:
    """The name and what to use instead, when it or its module is banned."""
    instead = BANNED.get(name) or BANNED.get(name.partition(".")[0])
    if instead is not None:
        yield name, instead


def main() -> int:
    """Check both packages; the exit code."""
    found = [
        line
        for root in ROOTS
        for path in sorted(root.rglob("*.py"))
        if RUNTIME not in path.parents
        for line in check(path.read_text(encoding="utf-8"), path)
    ]
    print("\n".join(found) if found else "no ambient time, chance, sleep, fsync or task outside src/ottla/runtime")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
