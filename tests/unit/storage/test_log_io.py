"""The log I/O thread: what it writes, in how many calls, what it reports and when, and how it fails."""

import errno
import resource
import select
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import LogIo
from ottla.storage.log_io_trace import histograms

WRITTEN, SYNC, CLOSED, FAILURE = LogIo.WRITTEN, LogIo.SYNC, LogIo.CLOSED, LogIo.FAILURE


def has_news(io: LogIo, timeout_s: float = 0) -> bool:
    """Whether something was completed, within this time."""
    poll = select.poll()
    poll.register(io.fileno(), select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def wait_for(io: LogIo, count: int) -> list[tuple[object, int, int]]:
    """The next `count` completions."""
    completions: list[tuple[object, int, int]] = []
    while len(completions) < count:
        assert has_news(io, 60), f"only {completions} after 60 s"
        completions += io.completions()
    return completions


def open_paths() -> Iterator[Path]:
    """What this process has open."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            yield entry.readlink()


@pytest.fixture
def io() -> Iterator[LogIo]:
    io = LogIo()
    yield io
    io.close()


def test_what_is_appended_is_in_the_file_when_it_is_reported_written(io: LogIo, tmp_path: Path):
    path = tmp_path / "a.log"
    handle = io.create(str(path))
    io.append(handle, 0, b"hello " * 20, "first", WRITTEN)
    io.append(handle, 120, bytearray(b"world"), "second", WRITTEN)
    io.submit()
    assert wait_for(io, 2) == [("first", WRITTEN, 0), ("second", WRITTEN, 0)]
    assert path.read_bytes() == b"hello " * 20 + b"world"


def test_nothing_happens_before_submit(io: LogIo, tmp_path: Path):
    handle = io.create(str(tmp_path / "a.log"))
    io.append(handle, 0, b"x" * 100, "token", WRITTEN)
    assert io.queued_bytes == 100
    assert not has_news(io, 0.01)
    assert not (tmp_path / "a.log").exists()


def test_neighbours_of_a_file_go_out_in_one_call_and_a_file_is_synced_once(io: LogIo, tmp_path: Path):
    first, second = io.create(str(tmp_path / "1")), io.create(str(tmp_path / "2"))
    for index in range(100):
        io.append(first, index * 1000, bytes([index]) * 1000, index, WRITTEN | SYNC)
        io.append(second, index * 1000, bytes([index]) * 1000, index, WRITTEN)
    io.submit()
    wait_for(io, 300)
    assert (io.groups, io.write_calls, io.sync_calls) == (1, 2, 1)
    assert io.written_bytes == 200_000
    assert io.queued_bytes == 0
    assert (tmp_path / "1").read_bytes() == b"".join(bytes([index]) * 1000 for index in range(100))
    assert (tmp_path / "2").read_bytes() == (tmp_path / "1").read_bytes()


def test_a_run_longer_than_the_kernel_takes_at_once_is_written_whole(io: LogIo, tmp_path: Path):
    handle = io.create(str(tmp_path / "a"))
    pieces = [bytes([index % 251]) * (index % 3) for index in range(5000)]
    position = 0
    for index, piece in enumerate(pieces):
        io.append(handle, position, piece, index, WRITTEN)
        position += len(piece)
    io.submit()
    assert [token for token, _, _ in wait_for(io, 5000)] == list(range(5000))
    assert (tmp_path / "a").read_bytes() == b"".join(pieces)
    assert io.write_calls == 5  # 1024 buffers each


def test_written_is_reported_before_synced_and_both_in_order(io: LogIo, tmp_path: Path):
    handle = io.create(str(tmp_path / "a"))
    for index in range(3):
        io.append(handle, index * 100, b"." * 100, index, WRITTEN | SYNC)
    io.submit()
    assert wait_for(io, 6) == [(index, stage, 0) for stage in (WRITTEN, SYNC) for index in range(3)]


def test_only_the_stage_that_was_asked_for_is_reported(io: LogIo, tmp_path: Path):
    handle = io.create(str(tmp_path / "a"))
    io.append(handle, 0, b"silent", None, WRITTEN | SYNC)
    io.append(handle, 6, b"also", "unflagged", 0)
    io.append(handle, 10, b"synced", "synced", SYNC)
    io.sync(handle, "sync")
    io.close_handle(handle, "closed")
    io.submit()
    assert wait_for(io, 3) == [("synced", SYNC, 0), ("sync", SYNC, 0), ("closed", CLOSED, 0)]
    assert (tmp_path / "a").read_bytes() == b"silentalsosynced"


def test_older_files_are_synced_before_newer_ones(io: LogIo, tmp_path: Path):
    handles = [io.create(str(tmp_path / str(index))) for index in range(4)]
    for handle in reversed(handles):
        io.append(handle, 0, b"x", handle, SYNC)
    io.submit()
    assert [token for token, _, _ in wait_for(io, 4)] == handles


def test_a_file_that_exists_keeps_what_it_holds(io: LogIo, tmp_path: Path):
    (tmp_path / "a").write_bytes(b"0123456789")
    io.append(io.create(str(tmp_path / "a")), 5, b"xyz", "token", WRITTEN)
    io.submit()
    wait_for(io, 1)
    assert (tmp_path / "a").read_bytes() == b"01234xyz89"


def test_room_is_reserved_without_changing_the_size_and_given_back(io: LogIo, tmp_path: Path):
    path = tmp_path / "a.log"
    handle = io.create(str(path), 1 << 20)
    io.append(handle, 0, b"x" * 5000, "token", WRITTEN)
    io.submit()
    wait_for(io, 1)
    assert path.stat().st_size == 5000
    assert path.stat().st_blocks * 512 >= 1 << 20
    io.close_handle(handle, "closed")
    io.submit()
    wait_for(io, 1)
    assert path.read_bytes() == b"x" * 5000
    assert path.stat().st_blocks * 512 < 1 << 16


def test_buffers_are_held_until_they_are_written_and_not_longer(io: LogIo, tmp_path: Path):
    handle, data = io.create(str(tmp_path / "a")), bytearray(b"x" * 1000)
    io.append(handle, 0, data, "token", WRITTEN | SYNC)
    with pytest.raises(BufferError):
        data.append(1)
    io.submit()
    wait_for(io, 2)
    data.append(1)


def test_a_part_of_a_buffer_is_written_without_the_rest(io: LogIo, tmp_path: Path):
    frame = bytearray(range(256))
    io.append(io.create(str(tmp_path / "a")), 0, memoryview(frame)[100:200], "token", WRITTEN)
    io.submit()
    wait_for(io, 1)
    assert (tmp_path / "a").read_bytes() == bytes(range(100, 200))


def test_bytes_that_do_not_lie_in_one_piece_are_refused(io: LogIo, tmp_path: Path):
    handle = io.create(str(tmp_path / "a"))
    with pytest.raises(BufferError):
        io.append(handle, 0, memoryview(bytes(100))[::2], None, WRITTEN)
    with pytest.raises(ValueError, match="WRITTEN, SYNC or both"):
        io.append(handle, 0, b"", None, 8)


def test_more_files_than_may_be_open_are_written_all_the_same(tmp_path: Path):
    io = LogIo(open_files_max=3)
    handles = [io.create(str(tmp_path / str(index))) for index in range(20)]
    for turn in range(3):
        for handle in handles:
            io.append(handle, turn * 2, b"%02d" % handle, handle, SYNC)
        io.submit()
        wait_for(io, 20)
        assert sum(path.is_relative_to(tmp_path) for path in open_paths()) <= 3
    io.close()
    assert [(tmp_path / str(index)).read_bytes() for index in range(20)] == [b"%02d" % h * 3 for h in handles]


def test_close_does_what_is_queued_and_then_the_completions_are_there(tmp_path: Path):
    io = LogIo()
    io.append(io.create(str(tmp_path / "a")), 0, b"x" * 500, "token", WRITTEN | SYNC)
    io.close()
    assert (tmp_path / "a").stat().st_size == 500
    assert io.completions() == [("token", WRITTEN, 0), ("token", SYNC, 0)]
    io.close()


def test_a_thread_that_nobody_closes_ends_with_its_object(tmp_path: Path):
    io = LogIo()
    io.append(io.create(str(tmp_path / "a")), 0, b"x" * 500, None, WRITTEN)
    io.submit()
    del io
    assert (tmp_path / "a").stat().st_size == 500


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes; Python ignores the signal, so the write fails with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_after_a_failed_write_everything_fails_and_nothing_is_tried_again(io: LogIo, tmp_path: Path):
    path = tmp_path / "a.log"
    handle = io.create(str(path))
    with file_size_limit(1500):
        for index in range(3):
            io.append(handle, index * 1000, b"." * 1000, index, WRITTEN | SYNC)
        io.submit()
        completions = wait_for(io, 7)
    assert completions[0] == (None, FAILURE, errno.EFBIG)
    assert set(completions[1:]) == {(index, stage, errno.EFBIG) for index in range(3) for stage in (WRITTEN, SYNC)}
    assert io.failure == ("write", path, errno.EFBIG)
    # There is room again, but what was promised in between is lost: nothing may look as if it had worked.
    other = io.create(str(tmp_path / "b.log"))
    io.append(other, 0, b"later", "later", WRITTEN | SYNC)
    io.sync(handle, "sync")
    io.close_handle(handle, "closed")
    io.submit()
    assert wait_for(io, 4) == [
        ("later", WRITTEN, errno.EFBIG),
        ("sync", SYNC, errno.EFBIG),
        ("later", SYNC, errno.EFBIG),
        ("closed", CLOSED, errno.EFBIG),
    ]
    assert not (tmp_path / "b.log").exists()
    assert io.queued_bytes == 0


def test_a_full_disk_is_told_as_such(io: LogIo):
    io.append(io.create("/dev/full"), 0, b"x" * 100, "token", WRITTEN)
    io.submit()
    assert wait_for(io, 2) == [(None, FAILURE, errno.ENOSPC), ("token", WRITTEN, errno.ENOSPC)]
    assert io.failure == ("write", Path("/dev/full"), errno.ENOSPC)


def test_a_failed_sync_leaves_what_was_written_reported_and_fails_the_rest(io: LogIo):
    io.append(io.create("/dev/null"), 0, b"x", "token", WRITTEN | SYNC)  # writes succeed there, syncs do not
    io.submit()
    completions = wait_for(io, 3)
    assert ("token", WRITTEN, 0) in completions
    assert ("token", SYNC, errno.EINVAL) in completions
    assert io.failure is not None
    assert io.failure[0] == "sync"


def test_a_file_that_cannot_be_made_is_told_even_if_nobody_waits(io: LogIo, tmp_path: Path):
    io.create(str(tmp_path / "missing" / "a.log"))
    io.submit()
    assert wait_for(io, 1) == [(None, FAILURE, errno.ENOENT)]


def test_a_handle_is_not_used_after_it_was_closed(io: LogIo, tmp_path: Path):
    handle = io.create(str(tmp_path / "a"))
    io.close_handle(handle, "closed")
    io.submit()
    assert wait_for(io, 1) == [("closed", CLOSED, 0)]
    io.append(handle, 0, b"x", "token", WRITTEN)
    io.submit()
    assert ("token", WRITTEN, errno.EBADF) in wait_for(io, 2)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400), st.booleans(), st.booleans()), max_size=40))
def test_files_end_up_as_if_every_append_had_been_made_in_order(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[int, int, bool, bool]]
):
    directory = tmp_path_factory.mktemp("io")
    io = LogIo(open_files_max=2)
    handles = [io.create(str(directory / str(index))) for index in range(3)]
    model = [b"", b"", b""]
    for number, (file, size, sync, submit) in enumerate(operations):
        data = bytes([number % 256]) * size
        io.append(handles[file], len(model[file]), data, number, WRITTEN | (SYNC if sync else 0))
        model[file] += data
        if submit:
            io.submit()
    io.close()
    assert [(directory / str(index)).read_bytes() for index in range(3)] == model
    completions = io.completions()
    assert Counter(token for token, stage, _ in completions if stage == WRITTEN) == Counter(range(len(operations)))
    assert not any(code for _, _, code in completions)


def submit_here(io: LogIo, handle: int, position: int) -> int:
    """Append until the event loop's side has written one itself; the position after it.

    The thread is idle a moment after it reported, so the first attempts may go to it.
    """
    for attempt in range(100_000):
        io.append(handle, position, b"y" * 100, attempt, WRITTEN)
        position += 100
        if io.submit(inline_bytes_max=100):
            return position
        wait_for(io, 1)
    raise AssertionError("the thread was never idle")


def test_a_small_group_is_written_by_the_caller_while_the_thread_is_idle(io: LogIo, tmp_path: Path):
    path = tmp_path / "a.log"
    handle = io.create(str(path))
    io.append(handle, 0, b"x" * 100, "by the thread", WRITTEN)
    assert not io.submit(inline_bytes_max=100)
    wait_for(io, 1)
    end = submit_here(io, handle, 100)
    assert path.read_bytes() == b"x" * 100 + b"y" * (end - 100)
    assert not has_news(io)
    assert [(stage, errno) for _, stage, errno in io.completions()] == [(WRITTEN, 0)]
    assert io.inline_groups == 1


def write_here(io: LogIo, handle: int, position: int, data: bytes) -> None:
    """Until it is done: the thread is idle a moment after it reported."""
    for _ in range(100_000):
        if io.write_here(handle, position, data, len(data)):
            return
    raise AssertionError("the thread was never idle")


def test_a_write_at_once_is_done_and_nobody_is_told(io: LogIo, tmp_path: Path):
    path = tmp_path / "a.log"
    handle = io.create(str(path))
    assert not io.write_here(handle, 0, b"x", 100), "the file is still to be made"
    io.append(handle, 0, b"x" * 100, "by the thread", WRITTEN)
    io.submit()
    wait_for(io, 1)
    write_here(io, handle, 100, b"y" * 50)
    assert path.read_bytes() == b"x" * 100 + b"y" * 50
    assert (io.inline_groups, io.write_calls, io.written_bytes, io.queued_bytes) == (1, 2, 150, 0)
    assert not has_news(io)
    assert io.completions() == []
    assert not io.write_here(handle, 150, b"z" * 50, 49), "too much"
    assert not io.write_here(handle + 1, 150, b"z", 100), "no such file"
    io.append(handle, 150, b"z", None, WRITTEN)
    assert not io.write_here(handle, 151, b"z", 100), "something else comes before"
    assert path.stat().st_size == 150


def test_what_cannot_be_written_at_once_fails_when_it_is_appended(io: LogIo):
    handle = io.create("/dev/full")
    io.append(handle, 0, b"", "opened", WRITTEN)
    io.submit()
    wait_for(io, 1)
    for _ in range(100):
        assert not io.write_here(handle, 0, b"x" * 100, 100)
    assert (io.failure, io.completions(), io.written_bytes) == (None, [], 0)
    io.append(handle, 0, b"x" * 100, "token", WRITTEN)
    completions = io.completions() if io.submit(inline_bytes_max=100) else wait_for(io, 2)
    assert completions == [(None, FAILURE, errno.ENOSPC), ("token", WRITTEN, errno.ENOSPC)]


def test_a_failure_of_the_callers_write_is_reported_as_one_of_the_thread_is(io: LogIo):
    handle = io.create("/dev/full")
    io.append(handle, 0, b"", "opened", WRITTEN)
    io.submit()
    wait_for(io, 1)
    io.append(handle, 0, b"x" * 100, "token", WRITTEN)
    completions = io.completions() if io.submit(inline_bytes_max=100) else wait_for(io, 2)
    assert completions == [(None, FAILURE, errno.ENOSPC), ("token", WRITTEN, errno.ENOSPC)]
    assert io.failure == ("write", Path("/dev/full"), errno.ENOSPC)


def test_what_the_thread_does_is_counted(io: LogIo, tmp_path: Path):
    first, second = (io.create(str(tmp_path / name)) for name in ("a", "b"))
    before = histograms(io.trace())
    for handle in (first, second):
        io.append(handle, 0, b"x" * 1000, "written", io.SYNC)
    io.append(first, 1000, b"x" * 1000, "written", io.SYNC)
    io.submit()
    wait_for(io, 3)
    io.append(first, 2000, b"x", None, io.WRITTEN)
    io.submit()
    io.close()
    found = {name: histogram.since(before[name]) for name, histogram in histograms(io.trace()).items()}
    assert (found["appends"].count, found["appends"].sum) == (2, 4)
    assert (found["bytes"].count, found["bytes"].sum) == (2, 3001)
    assert (found["files"].count, found["files"].sum) == (1, 2)
    assert [found[name].count for name in ("write_us", "sync_us")] == [2, 1]
    assert found["queue_us"].count >= 2
    assert found["fetch_us"].count >= 1
    assert found["bytes"].quantile(1.0) == 4096
