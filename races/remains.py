"""What a broker's process and its directory still hold when everybody has gone."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psutil

from ottla.storage.file_names import STRAY_DIRECTORY_SUFFIX
from races.history import Remains
from races.stage import KEPT, LIVING, QUIET, TRIMMED, WILD
from tests.broker_process import BrokerProcess
from tests.hostile.process_memory import pss_mib

TOPICS = (*LIVING, *KEPT, *TRIMMED, *WILD, QUIET)
GONE_WITHIN_S = 100.0
"""Files go half a second after their topics; a log that a killed broker had no time to delete goes a minute after the
next topic of its name came, the default of `file.delete.delay.ms`. The machine may be busy."""
LOOK_EVERY_S = 0.5


async def wait_for_remains(broker: BrokerProcess) -> Remains:
    """Look until nothing of any topic or connection is left, or for long enough."""
    until = time.monotonic() + GONE_WITHIN_S
    while True:
        found = look(broker)
        if not (found.directories or found.open_files or found.sockets) or time.monotonic() > until:
            return found
        await asyncio.sleep(LOOK_EVERY_S)


def look(broker: BrokerProcess) -> Remains:
    """Directories of topics, open files of theirs or of removed ones, connections, memory; now."""
    assert broker.process is not None
    pid = broker.process.pid
    said = broker.log_path.read_text()
    # Killed between a deletion and its end the broker finds a log without a topic, says so, and leaves it or sets it
    # aside, like Kafka.
    directories = [
        path.name
        for path in broker.data_dir.iterdir()
        if path.is_dir()
        and _is_ours(path.name)
        and not path.name.endswith(STRAY_DIRECTORY_SUFFIX)
        and f"/{path.name} belongs to no topic; it is not changed" not in said
    ]
    open_files = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)  # noqa: PTH115 - it is no path when the file was removed
        except OSError:
            continue
        if target.startswith(str(broker.data_dir)) and (
            target.endswith("(deleted)") or _is_ours(Path(target).parent.name)
        ):
            open_files.append(target)
    # What this process still holds a library did not close: of such a connection the broker cannot know better.
    held_here = {end.laddr.port for end in psutil.Process().net_connections("tcp") if end.laddr}
    sockets = [
        f"{end.status} with {end.raddr}, let go of there"
        for end in psutil.Process(pid).net_connections("tcp")
        if end.laddr and end.laddr.port == broker.port and end.status != psutil.CONN_LISTEN
        if not (end.raddr and end.raddr.port in held_here)
    ]
    return Remains(sorted(directories), sorted(open_files), sockets, [pss_mib(broker)])


def _is_ours(name: str) -> bool:
    return name.startswith(tuple(f"{topic}-" for topic in TOPICS)) or name.endswith("-delete")
