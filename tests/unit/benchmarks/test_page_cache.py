"""Memory is filled until little is free, from where the last filling stopped."""

from benchmarks.beside_kafka.page_cache import CHUNK, ENOUGH_MB, PageCacheFiller

CHUNK_MB = CHUNK / (1 << 20)


def test_filling_stops_when_little_is_free_and_goes_on_from_there(tmp_path):
    free = [ENOUGH_MB + 20.0, ENOUGH_MB + 10.0, ENOUGH_MB, ENOUGH_MB + 5.0, ENOUGH_MB - 1.0]
    filler = PageCacheFiller(tmp_path / "sparse", lambda: free.pop(0))
    assert filler.fill() == 2 * CHUNK_MB
    assert filler.position == 2 * CHUNK
    assert filler.fill() == CHUNK_MB
    assert filler.position == 3 * CHUNK


def test_the_file_takes_no_disk(tmp_path):
    PageCacheFiller(tmp_path / "sparse", lambda: 0.0).fill()
    stat = (tmp_path / "sparse").stat()
    assert stat.st_size > 1 << 30
    assert stat.st_blocks * 512 < 1 << 20
