"""Makes a partition of a stopped broker look as if it held many times its log, without the disk it would take.

The first segment is repeated in front of the active one as sparse files of its size, with its own indexes, which are
relative to the base offset. The active segment moves behind them: its files get new names, its batches new base offsets
(they are outside the CRC), and the checkpoints the new end. Works for Ottla and Kafka alike, their files are the same.

    0.log (closed)  B.log (active)   ->   0.log  B.log  2B.log ... (sparse)   nB.log (active, moved)
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

BATCH_HEAD = struct.Struct(">qi")  # base offset, length of what follows
DIGITS = 20
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def shifted_batches(log: bytes, by: int) -> bytes:
    """The batches of a segment with their base offsets moved."""
    moved, position = bytearray(log), 0
    while position < len(moved):
        base, length = BATCH_HEAD.unpack_from(moved, position)
        struct.pack_into(">q", moved, position, base + by)
        position += BATCH_HEAD.size + length
    return bytes(moved)


def shifted_checkpoint(text: str, topic: str, partition: int, by: int) -> str:
    """A checkpoint file in which the offset of one partition is moved."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        words = line.split()
        if words[:2] == [topic, str(partition)]:
            lines[number] = f"{topic} {partition} {int(words[2]) + by}"
    return "\n".join(lines) + "\n"


def file_name(offset: int, suffix: str) -> str:
    """As the log names its files."""
    return f"{offset:0{DIGITS}d}{suffix}"


def grow(log_directory: Path, topic: str, copies: int) -> None:
    """Puts `copies` sparse segments behind the first one of partition 0.

    Raises:
        ValueError: the partition has not exactly two segments.
    """
    folder = log_directory / f"{topic}-0"
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    if len(bases) != 2 or bases[0] != 0:
        raise ValueError(f"{folder} has segments at {bases}, not a closed one at 0 and an active one")
    active = bases[1]
    by = active * copies
    _move_active(folder, active, by)
    size = (folder / file_name(0, ".log")).stat().st_size
    for number in range(1, copies + 1):
        base = active * number
        with (folder / file_name(base, ".log")).open("wb") as file:
            file.truncate(size)
        for suffix in (".index", ".timeindex"):
            shutil.copy(folder / file_name(0, suffix), folder / file_name(base, suffix))
    for name in CHECKPOINTS:
        path = log_directory / name
        path.write_text(shifted_checkpoint(path.read_text(), topic, 0, by))


def _move_active(folder: Path, active: int, by: int) -> None:
    log = folder / file_name(active, ".log")
    log.write_bytes(shifted_batches(log.read_bytes(), by))
    for path in list(folder.iterdir()):
        if path.stem.isdigit() and int(path.stem) >= active:
            path.rename(path.with_name(file_name(int(path.stem) + by, path.suffix)))
