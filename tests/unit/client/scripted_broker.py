"""A broker on a real socket that says what a test tells it to."""

import contextlib
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Any, Self

from ottla.protocol import frame as wire
from ottla.protocol.api_keys import APIS
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

CLOSE = object()
"""Close the connection instead of answering."""
SILENCE = object()
"""Do not answer."""

Handler = Callable[[Any, int], Any]
"""Gets a request and its version; returns the response, bytes to send as they are, CLOSE or SILENCE."""


class ScriptedBroker:
    """Node 1 of a cluster of one, with topics by name and number of partitions.

    `handlers` by request class stand over the answers it has of itself (ApiVersions, Metadata); the list `requests`
    has every request that was read. Each connection has a thread.
    """

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        self.topics = dict(topics or {})
        self.handlers: dict[type[ApiMessage], Handler] = {}
        self.requests: list[ApiMessage] = []
        self.versions = {int(api.key): (api.min_version, api.max_version) for api in APIS.values()}
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _shut(self._listener)  # which wakes the thread that accepts: the port would be listened at until then
        self.drop_connections()

    def asked(self, kind: type[ApiMessage]) -> list[Any]:
        """The requests of one class, in their order."""
        return [request for request in self.requests if isinstance(request, kind)]

    def drop_connections(self) -> None:
        """As when the broker dies."""
        for sock in self._sockets:
            _shut(sock)
        self._sockets.clear()

    def metadata(self, request: MetadataRequest, version: int = 13) -> MetadataResponse:
        """What it answers of itself: the topics it has; others do not exist."""
        del version
        by_id = {topic_id(name): name for name in self.topics}
        names = (
            list(self.topics)
            if request.topics is None
            else [by_id.get(each.topic_id, "") if each.name is None else each.name for each in request.topics]
        )
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port),),
            cluster_id="scripted",
            controller_id=1,
            topics=tuple(self._topic(name) for name in names),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        count = self.topics.get(name)
        if count is None:
            return MetadataResponseTopic(error_code=3, name=name)
        partitions = tuple(
            MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=0) for index in range(count)
        )
        return MetadataResponseTopic(name=name, topic_id=topic_id(name), partitions=partitions)

    def _answer(self, request: ApiMessage, version: int) -> Any:
        handler = self.handlers.get(type(request))
        if handler is not None:
            return handler(request, version)
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=tuple(
                    ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in self.versions.items()
                )
            )
        if isinstance(request, MetadataRequest):
            return self.metadata(request)
        return CLOSE

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        stream = sock.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while len(length := stream.read(4)) == 4:
                self._reply(sock, stream.read(int.from_bytes(length, "big")))
        _shut(sock)

    def _reply(self, sock: socket.socket, frame: bytes) -> None:
        header = wire.decode_request_header(frame)
        request = APIS[header.api_key].request_class.decode(header.api_version, frame, header.body_offset)
        self.requests.append(request)
        answer = self._answer(request, header.api_version)
        if answer is CLOSE:
            raise OSError
        if isinstance(answer, bytes):
            sock.sendall(answer)
        elif answer is not SILENCE:
            sock.sendall(wire.encode_response(header.correlation_id, answer, header.api_version))


def topic_id(name: str) -> Any:
    """The id that the broker gives a topic."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def in_turn(*answers: Any) -> Handler:
    """A handler that gives these answers one after the other, the last for ever; functions are called as handlers."""
    left = list(answers)

    def handle(request: Any, version: int) -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(request, version) if callable(answer) else answer

    return handle


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
