"""Which answers tell the operator something about the peer that asked.

Most errors are part of a day's work: a leader moved, a group rebalances, a topic is not there yet. These are not: the
peer sent what no client of the protocol sends, or what somebody should look at. They are said in the log too, with the
peer's address, within the limits of the listener's log lines.
"""

from typing import Final

from ottla.model.error_code import ErrorCode

BAD_INPUT: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)
"""The errors that are logged."""
