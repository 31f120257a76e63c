"""What a producer is told of a batch that the kernel refuses."""

from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.error_texts import ERROR_TEXTS
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    DecompressionLimitError,
    InvalidRecordError,
    InvalidTimestampError,
    KernelError,
    TruncatedError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX, DECOMPRESSED_RATIO_MAX

_ERROR_OF_KERNEL: Final[tuple[tuple[type[KernelError], ErrorCode], ...]] = (
    (UnsupportedMagicError, ErrorCode.INVALID_RECORD),
    (UnsupportedCodecError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP),
    (InvalidRecordError, ErrorCode.INVALID_RECORD),
    # Clients split a batch that is too large and send the halves.
    (BatchTooLargeError, ErrorCode.MESSAGE_TOO_LARGE),
    (DecompressionLimitError, ErrorCode.MESSAGE_TOO_LARGE),
    (CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (TruncatedError, ErrorCode.CORRUPT_MESSAGE),
)

_WITH_WORDS: Final = frozenset({ErrorCode.INVALID_TIMESTAMP, ErrorCode.MESSAGE_TOO_LARGE})
"""What the kernel says has not the words that people search for."""

_LIMIT: Final = (
    f", as the topic asks for it; send smaller batches, or raise max.message.bytes, of which {DECOMPRESSED_RATIO_MAX} "
    f"times as much is opened, up to {DECOMPRESSED_BYTES_MAX >> 20} MiB"
)


class BatchRefusedError(ApiError):
    """A batch may not be appended; `record_errors` names the records that are the reason (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def refusal_of(name: TopicPartition, error: KernelError) -> BatchRefusedError:
    """The error of the protocol that says what the kernel found in a batch for the partition."""
    code = next((code for kind, code in _ERROR_OF_KERNEL if isinstance(error, kind)), ErrorCode.INVALID_RECORD)
    hint = _LIMIT if isinstance(error, DecompressionLimitError) else ""
    words = f"{ERROR_TEXTS[code]}: " if code in _WITH_WORDS else ""
    return BatchRefusedError(code, f"{name}: {words}{error}{hint}", error.record_errors)
