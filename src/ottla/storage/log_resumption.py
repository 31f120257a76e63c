"""Taking writes again after a failure that could pass: the directory was full, say, and now there is room."""

from errno import EFBIG
from typing import Final

from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_reloading import LogReloader
from ottla.storage.log_resources import LogResources
from ottla.storage.pending_append import completion

WRITE_PROBE: Final = "write-probe"
WRITE_PROBE_BYTES: Final = 1 << 20
"""What must find room before a directory that was full takes writes again."""


async def resume(path: str, resources: LogResources, catalogue: LogCatalogue, reloader: LogReloader) -> None:
    """Load the logs of the directory at `path` that were being written again as after a crash, then let them write.

    What had been flushed is there, and of what came after it everything that got into the files whole. Raises OSError,
    ApiError when it is too early or something else is wrong; the directory stays offline then, and this may be tried
    again.
    """
    writer = resources.writer
    assert writer.failure_can_pass, "only what can pass is tried again"
    await resources.in_thread(_probe, path, resources, writer.failure)
    await completion(writer.resume)
    for log in catalogue.logs():
        await reloader.reload(log)
    await catalogue.finish_deletions()
    if not catalogue.is_closed:
        writer.resumed()


def _probe(path: str, resources: LogResources, failure: OSError | None) -> None:
    disk, probe = resources.disk, f"{path}/{WRITE_PROBE}"
    disk.write_atomic(probe, bytes(WRITE_PROBE_BYTES))
    try:
        if failure is not None and failure.errno == EFBIG and disk.exists(failure.filename):
            # A new file has room below a limit on the size of files: the one that failed is to have it, too.
            disk.truncate(probe, disk.size(failure.filename) + WRITE_PROBE_BYTES)
    finally:
        disk.remove(probe)
