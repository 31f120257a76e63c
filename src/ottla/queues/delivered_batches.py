"""The bytes that a member is sent: batches of the log that its records lie in, or the records picked out of them."""

from collections.abc import Sequence

from ottla.native import BatchInfo, pick_records

Part = tuple[int, int]
"""Where one batch or several in a row begin and end in what was read."""


def fitting(batch: BatchInfo, bytes_left: int) -> int:
    """About how many records of a batch fit into what is left of an answer; of a compressed one all or none."""
    if batch.codec:
        return batch.record_count if batch.size <= bytes_left else 0
    return max(0, bytes_left * batch.record_count // batch.size)


def sent_bytes(batch: BatchInfo, count: int) -> int:
    """About the bytes of so many records that are picked out of a batch."""
    return batch.size if batch.codec else batch.size * count // max(1, batch.record_count)


def whole_batches(data: bytes, parts: Sequence[Part]) -> bytes:
    """The bytes of batches, each once; those between that nothing was delivered of are left out."""
    pieces = _together(parts)
    return data[slice(*pieces[0])] if len(pieces) == 1 else b"".join([data[start:end] for start, end in pieces])


def picked_batches(data: bytes, parts: Sequence[Part], runs: Sequence[tuple[int, int, int]]) -> bytes:
    """As `whole_batches`, but where few records of a batch were delivered, these alone: see `pick_records`."""
    return pick_records(data, _together(parts), [(first, last) for first, last, _ in runs])


def _together(parts: Sequence[Part]) -> list[Part]:
    """Parts in a row as one, each once."""
    pieces: list[Part] = []
    for start, end in parts:
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = pieces[-1][0], end
        else:
            pieces.append((start, end))
    return pieces
