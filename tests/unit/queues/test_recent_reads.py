"""Batches that are kept for the next delivery, and no more than may be."""

from uuid import UUID

from ottla.native import build_batch, walk_batches
from ottla.queues.recent_reads import Read, ReadKey, RecentReads


def read_of(base_offset: int, count: int) -> Read:
    data = bytes(build_batch([(0, None, b"x" * 100, ())] * count, base_offset=base_offset))
    return Read(data, walk_batches(data, check_crc=False)[0], frozenset())


def key_of(partition: int, epoch: int = 0) -> ReadKey:
    return ReadKey(UUID(int=1), partition, epoch, False)


def test_a_read_is_found_for_the_offsets_that_it_has_and_for_nothing_else() -> None:
    reads = RecentReads()
    read = read_of(10, 5)
    reads.keep(key_of(0), read)
    assert [reads.find(key_of(0), offset) is read for offset in (9, 10, 14, 15)] == [False, True, True, False]
    assert reads.find(key_of(1), 10) is None
    assert reads.find(key_of(0, epoch=1), 10) is None, "another leader may have cut the log"
    newer = read_of(15, 5)
    reads.keep(key_of(0), newer)
    assert (reads.find(key_of(0), 10), reads.find(key_of(0), 15)) == (None, newer)
    assert reads.kept_bytes == len(newer.data)


def test_the_least_recently_used_goes_first_and_a_large_read_is_not_kept() -> None:
    read = read_of(0, 5)
    reads = RecentReads(4 * len(read.data))
    for partition in range(4):
        reads.keep(key_of(partition), read)
    assert reads.find(key_of(0), 0) is read
    reads.keep(key_of(4), read)
    assert [reads.find(key_of(partition), 0) is read for partition in range(5)] == [True, False, True, True, True]
    reads.keep(key_of(0), read_of(0, 10))
    assert reads.find(key_of(0), 0) is None
    assert reads.kept_bytes == 3 * len(read.data)
