"""What can go wrong between a client and its brokers.

Every message is one line written for the person who runs the client: what happened, where, and what to do next.
"""

from ottla.model.error_code import ErrorCode
from ottla.model.error_texts import ERROR_TEXTS


class ClientError(Exception):
    """The root of every error this package raises."""


class InvalidOptionError(ClientError, ValueError):
    """An option, an address or an argument is not usable; nothing was sent."""


class BrokerUnreachableError(ClientError):
    """No connection could be made to any of the addresses tried."""


class TokenUnavailableError(BrokerUnreachableError):
    """The identity provider whose token the client logs in by could not be asked; it may be later."""


class ConnectionLostError(ClientError):
    """A connection ended while requests were unanswered; whether the broker acted on them is not known."""


class RequestTimedOutError(ClientError):
    """The broker accepted a request and did not answer it in time; whether it acted on it is not known."""


NO_CONNECTION = (BrokerUnreachableError, ConnectionLostError, RequestTimedOutError)
"""What says that a connection could not be made or did not last."""


class ProtocolViolationError(ClientError):
    """The other side sent something that is not the Kafka protocol, or more of it than we allow."""


class UnsupportedApiError(ClientError):
    """The broker and this client have no version of an API in common."""


class BrokerError(ClientError):
    """The broker answered with an error code.

    `code` is the protocol's number for it; `retriable` says whether the same request may succeed later.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = code.retriable


class TopicNotFoundError(BrokerError):
    """The topic, or the partition of it, does not exist."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        what = f"topic {topic!r}" if partition is None else f"partition {partition} of topic {topic!r}"
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what} does not exist")
        self.topic = topic
        self.partition = partition


class GroupNotFoundError(BrokerError):
    """The consumer group does not exist: nobody has joined it and it has no committed offsets.

    `group_type`: that of the group which has this name, such as share.
    """

    def __init__(self, group_id: str, group_type: str | None = None) -> None:
        is_other = f"group {group_id!r} is a {group_type} group, not a consumer group"
        what = is_other if group_type else f"consumer group {group_id!r} does not exist"
        super().__init__(ErrorCode.GROUP_ID_NOT_FOUND, what)
        self.group_id = group_id
        self.group_type = group_type


class OffsetOutOfRangeError(BrokerError):
    """A position is before the first or after the last offset that the partition still has."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {topic}-{partition} is out of range: deleted, or not yet written",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class ProducerFencedError(BrokerError):
    """Another producer with the same transactional id took over, or the transaction went on for too long.

    This one can do nothing any more.
    """

    def __init__(self, transactional_id: str, reason: str) -> None:
        super().__init__(
            ErrorCode.PRODUCER_FENCED,
            f"the producer of transactional id {transactional_id!r} was fenced off: another took over, or its "
            f"transaction timed out; make a new producer ({reason})",
        )
        self.transactional_id = transactional_id


class TransactionAbortableError(BrokerError):
    """The transaction cannot be committed any more. Abort it; the next one may succeed."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.TRANSACTION_ABORTABLE) -> None:
        super().__init__(code, message)
        self.retriable = False


def error_code(number: int) -> ErrorCode:
    """The error code of that number; one that is newer than this client counts as `UNKNOWN_SERVER_ERROR`."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def broker_error(number: int, what: str, message: str | None = None) -> BrokerError:
    """The exception for an error code in a response.

    `what` describes the request in a few words. `message` is the broker's own text, if the API has one.
    """
    code = error_code(number)
    reason = message or (f"{code.name}: {ERROR_TEXTS[code]}" if code == number else f"error code {number}")
    return BrokerError(code, f"{what}: {reason}")
