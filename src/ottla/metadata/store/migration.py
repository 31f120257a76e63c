"""Moves the metadata of a broker that was stopped from its data directory to a store that several brokers share.

Everything keeps its number: the cluster's id and secret, controller epochs, broker epochs, offsets of the log. What was
snapshot and log is one snapshot in ZooKeeper, which is the same to who reads it. The file that was moved stays under
another name, so that nobody goes on with it by mistake.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from ottla.metadata.store.embedded import FILE_NAME
from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.location import ZOOKEEPER, embedded_directory, is_shared, parse_zookeeper
from ottla.metadata.store.metadata_file import MetadataFile, MovedMetadata
from ottla.metadata.store.zookeeper_security import NO_SECURITY, ZooKeeperSecurity
from ottla.runtime.disk import PRIVATE, OsDisk
from ottla.runtime.tasks import Tasks
from ottla.storage.file_names import LOCK_FILE

MOVED_SUFFIX: Final = ".moved"


async def move_metadata(data_dir: Path, location: str, *, zookeeper: ZooKeeperSecurity = NO_SECURITY) -> MovedMetadata:
    """Move the metadata of a data directory to a shared store that is empty; a move that was cut short is made again.

    Raises StoreError with one line that says what to do: when a broker runs there, when there is nothing, and when the
    other store has a cluster already. Raises InvalidSettingError when `location` is none, and for keys that cannot be
    used.
    """
    if not is_shared(location):
        raise StoreError(f"{location} is where the metadata is: name a store that several brokers share")
    disk, path = OsDisk(), data_dir / FILE_NAME
    tasks = Tasks("ottla-move", threads_max=1)
    try:
        lock = await tasks.in_thread(_lock, disk, data_dir)
        try:
            moved = await tasks.in_thread(_read, path)
            if location.startswith(ZOOKEEPER):
                from ottla.metadata.store.zookeeper_filling import fill_zookeeper

                await fill_zookeeper(*parse_zookeeper(location), moved, tasks, zookeeper)
            else:
                await tasks.in_thread(_copy, disk, path, embedded_directory(location, data_dir) / FILE_NAME)
            await tasks.in_thread(disk.rename, path, path.with_name(FILE_NAME + MOVED_SUFFIX))
        finally:
            disk.close(lock)
    finally:
        await tasks.close()
    return moved


def _lock(disk: OsDisk, data_dir: Path) -> int:
    if not (data_dir / FILE_NAME).exists():
        raise StoreError(f"{data_dir / FILE_NAME} is not there: name the first data directory of a broker")
    try:
        return disk.lock(data_dir / LOCK_FILE)
    except BlockingIOError:
        raise StoreError(f"a broker runs on {data_dir}: stop it first") from None


def _read(path: Path) -> MovedMetadata:
    try:
        with closing(MetadataFile(path, "")) as file:
            return file.export()
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}") from error


def _copy(disk: OsDisk, path: Path, target: Path) -> None:
    if target.exists():
        raise StoreError(f"{target} has the metadata of a cluster: name another directory")
    unfinished = target.with_name(FILE_NAME + ".unfinished")
    try:
        disk.make_dir(target.parent, mode=PRIVATE)
        disk.remove(unfinished)
        with closing(MetadataFile(path, "")) as file:
            file.copy_to(unfinished)
        disk.sync_file(unfinished)
        disk.rename(unfinished, target)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{target}: {error}") from error
