"""A log that was made larger is one that a broker would have written, but for what lies in its sparse segments."""

import pytest

from benchmarks.beside_kafka.log_growth import file_name, grow, shifted_batches, shifted_checkpoint
from ottla.native import build_batch


def batches(*bases):
    return b"".join(bytes(build_batch([(0, None, b"value", ())], base_offset=base)) for base in bases)


@pytest.fixture
def log_directory(tmp_path):
    folder = tmp_path / "big-0"
    folder.mkdir()
    (folder / file_name(0, ".log")).write_bytes(batches(0, 1, 2))
    (folder / file_name(0, ".index")).write_bytes(b"relative")
    (folder / file_name(0, ".timeindex")).write_bytes(b"times")
    (folder / file_name(3, ".log")).write_bytes(batches(3, 4))
    for suffix in (".index", ".timeindex", ".snapshot"):
        (folder / file_name(3, suffix)).write_bytes(suffix.encode())
    (folder / file_name(5, ".snapshot")).write_bytes(b"last")
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text("0\n2\nfirst 0 1\nbig 0 5\n")
    return tmp_path


def test_batches_keep_their_checksums_when_they_move():
    moved = shifted_batches(batches(3, 4), 30)
    assert moved == batches(33, 34)
    assert moved != batches(3, 4)


def test_only_the_partition_that_grew_moves_in_a_checkpoint():
    text = "0\n3\nbig 1 7\nbig 0 7\nother 0 7\n"
    assert shifted_checkpoint(text, "big", 0, 100) == "0\n3\nbig 1 7\nbig 0 107\nother 0 7\n"


def test_sparse_segments_stand_between_the_first_and_the_active_one(log_directory):
    size = (log_directory / "big-0" / file_name(0, ".log")).stat().st_size
    grow(log_directory, "big", 4)
    folder = log_directory / "big-0"
    assert sorted(int(path.stem) for path in folder.glob("*.log")) == [0, 3, 6, 9, 12, 15]
    assert (folder / file_name(12, ".log")).stat().st_size == size
    assert (folder / file_name(12, ".index")).read_bytes() == b"relative"
    assert (folder / file_name(15, ".log")).read_bytes() == batches(15, 16)
    assert (folder / file_name(15, ".index")).read_bytes() == b".index"
    assert (folder / file_name(17, ".snapshot")).read_bytes() == b"last"
    assert "big 0 17" in (log_directory / "recovery-point-offset-checkpoint").read_text()


def test_a_log_of_one_segment_is_refused(log_directory):
    (log_directory / "big-0" / file_name(3, ".log")).unlink()
    with pytest.raises(ValueError, match="not a closed one"):
        grow(log_directory, "big", 4)
