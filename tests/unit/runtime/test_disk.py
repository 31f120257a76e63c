"""Files as others find them, and the order of the calls that makes them durable."""

import os
from pathlib import Path

import pytest

from ottla.runtime.disk import OsDisk

disk = OsDisk()


def test_write_atomic_replaces_the_content_and_leaves_no_other_file(tmp_path: Path):
    path = tmp_path / "checkpoint"
    disk.write_atomic(path, b"old")
    disk.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert disk.list_dir(tmp_path) == ["checkpoint"]


def test_a_new_content_is_synced_before_it_gets_its_name_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    events: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(fd: int) -> None:
        events.append("sync " + Path(f"/proc/self/fd/{fd}").readlink().name)
        real_fsync(fd)

    def replace(self: Path, target: Path) -> Path:
        events.append(f"rename {self.name} to {target.name}")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    disk.write_atomic(tmp_path / "meta", b"x")
    assert events == ["sync meta.tmp", "rename meta.tmp to meta", f"sync {tmp_path.name}"]


def test_a_write_that_fails_leaves_the_old_content_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "checkpoint"
    disk.write_atomic(path, b"old")

    def no_space(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        disk.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert disk.list_dir(tmp_path) == ["checkpoint"]


def test_make_dir_makes_parents_and_accepts_what_exists(tmp_path: Path):
    disk.make_dir(tmp_path / "a" / "b")
    disk.make_dir(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_make_dir_takes_the_working_directory_for_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    disk.make_dir("")
    disk.make_dir("a/b/")
    assert (tmp_path / "a" / "b").is_dir()


def test_every_directory_that_is_made_is_synced_into_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[str] = []
    monkeypatch.setattr(OsDisk, "sync_dir", lambda _self, path: synced.append(str(path)))
    disk.make_dir(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    disk.make_dir(tmp_path / "c" / "d", durable=False)
    assert len(synced) == 2


@pytest.mark.parametrize("path", ["/proc/ottla", "/proc/ottla/below"])
def test_make_dir_gives_up_where_nothing_can_be_made(path: str):
    with pytest.raises(OSError, match="/proc/ottla"):
        disk.make_dir(path)


def test_make_dir_refuses_a_file_in_its_place(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError):
        disk.make_dir(tmp_path / "a")
    with pytest.raises(OSError):
        disk.make_dir(tmp_path / "a" / "b")


def test_what_is_missing_can_be_removed_and_a_tree_goes_with_its_content(tmp_path: Path):
    disk.remove(tmp_path / "nothing")
    disk.remove_tree(tmp_path / "nothing")
    disk.make_dir(tmp_path / "t" / "u")
    disk.write_atomic(tmp_path / "t" / "u" / "f", b"1")
    disk.remove_tree(tmp_path / "t")
    assert not disk.exists(tmp_path / "t")


def test_remove_tree_does_not_follow_links_out_of_the_tree(tmp_path: Path):
    outside = tmp_path / "outside"
    disk.make_dir(outside)
    disk.write_atomic(outside / "precious", b"1")
    disk.make_dir(tmp_path / "t")
    (tmp_path / "t" / "link").symlink_to(outside)
    disk.remove_tree(tmp_path / "t")
    assert disk.exists(outside / "precious")


def test_reading_at_a_position_and_cutting(tmp_path: Path):
    path = tmp_path / "f"
    disk.write_atomic(path, b"0123456789")
    fd = disk.open_read(path)
    try:
        assert disk.pread(fd, 4, 8) == b"89"
    finally:
        os.close(fd)
    disk.truncate(path, 3)
    disk.sync_file(path)
    assert disk.size(path) == 3
    assert disk.read_bytes(path) == b"012"


def test_rename_moves_a_directory_with_its_content(tmp_path: Path):
    disk.make_dir(tmp_path / "old")
    disk.write_atomic(tmp_path / "old" / "f", b"1")
    disk.rename(tmp_path / "old", tmp_path / "new")
    assert disk.read_bytes(tmp_path / "new" / "f") == b"1"
    assert disk.list_dir(tmp_path) == ["new"]


def test_space_is_what_the_file_system_says(tmp_path: Path):
    total, usable = disk.space(tmp_path)
    assert total == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    assert 0 < usable <= total


@pytest.mark.parametrize("size", [0, 1, 65536, 200_000])
def test_a_file_is_read_whole_whatever_its_size(tmp_path: Path, size: int):
    content = os.urandom(size)
    disk.write(tmp_path / "f", content)
    assert disk.read_bytes(tmp_path / "f") == content


@pytest.mark.parametrize("content", [b"", b"ab", b"abcdef", b"abcdefgh"])
def test_a_write_replaces_everything_that_was_there(tmp_path: Path, content: bytes):
    disk.write(tmp_path / "f", b"123456")
    disk.write(tmp_path / "f", content)
    assert (tmp_path / "f").read_bytes() == content


def test_what_cannot_be_looked_at_is_not_taken_for_missing(tmp_path: Path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "file").write_bytes(b"")
    assert not disk.exists(tmp_path / "nothing")
    assert not disk.exists(tmp_path / "file" / "below")
    assert not disk.is_dir(tmp_path / "file")
    for look in (disk.exists, disk.is_dir):
        with pytest.raises(OSError):
            look(loop)
