"""The targets in Python, by name."""

import importlib
from collections.abc import Callable

NAMES = (
    "batches",
    "cli_text",
    "client_metrics",
    "frames",
    "group_records",
    "log_dump",
    "logins",
    "messages",
    "nsq_commands",
    "recovery",
    "redis_commands",
    "requests",
    "share_reads",
    "single_fetch",
    "single_produce",
    "small_files",
    "strangers",
    "transactions",
)
"""Each is a module here with a function `check`."""

GUIDED_BY_THE_KERNEL = ("messages", "single_fetch", "single_produce")
"""Those that the fuzzer in Rust runs, since what they try is written in Rust."""


def target(name: str) -> Callable[[bytes], None]:
    """The target of that name."""
    check: Callable[[bytes], None] = importlib.import_module(f"tests.fuzz.targets.{name}").check
    return check
