"""The first exchange on a connection: which versions does the broker serve?

It does no I/O: `HandshakeStep` returns the request and takes the response. Then it either has the versions or an older
request, because a broker that does not know our version of ApiVersions answers in version 0 (KIP-511).
"""

from ottla import __version__
from ottla.client.io.version_table import VersionTable, older_api_versions, spoken_versions
from ottla.protocol import frame as wire
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE_NAME = "ottla"


class Handshake:
    """One negotiation: send `request()` in `version`, give the frame of the answer to `answer()` until it returns."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = spoken_versions(ApiVersionsRequest)[1]

    def request(self) -> ApiVersionsRequest:
        """What to send in `version`."""
        if self.version < 3:
            return ApiVersionsRequest()
        return ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=__version__)

    def answer(self, frame: memoryview) -> VersionTable | None:
        """The versions, or None: ask again. Raises BrokerError, ProtocolViolationError and MessageError."""
        older = older_api_versions(frame, self.version)
        if older is not None:
            self.version = older
            return None
        _, response = wire.decode_response(ApiVersionsRequest.API_KEY, self.version, frame)
        assert isinstance(response, ApiVersionsResponse)
        return VersionTable.from_response(response)
