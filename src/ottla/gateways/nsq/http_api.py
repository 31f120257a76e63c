"""The HTTP API of nsqd (https://nsq.io/components/nsqd.html): publishing, statistics, topics and channels.

Answers are nsqd's, byte by byte where they are not of this process. An error is `{"message": CODE}`.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from ottla.broker.access import Operation, is_refusal
from ottla.gateways.nsq.command_reader import bodies_of
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.http_error import HEADERS, HttpError, given, refuse
from ottla.gateways.nsq.identify import VERSION
from ottla.gateways.nsq.names import is_valid_name, is_valid_topic_name
from ottla.gateways.nsq.statistics import as_text, head_lines
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, Principal
from ottla.network.http_connection import (
    IDLE_MS,
    JSON_TYPE,
    TEXT_TYPE,
    HttpConnection,
    HttpRequest,
    HttpResponse,
    HttpService,
    json_response,
)
from ottla.network.piece_reader import PieceReader
from ottla.network.wire_protocol import WireProtocol
from ottla.settings.definition import InvalidSettingError

if TYPE_CHECKING:
    from ottla.gateways.nsq.gateway import NsqGateway
    from ottla.metadata.image.image import TopicImage

logger = logging.getLogger(__name__)

OK: Final = HttpResponse(200, b"OK", TEXT_TYPE, HEADERS)
DONE: Final = HttpResponse(200, headers=HEADERS)
HEALTHY: Final = "OK"
UNHEALTHY: Final = "NOK - a data directory cannot be written"
SMALL_BODY_MAX: Final = 64 * 1024
"""The largest body of a request that needs none, or a short one."""
ANSWER_HELD_MS: Final = 10_000
"""For so long at most the answer to a client over its quota waits."""
_PUBLISHING: Final = frozenset({"/pub", "/mpub"})
_MS_NS: Final = 1_000_000
_NO_MEMORY: Final = dict.fromkeys(
    (
        "heap_objects",
        "heap_idle_bytes",
        "heap_in_use_bytes",
        "heap_released_bytes",
        "gc_pause_usec_100",
        "gc_pause_usec_99",
        "gc_pause_usec_95",
        "next_gc_bytes",
        "gc_total_runs",
    ),
    0,
)
"""What nsqd says of Go's memory."""

Call = Callable[["NsqHttpApi", HttpRequest], Awaitable[HttpResponse]]


def nsq_http_protocol(gateway: NsqGateway, *, has_tls: bool = False) -> WireProtocol:
    """What a listener for the HTTP API speaks. `has_tls` where the gateway has a certificate alone."""
    service = NsqHttpApi(gateway, has_tls=has_tls).service()
    return WireProtocol(
        "HTTP",
        lambda connection: HttpConnection(service, connection),
        PieceReader,
        limits=lambda config: replace(config, connections_max_idle_ms=IDLE_MS),
        tls=_Tls(gateway) if has_tls else None,
    )


class _Tls:
    """How the HTTP API speaks TLS: a `TlsAcceptor`."""

    def __init__(self, gateway: NsqGateway) -> None:
        self._gateway = gateway

    def context(self) -> ssl.SSLContext:
        assert self._gateway.tls_context is not None
        return self._gateway.tls_context

    def principal_of(self, session: ssl.SSLObject) -> Principal:
        """Nobody in particular, as over TCP."""
        return ANONYMOUS


class NsqHttpApi:
    """Belongs to the event loop."""

    def __init__(self, gateway: NsqGateway, *, has_tls: bool) -> None:
        self._gateway = gateway
        self._is_open = has_tls or gateway.limits.is_http_open
        self._started_s = gateway.broker.clock.now_ms() // 1000

    def service(self) -> HttpService:
        """What a listener asks."""
        broker = self._gateway.broker
        return HttpService(self.answer, refuse, self._body_max, broker.timer, broker.tasks)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """The answer to a request, also where it fails.

        What is published counts for the quotas of a client without a name. Where that is too much, nothing more of the
        connection is read until the rate is kept again; the answer waits too, as clients may take a new connection for
        each request.
        """
        broker, connection = self._gateway.broker, request.connection
        quotas = broker.request_quotas
        if request.path not in _PUBLISHING or connection is None or not quotas.binds(ANONYMOUS, ""):
            return await self._answer(request)
        charge = quotas.begin(ANONYMOUS, "", connection, is_timed=False)
        charge.produced(len(request.body))
        response = await charge.timed(self._answer(request))
        if charge.throttle_ms:
            await broker.timer.sleep(min(charge.throttle_ms, ANSWER_HELD_MS))
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        if not self._is_open:
            told = f'{{"message": "TLS_REQUIRED", "https_port": {self._gateway.https_port}}}'
            return HttpResponse(403, told.encode(), JSON_TYPE, HEADERS)
        try:
            methods = _CALLS.get(request.path)
            if methods is None and request.path.startswith(_CONFIG_PATH) and request.path != _CONFIG_PATH:
                methods = _CONFIG_CALLS
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
            if error.code is ErrorCode.NON_EMPTY_GROUP:
                return HttpError(409, "NON_EMPTY_GROUP").response()
            logger.warning("%s %s failed: %s", request.method, request.path, error.message)
            return HttpError(500, "INTERNAL_ERROR").response()
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return HttpError(500, "INTERNAL_ERROR").response()

    def _body_max(self, path: str) -> int:
        limits = self._gateway.limits
        # One byte more is read of a message that is too large, and refused by its name.
        bytes_max = {"/pub": limits.message_bytes_max + 1, "/mpub": limits.body_bytes_max + 1}
        return bytes_max.get(path, SMALL_BODY_MAX)

    # --- what is asked ----------------------------------------------------------------------------------------------

    async def _ping(self, request: HttpRequest) -> HttpResponse:
        health = self._health
        return HttpResponse(200 if health == HEALTHY else 500, health.encode(), TEXT_TYPE)

    @property
    def _health(self) -> str:
        return HEALTHY if self._gateway.broker.log_directories.are_writable else UNHEALTHY

    async def _info(self, request: HttpRequest) -> HttpResponse:
        limits = self._gateway.limits
        host = socket.gethostname()
        document = {
            "version": VERSION,
            "broadcast_address": limits.broadcast_address or host,
            "hostname": host,
            "http_port": self._gateway.http_port,
            "tcp_port": self._gateway.tcp_port,
            "start_time": self._started_s,
            "max_heartbeat_interval": limits.heartbeat_interval_max_ms * _MS_NS,
            "max_output_buffer_size": limits.output_buffer_bytes_max,
            "max_output_buffer_timeout": limits.output_buffer_timeout_max_ms * _MS_NS,
            "max_deflate_level": limits.deflate_level_max,
        }
        return json_response(document, headers=HEADERS)

    async def _stats(self, request: HttpRequest) -> HttpResponse:
        query, statistics = request.query, self._gateway.statistics
        topics = await statistics.topics(
            query.get("topic", ""),
            query.get("channel", ""),
            with_clients=query.get("include_clients") not in ("false", "0"),
        )
        producers = statistics.producers()
        if query.get("format") != "json":
            now_s = self._gateway.broker.clock.now_ms() // 1000
            text = as_text(head_lines(self._started_s, now_s, self._health), topics, producers, now_s)
            return HttpResponse(200, text.encode(), TEXT_TYPE, HEADERS)
        document: dict[str, Any] = {
            "version": VERSION,
            "health": self._health,
            "start_time": self._started_s,
            "topics": topics or (None if query.get("topic") else []),
            "memory": _NO_MEMORY,
            "producers": producers or None,
        }
        if query.get("include_mem") in ("false", "0"):
            del document["memory"]
        return json_response(document, headers=HEADERS)

    async def _publish(self, request: HttpRequest) -> HttpResponse:
        limits, body = self._gateway.limits, request.body
        if len(body) > limits.message_bytes_max:
            raise HttpError(413, "MSG_TOO_BIG")
        if not body:
            raise HttpError(400, "MSG_EMPTY")
        name = self._topic_name(request)
        delay_ms = 0
        if (said := request.query.get("defer")) is not None:
            if not (said.isascii() and said.isdigit() and int(said[:20]) <= limits.requeue_delay_max_ms):
                raise HttpError(400, "INVALID_DEFER")
            delay_ms = int(said)
        await self._gateway.append(ANONYMOUS, name, [body], delay_ms)
        return OK

    async def _publish_many(self, request: HttpRequest) -> HttpResponse:
        limits, body = self._gateway.limits, request.body
        if len(body) > limits.body_bytes_max:
            raise HttpError(413, "BODY_TOO_BIG")
        name = self._topic_name(request)
        if request.query.get("binary", "false") not in ("false", "0"):
            try:
                bodies = bodies_of(body, limits)
            except NsqError as error:
                raise HttpError(413, error.code.removeprefix("E_")) from error
        else:
            bodies = [line for line in body.split(b"\n") if line]
            if any(len(line) > limits.message_bytes_max for line in bodies):
                raise HttpError(413, "MSG_TOO_BIG")
        if bodies:
            await self._gateway.append(ANONYMOUS, name, bodies)
        return OK

    async def _topic_call(self, request: HttpRequest, what: str) -> HttpResponse:
        administration = self._gateway.administration
        # nsqd looks for a topic to be deleted or paused without a look at its name.
        name = self._topic_name(request) if what in ("create", "empty") else given(request, "topic")
        if what == "create":
            await administration.create_topic(name)
            return DONE
        topic = self._topic(name)
        match what:
            case "delete":
                await administration.delete_topic(name, topic)
            case "empty":
                await administration.empty_topic(topic)
            case _:
                await administration.pause(name, topic, None, is_paused=what == "pause")
        return DONE

    async def _channel_call(self, request: HttpRequest, what: str) -> HttpResponse:
        administration = self._gateway.administration
        name = given(request, "topic")
        if not is_valid_topic_name(name):
            raise HttpError(400, "INVALID_ARG_TOPIC")
        channel = given(request, "channel")
        if not is_valid_name(channel):
            raise HttpError(400, "INVALID_ARG_CHANNEL")
        topic = self._topic(name)
        if what == "create":
            await administration.create_channel(topic, channel)
            return DONE
        if channel not in await administration.channels(topic):
            raise HttpError(404, "CHANNEL_NOT_FOUND")
        match what:
            case "delete":
                await administration.delete_channel(name, topic, channel)
            case "empty":
                await administration.empty_channel(name, topic, channel)
            case _:
                await administration.pause(name, topic, channel, is_paused=what == "pause")
        return DONE

    async def _get_config(self, request: HttpRequest) -> HttpResponse:
        self._gateway.administration.require_cluster(Operation.DESCRIBE_CONFIGS)
        options = self._gateway.options()
        name = request.path.removeprefix(_CONFIG_PATH)
        if name not in options:
            raise HttpError(400, "INVALID_OPTION")
        return json_response(options[name], headers=HEADERS)

    async def _set_config(self, request: HttpRequest) -> HttpResponse:
        self._gateway.administration.require_cluster(Operation.ALTER_CONFIGS)
        name = request.path.removeprefix(_CONFIG_PATH)
        if not request.body:
            raise HttpError(413, "INVALID_VALUE")
        if name != "nsqlookupd_tcp_addresses":
            raise HttpError(400, "INVALID_OPTION")
        try:
            addresses = msgspec.json.decode(request.body, type=list[str])
            self._gateway.set_lookupd_addresses(addresses)
        except (msgspec.DecodeError, InvalidSettingError) as error:
            raise HttpError(400, "INVALID_VALUE") from error
        return await self._get_config(request)

    def _topic_name(self, request: HttpRequest) -> str:
        name = given(request, "topic")
        if not is_valid_topic_name(name):
            raise HttpError(400, "INVALID_TOPIC")
        return name

    def _topic(self, name: str) -> TopicImage:
        topic = self._gateway.administration.topic(name) if is_valid_topic_name(name) else None
        if topic is None:
            raise HttpError(404, "TOPIC_NOT_FOUND")
        return topic


def _topic_call(what: str) -> Mapping[str, Call]:
    return {"POST": lambda api, request: api._topic_call(request, what)}


def _channel_call(what: str) -> Mapping[str, Call]:
    return {"POST": lambda api, request: api._channel_call(request, what)}


_CONFIG_PATH: Final = "/config/"
_CONFIG_CALLS: Final[Mapping[str, Call]] = {"GET": NsqHttpApi._get_config, "PUT": NsqHttpApi._set_config}
_CALLS: Final[Mapping[str, Mapping[str, Call]]] = {
    "/ping": {"GET": NsqHttpApi._ping},
    "/info": {"GET": NsqHttpApi._info},
    "/stats": {"GET": NsqHttpApi._stats},
    "/pub": {"POST": NsqHttpApi._publish},
    "/mpub": {"POST": NsqHttpApi._publish_many},
    **{f"/topic/{what}": _topic_call(what) for what in ("create", "delete", "empty", "pause", "unpause")},
    **{f"/channel/{what}": _channel_call(what) for what in ("create", "delete", "empty", "pause", "unpause")},
}
