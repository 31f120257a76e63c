"""What the broker's process says, and what it keeps."""

import re
from collections.abc import Iterator

from ottla.simulation.anomaly import Anomaly, Violation
from races.history import History

MEMORY_SLACK_MIB = 96
"""What a process may take beyond its first quiet moment: caches fill, allocators keep."""

CAUSED = (
    re.compile(r"belongs to a deleted topic of the same name and is removed"),
    re.compile(r"belongs to no topic; it is not changed"),
    re.compile(r"partition \S+ belongs to no topic: its \d+ bytes were moved to \S+-stray"),
    re.compile(r"leaves only \d+ for connections"),
    re.compile(r"the last shutdown was unclean: recovered \d+ logs"),
    re.compile(
        r"closed the connection from .* produce with acks=0 failed: (UNKNOWN_TOPIC|NOT_LEADER|OUT_OF_ORDER|MESSAGE_TOO)"
    ),
    re.compile(r"client 'races' is refused: UNSUPPORTED_COMPRESSION_TYPE: .*zstd"),
    re.compile(r"\d+ more such lines were suppressed"),
)
"""Lines that a race causes: kills, topics deleted under a kill, produces that nobody gets an answer to."""

LINES_SHOWN_MAX = 40


def check_process(history: History) -> Iterator[Violation]:
    """Lines, files, connections, memory."""
    for line in [line for line in history.log_lines if is_complaint(line)][:LINES_SHOWN_MAX]:
        yield Violation(Anomaly.LOG_LINE, line.strip(), history.ended_at)
    remains = history.remains
    for name in (*remains.directories, *remains.open_files, *remains.sockets):
        yield Violation(Anomaly.LEFT_BEHIND, name, history.ended_at)
    memory = remains.memory_mib
    if len(memory) > 1 and memory[-1] > 2 * memory[0] + MEMORY_SLACK_MIB:
        yield Violation(Anomaly.GREW, f"from {memory[0]:.0f} to {memory[-1]:.0f} MiB", history.ended_at)
    for text in history.stalls:
        yield Violation(Anomaly.STALLED, text, history.ended_at)


def is_complaint(line: str) -> bool:
    """Whether the broker speaks of something that nobody did to it."""
    return bool(line.strip()) and not any(pattern.search(line) for pattern in CAUSED)
