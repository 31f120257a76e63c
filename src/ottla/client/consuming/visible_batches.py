"""Which of the batches a leader gave may be seen with read_committed.

The response lists the aborted transactions by producer id and first offset. From that offset on, every transactional
batch of that producer belongs to the aborted transaction, until its ABORT marker, a control batch, ends it (KIP-98):

```
 offset      10    11    12    13          14    15
 batch       A     B     A     A:ABORT     A     A:COMMIT      aborted: (A, 10)
 visible           yes                     yes
```

A leader returns records up to the last stable offset, so no batch of an open transaction is among them.
"""

from collections.abc import Iterator

from ottla.client.consuming.fetch import FetchedBatches
from ottla.native import BatchInfo, walk_batches


def visible_spans(fetched: FetchedBatches, batches: list[BatchInfo]) -> Iterator[memoryview]:
    """The parts of `fetched.records` without batches of aborted transactions; neighbours are joined.

    `batches` are the whole batches of `fetched.records`. The parts may contain markers, which decoding skips.
    """
    if not fetched.aborted:
        if batches:
            yield fetched.records[: batches[-1].position + batches[-1].size]
        return
    pending = sorted(fetched.aborted, key=lambda transaction: transaction.first_offset)
    aborting: set[int] = set()
    start: int | None = None
    for batch in batches:
        while pending and pending[0].first_offset <= batch.last_offset:
            aborting.add(pending.pop(0).producer_id)
        hidden = batch.is_transactional and batch.producer_id in aborting
        if hidden and batch.is_control:
            # A marker ends the transaction: only an abort can come while its producer is aborting.
            aborting.discard(batch.producer_id)
        if hidden and start is not None:
            yield fetched.records[start : batch.position]
            start = None
        elif not hidden and start is None:
            start = batch.position
    if start is not None and batches:
        yield fetched.records[start : batches[-1].position + batches[-1].size]


def whole_batches(records: memoryview) -> list[BatchInfo]:
    """The whole batches of an answer; a part of a batch at its end is not among them. Raises KernelError."""
    batches, _, error = walk_batches(records, check_crc=False)
    if error is not None:
        raise error
    return batches
