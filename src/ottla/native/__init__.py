"""The typed face of the Rust kernel.

Pure work on bytes that the caller hands in, except `LogIo`, which owns a thread, and `SocketPoll`, which moves bytes
between sockets and buffers. Inputs above 64 KiB are worked on without the GIL: nobody may change or resize a buffer
until the call that was given it returns.
"""

from ottla.native._kernel import (
    ArrowRecords,
    BatchInfo,
    Compaction,
    DirtyKeys,
    LogIo,
    MessageCodec,
    RequestHeader,
    RequestHeaderDecoder,
    SingleProduceRequest,
    SocketPoll,
    TopicPattern,
    TopicRules,
    aborted_between,
    assign_offsets,
    assign_producer,
    build_batch,
    crc32c,
    decode_arrow,
    decode_newest,
    decode_records,
    decode_response_header,
    decompress,
    encode_arrow,
    murmur2,
    validate_batches,
    walk_batches,
)

__all__ = [
    "ArrowRecords",
    "BatchInfo",
    "Compaction",
    "DirtyKeys",
    "LogIo",
    "MessageCodec",
    "RequestHeader",
    "RequestHeaderDecoder",
    "SingleProduceRequest",
    "SocketPoll",
    "TopicPattern",
    "TopicRules",
    "aborted_between",
    "assign_offsets",
    "assign_producer",
    "build_batch",
    "crc32c",
    "decode_arrow",
    "decode_newest",
    "decode_records",
    "decode_response_header",
    "decompress",
    "encode_arrow",
    "murmur2",
    "validate_batches",
    "walk_batches",
]
