"""Batches that may be appended at once, as they are."""

from collections.abc import Iterator, Sequence

from ottla.native import BatchInfo


def runs_of(batches: Sequence[BatchInfo]) -> Iterator[Sequence[BatchInfo]]:
    """Batches of one epoch that follow each other: compaction leaves gaps, and what is read may span epochs."""
    start = 0
    for index, batch in enumerate(batches):
        before = batches[index - 1]
        if index > start and (batch.base_offset != before.last_offset + 1 or batch.leader_epoch != before.leader_epoch):
            yield batches[start:index]
            start = index
    if batches:
        yield batches[start:]
