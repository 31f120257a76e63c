"""Which version of an API to speak with a broker: the highest that both sides know."""

from collections.abc import Mapping

from ottla.client.errors import ProtocolViolationError, UnsupportedApiError, broker_error
from ottla.model.error_code import ErrorCode
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_SPOKEN: Mapping[type[ApiMessage], tuple[int, int]] = {
    DeleteTopicsRequest: (1, 5),  # 6 names topics by id or name; a name is all an operator has
    EndTxnRequest: (5, 5),  # the answer has the epoch of the next transaction (KIP-890)
    FindCoordinatorRequest: (4, 6),  # several keys in one request
    InitProducerIdRequest: (3, 5),  # 3: the epoch can be raised; 6 is not stable
    LeaveGroupRequest: (3, 5),  # members in a list
    OffsetCommitRequest: (2, 9),  # 10 names topics by id alone, and commits must survive without metadata
    OffsetFetchRequest: (8, 9),  # several groups in one request
    TxnOffsetCommitRequest: (5, 5),  # the offsets become part of the transaction by this alone (KIP-890)
}
"""Where this client speaks fewer versions than the protocol has."""

_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_CORRELATION_ID_BYTES = 4


class VersionTable:
    """The ranges of versions that one broker serves.

    >>> VersionTable({18: (0, 3)}).choose(ApiVersionsRequest)
    3
    """

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        self._ranges = dict(ranges)

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> "VersionTable":
        """The table of a broker that answered ApiVersions. Raises BrokerError when it answered with an error."""
        if response.error_code:
            raise broker_error(response.error_code, "asking the broker which versions it serves")
        return cls({api.api_key: (api.min_version, api.max_version) for api in response.api_keys})

    def choose(self, request: type[ApiMessage]) -> int:
        """The version to send `request` in. Raises UnsupportedApiError when there is none."""
        lowest, highest = spoken_versions(request)
        broker_lowest, broker_highest = self._ranges.get(request.API_KEY, (0, -1))
        version = min(highest, broker_highest)
        if version >= max(lowest, broker_lowest):
            return version
        name = request.__name__.removesuffix("Request")
        serves = f"versions {broker_lowest} to {broker_highest}" if broker_highest >= 0 else "no version"
        raise UnsupportedApiError(f"the broker serves {serves} of {name}; this client speaks {lowest} to {highest}")


def spoken_versions(request: type[ApiMessage]) -> tuple[int, int]:
    """The lowest and the highest version of a request that this client sends."""
    return _SPOKEN.get(request, (request.MIN_VERSION, request.MAX_VERSION))


def older_api_versions(frame: memoryview, sent_version: int) -> int | None:
    """The version to ask ApiVersions in again, or None when the answer in `frame` can be read as it was asked.

    A broker that does not know the version answers UNSUPPORTED_VERSION in the form of version 0, whatever was asked
    (KIP-511); it says there which versions of ApiVersions it does know.
    """
    body = frame[_CORRELATION_ID_BYTES:]
    if sent_version == 0 or body[:2] != _UNSUPPORTED_VERSION:
        return None
    answer = ApiVersionsResponse.decode(0, body)
    known = [api.max_version for api in answer.api_keys if api.api_key == ApiVersionsRequest.API_KEY]
    older = min(known[0] if known else 0, sent_version)
    if older == sent_version:
        raise ProtocolViolationError(f"the broker refused version {sent_version} of ApiVersions and claims to serve it")
    return older
