"""What the kernel raises when bytes from a peer or a file are not what they claim to be.

The kernel never panics on hostile bytes; it raises one of these. What a caller did wrong (a level that does not exist,
a record that is no tuple) is a `TypeError`, `ValueError` or `OverflowError`.
"""

from ottla.model.errors import InvalidInputError


class KernelError(InvalidInputError):
    """Bytes could not be used; the message says what was wrong and where.

    `position` is the byte in the buffer at which the batch with the failure starts, `batch_index` that batch's place in
    the run from 0, and `base_offset` what its header says. Each is None where it does not apply or could not be read.
    `record_errors` names records that are the reason: the index in the batch, from 0, and what is wrong.
    """

    record_errors: tuple[tuple[int, str], ...] = ()

    def __init__(
        self,
        message: str,
        position: int | None = None,
        batch_index: int | None = None,
        base_offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.position = position
        self.batch_index = batch_index
        self.base_offset = base_offset


class CorruptRecordError(KernelError):
    """Checksums, lengths or counts contradict each other: the bytes were changed, or never were right."""


class InvalidRecordError(CorruptRecordError):
    """The batch is as it was written, but no producer may write it: sending it again cannot help."""


class InvalidTimestampError(KernelError):
    """A record's timestamp is too far from now, or not the producer's own."""


class BatchTooLargeError(KernelError):
    """A batch is longer than the caller allows."""


class UnsupportedMagicError(KernelError):
    """A batch in a message format other than 2, the only one since Kafka 4.0."""


class UnsupportedCodecError(KernelError):
    """A batch names a compression codec that does not exist."""


class DecompressionLimitError(KernelError):
    """The records would expand beyond the caller's limit. What lies before `position` was within it."""


class TruncatedError(KernelError):
    """The buffer ends inside a batch or a message."""


class MessageError(KernelError):
    """A message of the protocol cannot be read from bytes, or not be written in the version asked for.

    The text names the message, the field by its path and, for bytes, the position.
    """


class RecordRangeError(KernelError):
    """A range of offsets ends before it begins, or has records that were never delivered."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the range from offset {offset} on is not one of delivered records")
        self.offset = offset


class RecordNotHeldError(KernelError):
    """A record is not held by who settles or extends it: it was settled, its time is over, or another has it."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the record at offset {offset} is not held by this owner")
        self.offset = offset
