"""A log whose segment was changed while its broker was down: it is cut at the first bad byte, and is a log again.

how, 1 byte: bit 0 lengths, magic and checksums are made right | the segment from offset 0 on
"""

import asyncio
import tempfile
from pathlib import Path

from ottla.native import walk_batches
from ottla.storage.log_config import LogConfig
from ottla.storage.partition_metadata import format_partition_metadata
from tests.fuzz.targets.batches import sealed
from tests.unit.storage.data_directory import ORDERS, TOPIC_ID, batch, batches_in, bytes_of, opened

LEAST_BATCH_BYTES = 61
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=100)


def check(data: bytes) -> None:
    """See the top of the file."""
    if data:
        asyncio.run(recovers(sealed(data[1:]) if data[0] & 1 else data[1:]))


async def recovers(segment: bytes) -> None:
    """What is left is the start of what was there, can be read at every offset, and is appended to."""
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as name:
        path = Path(name) / "data"
        (path / str(ORDERS)).mkdir(parents=True)
        (path / str(ORDERS) / "partition.metadata").write_bytes(format_partition_metadata(TOPIC_ID))
        (path / str(ORDERS) / f"{0:020}.log").write_bytes(segment)
        async with opened(path, clean=False) as directory:
            log = await directory.log(CONFIG)
            kept = b""
            if log.log_end_offset > 0:
                kept = bytes_of(log.read(0, 1 << 30, max_offset=log.log_end_offset))
            assert segment.startswith(kept)
            assert (len(kept) == len(segment)) != bool(directory.report.cuts), directory.report
            next_offset = in_order(kept)
            for position, first, last in batches_in(kept):
                for offset in {first, last}:
                    found = bytes_of(log.read(offset, 1, max_offset=log.log_end_offset))
                    assert found.startswith(kept[position : position + LEAST_BATCH_BYTES])
            if log.log_end_offset < 1 << 62:
                info = directory.append(log, batch(1))
                assert info.first_offset == next_offset
                await log.flush()


def in_order(kept: bytes) -> int:
    """The batches are sound and each begins where the one before has ended, or later; the offset after the last."""
    batches, consumed, error = walk_batches(kept, check_crc=True)
    assert error is None
    assert consumed == len(kept)
    next_offset = 0
    for one in batches:
        assert one.base_offset >= next_offset
        next_offset = one.last_offset + 1
    return next_offset
