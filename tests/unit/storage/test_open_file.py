"""Files that are being sent count as long as somebody holds them."""

import errno
from pathlib import Path

import pytest

from ottla.runtime.disk import OsDisk
from ottla.storage.open_file import OpenFiles


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made = [tmp_path / str(number) for number in range(8)]
    for path in made:
        path.write_bytes(path.name.encode())
    return [str(path) for path in made]


def test_no_more_files_are_open_than_allowed_however_many_are_held(paths: list[str]):
    files = OpenFiles(OsDisk(), limit=2, open_max=4)
    held = [files.get(path) for path in paths[:4]]
    with pytest.raises(OSError, match="no more may be") as caught:
        files.get(paths[4])
    assert caught.value.errno == errno.EMFILE
    assert files.open_count == 4
    assert [file.pread(1, 0) for file in held] == [b"0", b"1", b"2", b"3"]
    held.clear()
    assert files.get(paths[4]).pread(1, 0) == b"4"
    assert files.open_count == 1


def test_what_is_kept_makes_room_for_what_is_needed(paths: list[str]):
    files = OpenFiles(OsDisk(), limit=4, open_max=4)
    for path in paths:
        assert files.get(path).pread(1, 0)
    assert len(files) == files.open_count
    assert files.open_count <= 4


def test_a_file_is_closed_when_it_fell_out_and_nobody_holds_it(paths: list[str]):
    files = OpenFiles(OsDisk(), limit=1)
    held = files.get(paths[0])
    files.get(paths[1])
    assert (len(files), files.open_count) == (1, 2)
    del held
    assert files.open_count == 1
