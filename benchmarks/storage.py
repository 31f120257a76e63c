"""How fast the log takes batches: `python -m benchmarks.storage [--mb 256] [--dir DIR]`.

Each row appends batches through `Log` and the log I/O thread as a broker does, several in every turn of the event loop,
with at most 64 MB queued. `group` is how many appends one group of the thread held on average.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ottla.model.topic_partition import TopicPartition
from ottla.native import LogIo, build_batch, validate_batches
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.tasks import Tasks, run_main
from ottla.runtime.timer import Timer
from ottla.storage.append_run import BatchRun
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager

QUEUED_BYTES_MAX = 64 << 20
APPENDS_PER_TURN = 16


@dataclass(frozen=True)
class Row:
    """One measurement: batches of `batch_bytes` over so many partitions, at most `in_flight` unacknowledged."""

    batch_bytes: int
    partitions: int
    sync: bool
    in_flight: int


ROWS = [
    Row(16 << 10, 1, sync=False, in_flight=100_000),
    Row(16 << 10, 1, sync=True, in_flight=100_000),
    Row(1 << 20, 1, sync=False, in_flight=100_000),
    Row(1 << 20, 1, sync=True, in_flight=100_000),
    Row(16 << 10, 12, sync=True, in_flight=100_000),
    Row(200, 1, sync=False, in_flight=100_000),
    Row(200, 1, sync=True, in_flight=100_000),
    Row(200, 1, sync=True, in_flight=5),
    Row(200, 1, sync=True, in_flight=1),
]


async def measure(row: Row, total_bytes: int, parent: Path | None) -> str:
    """One row of the table."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=parent))
    clock, tasks = SystemClock(), Tasks("bench")
    loop = asyncio.get_running_loop()
    io = LogIo()
    timer = Timer(clock, loop.call_later)
    manager = LogManager(directory, disk=OsDisk(), clock=clock, timer=timer, tasks=tasks, log_io=lambda: io)
    await tasks.in_thread(manager.load)
    manager.attach(loop)
    config = LogConfig()
    logs = [
        await manager.create_log(TopicPartition("bench", index), UUID(int=index + 1), config)
        for index in range(row.partitions)
    ]
    now_ms = clock.now_ms()
    template = build_batch([(now_ms, None, bytes(max(1, row.batch_bytes - 80)), [])])
    count = min(max(64, total_bytes // len(template)), 200_000 if row.in_flight > 10 else 2_000)
    template_batches = validate_batches(template)
    buffers = [bytearray(template) for _ in range(min(count, 4096, QUEUED_BYTES_MAX // len(template) + 1))]
    done = 0
    moved = asyncio.Event()
    last_stage = 2 if row.sync else 1

    def on_stage(stage: int, errno: int) -> None:
        nonlocal done
        assert errno == 0
        if stage == last_stage:
            done += 1
            moved.set()

    started = time.perf_counter()
    cpu_started = time.thread_time()
    appended = 0
    while appended < count:
        burst = min(
            APPENDS_PER_TURN, count - appended, row.in_flight - (appended - done), len(buffers) + done - appended
        )
        for _ in range(burst):
            batch = memoryview(buffers[appended % len(buffers)])
            logs[appended % len(logs)].append(
                BatchRun(batch, template_batches), leader_epoch=0, now_ms=now_ms, on_stage=on_stage, sync=row.sync
            )
            appended += 1
        if burst <= 0:
            moved.clear()
            await moved.wait()
        else:
            await asyncio.sleep(0)
    while done < count:
        moved.clear()
        await moved.wait()
    seconds = time.perf_counter() - started
    cpu = time.thread_time() - cpu_started
    groups, writes, syncs = io.groups, io.write_calls, io.sync_calls
    await manager.close()
    await tasks.close()
    shutil.rmtree(directory)
    megabytes = count * len(template) / 1e6
    return (
        f"{row.batch_bytes:>9,} {row.partitions:>4} {'yes' if row.sync else 'no':>5} {row.in_flight:>8,} "
        f"{megabytes / seconds:>9,.0f} {count / seconds:>11,.0f} {cpu / count * 1e6:>8.1f} "
        f"{count / groups:>7.1f} {groups:>7,} {writes:>7,} {syncs:>7,}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=256, help="how much each row writes")
    parser.add_argument("--dir", type=Path, default=None, help="where; the default is the temporary directory")
    options = parser.parse_args()
    print(
        f"{'batch B':>9} {'part':>4} {'sync':>5} {'inflight':>8} {'MB/s':>9} {'appends/s':>11} {'us loop':>8} "
        f"{'group':>7} {'groups':>7} {'writes':>7} {'syncs':>7}"
    )
    for row in ROWS:
        print(run_main(measure(row, options.mb << 20, options.dir)), flush=True)


if __name__ == "__main__":
    main()
