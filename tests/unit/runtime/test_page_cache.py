"""Reading without waiting, against the operating system's own page cache."""

import ctypes
import errno
import mmap
import os
import time
from pathlib import Path

import pytest

from ottla.native import read_ahead
from ottla.runtime.page_cache import (
    is_in_page_cache,
    read_cached,
    read_file,
    read_into_page_cache,
    read_what_is_asked_for,
)

MIB = 1 << 20


@pytest.fixture
def content() -> bytes:
    return os.urandom(1024 * 1024)


@pytest.fixture
def fd(tmp_path: Path, content: bytes):
    path = tmp_path / "log"
    path.write_bytes(content)
    number = os.open(path, os.O_RDWR)
    os.fsync(number)
    yield number
    os.close(number)


def test_what_was_just_written_is_read_without_waiting(fd: int, content: bytes):
    assert is_in_page_cache(fd, 0, len(content))
    assert read_cached(fd, 100, 5_000) == content[100:5_100]


def test_what_the_system_forgot_is_given_whole_or_not_at_all(fd: int, content: bytes):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert read_cached(fd, 0, 300_000) in (None, content[:300_000])
    read_into_page_cache(fd, 0, len(content))
    assert is_in_page_cache(fd, 0, len(content))
    assert read_cached(fd, 0, 5_000) == content[:5_000]


def test_where_the_disk_would_be_waited_for_nothing_is_read(fd: int, monkeypatch: pytest.MonkeyPatch):
    def preadv(_fd: int, buffers: tuple[bytearray], position: int, flags: int = 0) -> int:
        assert flags == os.RWF_NOWAIT
        if position >= 256 * 1024:
            raise BlockingIOError
        return min(len(buffers[0]), 256 * 1024 - position)

    monkeypatch.setattr(os, "preadv", preadv)
    assert read_cached(fd, 300_000, 10) is None
    assert read_cached(fd, 256 * 1024 - 5, 10) is None, "the rest of it is not there"
    assert not is_in_page_cache(fd, 0, 1024 * 1024)
    assert not is_in_page_cache(fd, 256 * 1024 - 5, 10)
    assert is_in_page_cache(fd, 0, 256 * 1024)


def test_a_file_system_that_cannot_tell_is_read_as_usual(fd: int, content: bytes, monkeypatch: pytest.MonkeyPatch):
    def preadv(_fd: int, _buffers: tuple[bytearray], _position: int, _flags: int = 0) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "preadv", preadv)
    assert read_cached(fd, 100, 5_000) == content[100:5_100]
    assert is_in_page_cache(fd, 0, len(content))


def test_a_file_that_ends_too_early_is_an_error(fd: int, content: bytes):
    with pytest.raises(OSError, match="ends before"):
        read_file(fd, len(content) - 5, 10)


def test_what_is_read_ahead_is_there_without_anybody_reading_it(fd: int, content: bytes):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    read_ahead(fd, 0, 8 * MIB)
    deadline = time.monotonic() + 60
    while not is_in_page_cache(fd, 0, len(content)):
        assert time.monotonic() < deadline
    assert read_cached(fd, 0, len(content)) == content


def pages_there(fd: int, size: int) -> list[bool]:
    """Which pages of a file are in the page cache. To look by reading would have them read."""
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(fd, size) as mapped:
        view = (ctypes.c_char * size).from_buffer(mapped)
        there = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(size), there)
        del view
    assert not failed, os.strerror(ctypes.get_errno())
    return [bool(page & 1) for page in there]


def test_of_a_file_of_which_others_know_what_is_to_be_read_the_system_reads_nothing_more(fd: int, content: bytes):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    before = pages_there(fd, len(content))  # all, where a file system is in memory
    read_what_is_asked_for(fd)
    asked = len(content) // mmap.PAGESIZE // 4
    for page in range(asked):
        assert os.pread(fd, 1, page * mmap.PAGESIZE) == content[page * mmap.PAGESIZE :][:1]
    assert pages_there(fd, len(content)) == [True] * asked + before[asked:]
