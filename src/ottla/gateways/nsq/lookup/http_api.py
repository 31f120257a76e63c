"""The HTTP API of nsqlookupd (https://nsq.io/components/nsqlookupd.html)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.gateways.nsq.http_error import HEADERS, HttpError, given, refuse
from ottla.gateways.nsq.identify import VERSION
from ottla.gateways.nsq.lookup.registry import NO_CHANNEL, FullError, Producer, ProducerInfo
from ottla.gateways.nsq.names import is_valid_name
from ottla.network.http_connection import TEXT_TYPE, HttpRequest, HttpResponse, HttpService, json_response

if TYPE_CHECKING:
    from ottla.gateways.nsq.lookup.service import LookupService

BODY_MAX: Final = 64 * 1024
"""No request needs a body."""
DONE: Final = HttpResponse(200, headers=HEADERS)
NS_PER_MS: Final = 1_000_000

Call = Callable[["LookupHttpApi", HttpRequest], HttpResponse]


class LookupHttpApi:
    """Belongs to the event loop."""

    def __init__(self, lookup: LookupService) -> None:
        self._lookup = lookup
        self._registry = lookup.registry

    def service(self) -> HttpService:
        """What a listener asks."""
        environment = self._lookup.environment
        return HttpService(self.answer, refuse, lambda path: BODY_MAX, environment.timer, environment.tasks)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """The answer to a request, also where it fails."""
        try:
            methods = _CALLS.get(request.path)
            if methods is None:
                raise HttpError(404, "NOT_FOUND")
            call = methods.get(request.method)
            if call is None:
                raise HttpError(405, "METHOD_NOT_ALLOWED", {"Allow": ", ".join(sorted({"OPTIONS", *methods}))})
            return call(self, request)
        except HttpError as error:
            return error.response()
        except FullError:
            return HttpError(503, "TOO_MANY_REGISTRATIONS").response()

    def _ping(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, b"OK", TEXT_TYPE)

    def _info(self, request: HttpRequest) -> HttpResponse:
        return json_response({"version": VERSION}, headers=HEADERS)

    def _topics(self, request: HttpRequest) -> HttpResponse:
        return json_response({"topics": self._registry.topics()}, headers=HEADERS)

    def _channels(self, request: HttpRequest) -> HttpResponse:
        return json_response({"channels": self._registry.channels(given(request, "topic"))}, headers=HEADERS)

    def _look_up(self, request: HttpRequest) -> HttpResponse:
        topic = given(request, "topic")
        producers = self._registry.lookup(topic, self._lookup.now_ms())
        if not producers and not self._registry.is_known(topic):
            raise HttpError(404, "TOPIC_NOT_FOUND")
        document = {"channels": self._registry.channels(topic), "producers": [shown(each) for each in producers]}
        return json_response(document, headers=HEADERS)

    def _nodes(self, request: HttpRequest) -> HttpResponse:
        now_ms = self._lookup.now_ms()
        nodes = []
        for each in self._registry.nodes(now_ms):
            topics = sorted(topic for topic, channel in each.registered if channel == NO_CHANNEL)
            tombstones = [self._registry.is_tombstoned(each, topic, now_ms) for topic in topics]
            nodes.append(shown(each.info) | {"tombstones": tombstones, "topics": topics})
        return json_response({"producers": nodes}, headers=HEADERS)

    def _debug(self, request: HttpRequest) -> HttpResponse:
        document: dict[str, list[dict[str, Any]]] = {}
        for each in self._registry.everyone():
            document.setdefault("client::", []).append(self._debugged(each))
            for topic, channel in sorted(each.registered):
                kind = "channel" if channel else "topic"
                document.setdefault(f"{kind}:{topic}:{channel}", []).append(self._debugged(each))
        return json_response(document, headers=HEADERS)

    def _debugged(self, producer: Producer) -> dict[str, Any]:
        silent_ms = self._lookup.now_ms() - producer.heard_ms
        heard_ms = self._lookup.environment.clock.now_ms() - silent_ms
        return {
            "id": producer.info.remote_address,
            "hostname": producer.info.hostname,
            "broadcast_address": producer.info.broadcast_address,
            "tcp_port": producer.info.tcp_port,
            "http_port": producer.info.http_port,
            "version": producer.info.version,
            "last_update": heard_ms * NS_PER_MS,
            "tombstoned": bool(producer.tombstones),
        }

    def _create_topic(self, request: HttpRequest) -> HttpResponse:
        topic = given(request, "topic")
        if not is_valid_name(topic):
            raise HttpError(400, "INVALID_ARG_TOPIC")
        self._registry.create(topic)
        return DONE

    def _delete_topic(self, request: HttpRequest) -> HttpResponse:
        self._registry.delete(given(request, "topic"))
        return DONE

    def _create_channel(self, request: HttpRequest) -> HttpResponse:
        self._registry.create(*named_channel(request))
        return DONE

    def _delete_channel(self, request: HttpRequest) -> HttpResponse:
        if not self._registry.delete(*named_channel(request)):
            raise HttpError(404, "CHANNEL_NOT_FOUND")
        return DONE

    def _tombstone(self, request: HttpRequest) -> HttpResponse:
        self._registry.tombstone(given(request, "topic"), given(request, "node"), self._lookup.now_ms())
        return DONE


def named_channel(request: HttpRequest) -> tuple[str, str]:
    """The topic and the channel that a request names. Raises HttpError."""
    topic = given(request, "topic")
    if not is_valid_name(topic):
        raise HttpError(400, "INVALID_ARG_TOPIC")
    channel = given(request, "channel")
    if not is_valid_name(channel):
        raise HttpError(400, "INVALID_ARG_CHANNEL")
    return topic, channel


def shown(info: ProducerInfo) -> dict[str, Any]:
    """What clients are told of a server."""
    return {
        "remote_address": info.remote_address,
        "hostname": info.hostname,
        "broadcast_address": info.broadcast_address,
        "tcp_port": info.tcp_port,
        "http_port": info.http_port,
        "version": info.version,
    }


_CALLS: Final[Mapping[str, Mapping[str, Call]]] = {
    "/ping": {"GET": LookupHttpApi._ping},
    "/info": {"GET": LookupHttpApi._info},
    "/debug": {"GET": LookupHttpApi._debug},
    "/lookup": {"GET": LookupHttpApi._look_up},
    "/topics": {"GET": LookupHttpApi._topics},
    "/channels": {"GET": LookupHttpApi._channels},
    "/nodes": {"GET": LookupHttpApi._nodes},
    "/topic/create": {"POST": LookupHttpApi._create_topic},
    "/topic/delete": {"POST": LookupHttpApi._delete_topic},
    "/topic/tombstone": {"POST": LookupHttpApi._tombstone},
    "/channel/create": {"POST": LookupHttpApi._create_channel},
    "/channel/delete": {"POST": LookupHttpApi._delete_channel},
}
