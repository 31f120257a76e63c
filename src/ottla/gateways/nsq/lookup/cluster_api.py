"""The HTTP API of nsqlookupd, answered by a broker from what the cluster agreed on: nobody has to register.

```
topic -> its partitions -> the leader and the in-sync replicas of each that live, where they serve NSQ clients
```
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ottla.broker.access import is_refusal
from ottla.gateways.nsq.http_error import HEADERS, HttpError, given, refuse
from ottla.gateways.nsq.identify import VERSION
from ottla.gateways.nsq.lookup.http_api import BODY_MAX, DONE, named_channel, shown
from ottla.gateways.nsq.lookup.registry import ProducerInfo
from ottla.gateways.nsq.names import is_valid_topic_name, topic_of
from ottla.model.errors import ApiError
from ottla.network.http_connection import (
    IDLE_MS,
    TEXT_TYPE,
    HttpConnection,
    HttpRequest,
    HttpResponse,
    HttpService,
    json_response,
)
from ottla.network.piece_reader import PieceReader
from ottla.network.wire_protocol import WireProtocol
from ottla.settings.endpoint import Endpoint

if TYPE_CHECKING:
    from ottla.gateways.nsq.gateway import NsqGateway
    from ottla.metadata.image.image import BrokerImage, TopicImage

logger = logging.getLogger(__name__)

TCP_ENDPOINT: Final = "nsq"
HTTP_ENDPOINT: Final = "nsq-http"
"""What brokers register these listeners as; listeners of Kafka clients have names in capitals."""

Call = Callable[["ClusterLookupApi", HttpRequest], Awaitable[HttpResponse]]


def cluster_lookup_protocol(gateway: NsqGateway) -> WireProtocol:
    """What a listener for clients that look topics up speaks."""
    service = ClusterLookupApi(gateway).service()
    return WireProtocol(
        "HTTP",
        lambda connection: HttpConnection(service, connection),
        PieceReader,
        limits=lambda config: replace(config, connections_max_idle_ms=IDLE_MS),
    )


class ClusterLookupApi:
    """Belongs to the event loop."""

    def __init__(self, gateway: NsqGateway) -> None:
        self._gateway = gateway

    def service(self) -> HttpService:
        """What a listener asks."""
        broker = self._gateway.broker
        return HttpService(self.answer, refuse, lambda path: BODY_MAX, broker.timer, broker.tasks)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """The answer to a request, also where it fails."""
        try:
            methods = _CALLS.get(request.path)
            if methods is None:
                raise HttpError(404, "NOT_FOUND")
            call = methods.get(request.method)
            if call is None:
                raise HttpError(405, "METHOD_NOT_ALLOWED", {"Allow": ", ".join(sorted({"OPTIONS", *methods}))})
            return await call(self, request)
        except HttpError as error:
            return error.response()
        except ApiError as error:
            if is_refusal(error):
                return HttpError(403, "UNAUTHORIZED").response()
            logger.warning("%s %s failed: %s", request.method, request.path, error.message)
            return HttpError(500, "INTERNAL_ERROR").response()
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return HttpError(500, "INTERNAL_ERROR").response()

    async def _ping(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, b"OK", TEXT_TYPE)

    async def _info(self, request: HttpRequest) -> HttpResponse:
        return json_response({"version": VERSION}, headers=HEADERS)

    async def _topics(self, request: HttpRequest) -> HttpResponse:
        return json_response({"topics": sorted(self._known())}, headers=HEADERS)

    async def _channels(self, request: HttpRequest) -> HttpResponse:
        topic = self._known().get(given(request, "topic"))
        return json_response({"channels": [] if topic is None else await self._channels_of(topic)}, headers=HEADERS)

    async def _look_up(self, request: HttpRequest) -> HttpResponse:
        topic = self._known().get(given(request, "topic"))
        if topic is None:
            raise HttpError(404, "TOPIC_NOT_FOUND")
        servers = self._servers()
        document = {
            "channels": await self._channels_of(topic),
            "producers": [shown(servers[each]) for each in sorted(_readable_at(topic)) if each in servers],
        }
        return json_response(document, headers=HEADERS)

    async def _nodes(self, request: HttpRequest) -> HttpResponse:
        topics: dict[int, list[str]] = {}
        for name, topic in sorted(self._known().items()):
            for broker_id in _readable_at(topic):
                topics.setdefault(broker_id, []).append(name)
        nodes = []
        for number, server in sorted(self._servers().items()):
            named = topics.get(number, [])
            nodes.append(shown(server) | {"tombstones": [False] * len(named), "topics": named})
        return json_response({"producers": nodes}, headers=HEADERS)

    async def _create_topic(self, request: HttpRequest) -> HttpResponse:
        topic = given(request, "topic")
        if not is_valid_topic_name(topic):
            raise HttpError(400, "INVALID_ARG_TOPIC")
        await self._gateway.administration.create_topic(topic)
        return DONE

    async def _create_channel(self, request: HttpRequest) -> HttpResponse:
        topic, channel = named_channel(request)
        administration = self._gateway.administration
        await administration.create_topic(topic)
        image = self._gateway.broker.image.topic(topic_of(topic))
        if image is None:
            raise HttpError(404, "TOPIC_NOT_FOUND")
        await administration.create_channel(image, channel)
        return DONE

    async def _forget_topic(self, request: HttpRequest) -> HttpResponse:
        """Nothing: a topic is known while it is there, and is deleted at a broker."""
        given(request, "topic")
        return DONE

    async def _forget_channel(self, request: HttpRequest) -> HttpResponse:
        name, channel = named_channel(request)
        topic = self._known().get(name)
        if topic is None or channel not in await self._channels_of(topic):
            raise HttpError(404, "CHANNEL_NOT_FOUND")
        return DONE

    async def _tombstone(self, request: HttpRequest) -> HttpResponse:
        """Nothing: a topic is read where its replicas are."""
        given(request, "topic")
        given(request, "node")
        return DONE

    def _known(self) -> dict[str, TopicImage]:
        return dict(self._gateway.administration.topics(self._gateway.known_to))

    async def _channels_of(self, topic: TopicImage) -> list[str]:
        return sorted(await self._gateway.administration.channels(topic, self._gateway.known_to))

    def _servers(self) -> dict[int, ProducerInfo]:
        """Where the brokers that live serve NSQ clients, by their numbers."""
        brokers = self._gateway.broker.image.live_brokers()
        return {number: info for number, each in brokers.items() if (info := _server(each)) is not None}


def _server(broker: BrokerImage) -> ProducerInfo | None:
    tcp = broker.endpoints.get(TCP_ENDPOINT)
    if tcp is None:
        return None
    host, port = tcp
    _, http_port = broker.endpoints.get(HTTP_ENDPOINT, tcp)
    where = str(Endpoint(host, port)).partition("://")[2]
    return ProducerInfo(host, host, port, http_port, VERSION, where)


def _readable_at(topic: TopicImage) -> set[int]:
    """The brokers that clients are sent to: leaders, and those that may lead next. Each has the messages of all."""
    return {broker_id for each in topic.partitions for broker_id in (each.leader, *each.isr)}


_CALLS: Final[Mapping[str, Mapping[str, Call]]] = {
    "/ping": {"GET": ClusterLookupApi._ping},
    "/info": {"GET": ClusterLookupApi._info},
    "/lookup": {"GET": ClusterLookupApi._look_up},
    "/topics": {"GET": ClusterLookupApi._topics},
    "/channels": {"GET": ClusterLookupApi._channels},
    "/nodes": {"GET": ClusterLookupApi._nodes},
    "/topic/create": {"POST": ClusterLookupApi._create_topic},
    "/topic/delete": {"POST": ClusterLookupApi._forget_topic},
    "/topic/tombstone": {"POST": ClusterLookupApi._tombstone},
    "/channel/create": {"POST": ClusterLookupApi._create_channel},
    "/channel/delete": {"POST": ClusterLookupApi._forget_channel},
}
