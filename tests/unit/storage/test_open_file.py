"""Files that are being sent count as long as somebody holds them."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.runtime.disk import OsDisk
from ottla.storage.log_segment import LogSegment
from ottla.storage.open_file import OpenFiles, SegmentGoneError
from tests.unit.storage.gated_disk import GatedDisk


@pytest.fixture
def segments(tmp_path: Path) -> list[LogSegment]:
    made = [LogSegment(str(tmp_path), number) for number in range(8)]
    for segment in made:
        Path(segment.log_path).write_text(str(segment.base_offset))
    return made


def test_no_more_files_are_open_than_allowed_however_many_are_held(segments: list[LogSegment]):
    files = OpenFiles(OsDisk(), limit=2, open_max=4)
    held = [files.get(segment) for segment in segments[:4]]
    with pytest.raises(OSError, match="no more may be") as caught:
        files.get(segments[4])
    assert caught.value.errno == errno.EMFILE
    assert files.open_count == 4
    assert [file.pread(1, 0) for file in held] == [b"0", b"1", b"2", b"3"]
    held.clear()
    assert files.get(segments[4]).pread(1, 0) == b"4"
    assert files.open_count == 1


def test_what_is_kept_makes_room_for_what_is_needed(segments: list[LogSegment]):
    files = OpenFiles(OsDisk(), limit=4, open_max=4)
    for segment in segments:
        assert files.get(segment).pread(1, 0)
    assert len(files) == files.open_count
    assert files.open_count <= 4


def test_a_file_is_closed_when_it_fell_out_and_nobody_holds_it(segments: list[LogSegment]):
    files = OpenFiles(OsDisk(), limit=1)
    held = files.get(segments[0])
    files.get(segments[1])
    assert (len(files), files.open_count) == (1, 2)
    del held
    assert files.open_count == 1


def test_another_segment_at_the_same_path_is_another_file(segments: list[LogSegment]):
    files = OpenFiles(OsDisk(), limit=4)
    old = segments[0]
    held = files.get(old)
    Path(old.log_path).unlink()
    Path(old.log_path).write_text("new")
    assert files.get(LogSegment(old.directory, 0)).pread(3, 0) == b"new"
    assert files.get(old) is held


def test_a_segment_that_is_gone_is_not_opened_and_not_kept(segments: list[LogSegment]):
    files = OpenFiles(OsDisk(), limit=4)
    segments[0].is_gone = True
    with pytest.raises(SegmentGoneError):
        files.get(segments[0])
    assert (len(files), files.open_count) == (0, 0)


def test_a_file_that_takes_long_to_open_keeps_nobody_else_waiting(tmp_path: Path, segments: list[LogSegment]):
    disk = GatedDisk()
    files = OpenFiles(disk, limit=4)
    with disk.held("open_read", segments[0].log_path) as gate, ThreadPoolExecutor(1) as threads:
        opening = threads.submit(files.get, segments[0])
        gate.wait_until_reached()
        assert files.get(segments[1]).pread(1, 0) == b"1"
        files.forget(segments[2])
        gate.release()
        assert opening.result().pread(1, 0) == b"0"
