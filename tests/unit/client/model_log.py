"""A partition as a broker keeps it for idempotent producers: naive, and strict about sequence numbers."""

from dataclasses import dataclass, field

from ottla.model.error_code import ErrorCode
from ottla.native import decode_records, validate_batches

_REMEMBERED = 5


@dataclass
class ModelLog:
    """Values in order, and the last five batches of each producer (KIP-98)."""

    values: list[bytes | None] = field(default_factory=list)
    producers: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)

    def append(self, batch: bytes | bytearray | memoryview) -> tuple[ErrorCode, int]:
        """Append one batch, or find that it is a duplicate; the error code and the base offset."""
        [info] = validate_batches(batch)
        if info.producer_id >= 0:
            known = self.producers.setdefault(info.producer_id, [])
            for epoch, sequence, last, offset in known:
                if (epoch, sequence, last) == (info.producer_epoch, info.base_sequence, info.last_sequence):
                    return ErrorCode.NONE, offset
            if known and info.producer_epoch < known[-1][0]:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            fresh = not known or info.producer_epoch > known[-1][0]
            expected = 0 if fresh else (known[-1][2] + 1) % (1 << 31)
            if info.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            known.append((info.producer_epoch, info.base_sequence, info.last_sequence, len(self.values)))
            del known[:-_REMEMBERED]
        offset = len(self.values)
        self.values += [record[3] for record in decode_records(batch, max_decompressed_bytes=1 << 30)]
        return ErrorCode.NONE, offset
