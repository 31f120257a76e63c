"""The power fails in the middle of the work: what was acknowledged as on disk is there, and nothing but records."""

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.file_names import PARTITION_METADATA
from ottla.storage.log_config import LogConfig
from ottla.storage.partition_metadata import format_partition_metadata
from tests.unit.storage.data_directory import ORDERS, TOPIC_ID, batch, batches_in, bytes_of, opened
from tests.unit.storage.lossy_log_io import LossyLogIo

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    steps=st.integers(1, 50),
    actions=st.lists(st.sampled_from(["append"] * 6 + ["unsynced", "turn", "checkpoint"]), min_size=8, max_size=30),
    data=st.data(),
)
def test_what_was_synced_survives_a_power_cut_at_any_moment(
    tmp_path_factory: pytest.TempPathFactory, steps: int, actions: list[str], data: st.DataObject
):
    path = tmp_path_factory.mktemp("power")
    io = LossyLogIo(steps)
    appended: list[tuple[int, bytes]] = []
    acknowledged = 0

    async def work() -> None:
        nonlocal acknowledged
        with_power = opened(path / "before", log_io=lambda: io, clean=False)
        directory = await with_power.__aenter__()
        log = await directory.log(CONFIG)

        def on_synced(end_offset: int) -> None:
            nonlocal acknowledged
            acknowledged = max(acknowledged, end_offset)

        for number, action in enumerate(actions):
            if not io.has_power:
                break
            if action == "turn":
                for _ in range(3):
                    await asyncio.sleep(0)
            elif action == "checkpoint":
                await directory.manager.checkpoint_recovery_points()
            else:
                records = batch(2, value=b"%d" % number * 20, producer_id=3, epoch=0, sequence=log.log_end_offset)
                info = directory.append(log, records, sync=action == "append", then=on_synced)
                appended.append((info.last_offset + 1, bytes(records)))
        for _ in range(5):
            await asyncio.sleep(0)
        shutil.copytree(path / "before", path / "after")
        (path / "after" / str(ORDERS) / PARTITION_METADATA).write_bytes(b"")
        io.crash_image(
            path / "after" / str(ORDERS),
            lambda: data.draw(st.booleans()),
            lambda size: data.draw(st.sampled_from([size, size, size // 2, 0])),
        )
        await with_power.__aexit__(None, None, None)

    async def look() -> None:
        async with opened(path / "after") as directory:
            loaded = directory.manager.log(ORDERS)
            assert not acknowledged or loaded.topic_id == TOPIC_ID
            log = await directory.log(CONFIG)
            if log.log_start_offset > 0:
                # The name of the first file is gone and that of a later one is not: as after a retention nobody
                # noted. So nothing had been synced.
                assert acknowledged == 0
                return
            assert log.log_end_offset >= acknowledged
            offsets = range(0, log.log_end_offset, 2)
            found = b"".join(bytes_of(log.read(offset, 1, max_offset=1 << 40)) for offset in offsets)
            assert found == b"".join(records for end, records in appended if end <= log.log_end_offset)
            assert [first for _, first, _ in batches_in(found)] == list(offsets)
            last = [records for end, records in appended if end <= log.log_end_offset][-5:]
            for records in last:
                assert directory.append(log, bytearray(records)).duplicate
            await directory.append_all(log, [batch(1)])

    asyncio.run(work())
    asyncio.run(look())


@pytest.mark.parametrize("how", ["append", "flush", "roll", "close"])
@pytest.mark.parametrize("steps", range(1, 16))
def test_the_name_of_the_topic_is_on_disk_before_anything_is_said_to_be(tmp_path: Path, how: str, steps: int):
    """Also when the first records were only written, and their file is open for longer than that of the name."""
    io = LossyLogIo(steps)
    image = tmp_path / "after"
    image.mkdir()

    async def work() -> int:
        with_power = opened(tmp_path / "before", log_io=lambda: io, clean=False)
        directory = await with_power.__aenter__()
        log = await directory.log(LogConfig(segment_bytes=400))
        directory.append(log, batch(1), sync=False)
        await asyncio.sleep(0)
        closing = None
        if how in ("append", "roll"):
            directory.append(log, batch(1, value=bytes(300 if how == "roll" else 1)), sync=how == "append")
        else:
            closing = asyncio.ensure_future(log.flush() if how == "flush" else log.close())
        for _ in range(6):
            await asyncio.sleep(0)
        flushed = log.flushed_end_offset
        io.crash_image(image, lambda: False, lambda size: size)
        if closing is not None:
            closing.cancel()
        await with_power.__aexit__(None, None, None)
        return flushed

    if asyncio.run(work()):
        assert (image / PARTITION_METADATA).read_bytes() == format_partition_metadata(TOPIC_ID)
