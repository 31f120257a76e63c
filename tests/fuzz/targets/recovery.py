"""A log whose segment was changed while its broker was down: it is cut at the first bad byte, and is a log again.

how, 1 byte: bit 0 lengths, magic and checksums are made right | the segment from offset 0 on
"""

import asyncio
import tempfile
from pathlib import Path

from ottla.native import walk_batches
from ottla.storage.log_config import LogConfig
from tests.fuzz.targets.batches import sealed
from tests.unit.storage.data_directory import ORDERS, batch, bytes_of, opened

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=100)


def check(data: bytes) -> None:
    """See the top of the file."""
    if data:
        asyncio.run(recovers(sealed(data[1:]) if data[0] & 1 else data[1:]))


async def recovers(segment: bytes) -> None:
    """What is left is the start of what was there, can be read at every offset, and is appended to."""
    with tempfile.TemporaryDirectory(prefix="ottla-fuzz-") as name:
        path = Path(name) / "data"
        async with opened(path) as directory:
            await directory.log(CONFIG)
        (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (path / str(ORDERS) / f"{0:020}.log").write_bytes(segment)
        async with opened(path, clean=False) as directory:
            log = await directory.log(CONFIG)
            kept = b""
            if log.log_end_offset > 0:
                kept = bytes_of(log.read(0, 1 << 30, max_offset=log.log_end_offset))
            assert segment.startswith(kept)
            assert (len(kept) == len(segment)) != bool(directory.report.cuts), directory.report
            batches, consumed, error = walk_batches(kept, check_crc=True)
            assert error is None
            assert consumed == len(kept)
            for one in batches:
                found = bytes_of(log.read(one.base_offset, 1, max_offset=log.log_end_offset))
                assert found.startswith(kept[one.position : one.position + one.size])
            if log.log_end_offset < 1 << 62:
                info = directory.append(log, batch(1))
                assert info.first_offset == (batches[-1].last_offset + 1 if batches else 0)
                await log.flush()
