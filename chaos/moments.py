"""When a broker is to die: at any time, or in the middle of something that its files give away."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from random import Random

from chaos.directory_watch import CREATE, MODIFY, MOVED_TO, DirectoryWatch

TIMEOUT_S = 2.0
"""After so long without what a moment waits for, it is now."""
JITTER_S = 0.003


class Moment(Enum):
    """What the broker is doing."""

    ANY = "any time"
    APPEND = "append"
    ROLL = "segment roll"
    CHECKPOINT = "checkpoint"
    TOPIC_CREATION = "topic creation"
    COMMIT = "group commit"
    START = "start"


def wait_for(moment: Moment, data_dirs: Sequence[Path], rng: Random, create_topic: Callable[[], None]) -> bool:
    """Wait until it is there; `create_topic` asks for a topic without waiting. False when it did not come."""
    if moment in (Moment.ANY, Moment.START):
        time.sleep(rng.uniform(0, 0.4))
        return True
    with DirectoryWatch() as watch:
        wanted = _watch(moment, data_dirs, watch, rng)
        if moment is Moment.TOPIC_CREATION:
            create_topic()
        came = watch.wait(wanted, TIMEOUT_S)
    time.sleep(rng.choice((0, rng.uniform(0, JITTER_S))))
    return came


def _watch(moment: Moment, data_dirs: Sequence[Path], watch: DirectoryWatch, rng: Random) -> Callable[[str], bool]:
    if moment is Moment.CHECKPOINT:
        for data_dir in data_dirs:
            watch.add(data_dir, CREATE | MOVED_TO)
        kind = rng.choice(("recovery-point", "replication-offset"))
        return lambda name: name.startswith(kind)
    if moment is Moment.TOPIC_CREATION:
        for data_dir in data_dirs:
            watch.add(data_dir, CREATE | MODIFY)
        kind = rng.choice(("made-", "metadata.db"))
        return lambda name: name.startswith(kind)
    is_commit = moment is Moment.COMMIT
    for data_dir in data_dirs:
        for directory in sorted(data_dir.glob("__consumer_offsets-*" if is_commit else "load-*")):
            with suppress(FileNotFoundError):  # its partition has moved away meanwhile
                watch.add(directory, CREATE if moment is Moment.ROLL else MODIFY)
    return lambda name: name.endswith(".log")
