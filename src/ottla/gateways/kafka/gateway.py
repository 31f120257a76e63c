"""The Kafka gateway: frames in, requests to handlers, answers out in order."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.broker import Broker
from ottla.broker.request_quotas import RequestQuotas
from ottla.gateways.kafka.api_table import ApiTable, Route, Row
from ottla.gateways.kafka.charged_request import serve as serve_charged
from ottla.gateways.kafka.charged_request import serve_task as serve_task_charged
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.principal import ANONYMOUS, BROKER, USER, Principal, broker_principal
from ottla.network.config import LOGIN_MS
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.ordered_handler import OrderedHandler
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import (
    RequestHeader,
    decode_request,
    decode_request_header,
    encode_response,
)
from ottla.protocol.messages.api_versions import ApiVersion as ServedVersions
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.runtime.purgatory import DelayedOperation
from ottla.runtime.retransmission import retransmit_soon

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.authentication import Authentication
    from ottla.gateways.kafka.forwarding import Forwarding
    from ottla.gateways.kafka.login import Login
    from ottla.model.scram_credential import ScramCredential
    from ottla.peers.authenticator import PeerAuthenticator
    from ottla.security.sasl_server import SaslServer
    from ottla.security.scram_server import AnyOf, Vouched

_log = logging.getLogger(__name__)

TELEMETRY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""The APIs of client telemetry (KIP-714)."""

PRINCIPALS_MAX: Final = 10_000
"""Principals that are remembered to be one object each."""

SESSION_MS_MAX: Final = 365 * 86_400_000
"""Nobody's connection lasts for longer."""

_KNOWN_KEYS: Final = frozenset(map(int, ApiKey))

WAIT_BEHIND_FETCHES: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose answers wait as long as a Fetch before them, as in Kafka. Metadata is refreshed now and then, in the
background, and aiokafka's tests count on its place behind a Fetch that waits."""


class KafkaGateway:
    """What all connections of the Kafka gateway share."""

    def __init__(
        self,
        broker: Broker,
        apis: ApiTable,
        fetch_sessions: FetchSessionCache,
        *,
        authenticator: "PeerAuthenticator | None" = None,
        forwarding: "Forwarding | None" = None,
        on_broker_left: Callable[[int], None] | None = None,
    ) -> None:
        """What the last three are on a broker that has others, it is None on one that is alone."""
        self.broker = broker
        self.apis = apis
        self.fetch_sessions = fetch_sessions
        self.task_gate = broker.task_gate
        """Admits requests that are tasks, of all gateways."""
        self.quotas: RequestQuotas | None = None
        """Counts requests of clients that have a quota; None while nobody has one."""
        self.authenticator = authenticator
        """Who believes brokers."""
        self.on_broker_left = on_broker_left
        """Called with the number of a broker when a connection that it had proved itself on has ended."""
        self.forwarding = forwarding
        """What sends requests on to the controller."""
        self.authentication: Authentication | None = None
        """How clients log in; None while no listener asks them to."""
        self.keeps_hosts = False
        """Whether a principal has the address of its client: ACLs may name it."""
        self._principals: dict[Principal, Principal] = {}
        self.served_versions: tuple[ServedVersions, ...] = ()
        """What ApiVersions answers to clients, in the order of the keys."""
        self.set_telemetry_advertised(False)
        self.served_versions_to_brokers = _served(apis.rows.values())
        """The same to brokers."""
        self.extensions = _served(row for row in apis.rows.values() if row.key.is_extension)
        """What it answers to Ottla's own client besides."""

    def set_telemetry_advertised(self, does: bool) -> None:
        """Have ApiVersions tell clients that they may push their metrics, or not: those that know of it ask at once."""
        self.served_versions = _served(
            row
            for row in self.apis.rows.values()
            if not row.is_between_brokers and not row.key.is_extension and (does or row.key not in TELEMETRY)
        )

    def connect(self, connection: Connection) -> "KafkaConnection":
        """A new connection of a client."""
        return KafkaConnection(self, connection)

    def principal(self, kind: str, name: str, connection: Connection, *, by_token: bool = False) -> Principal:
        """Who a client is. Those that are alike are one object: their requests are served as one sooner."""
        return self._one(Principal(kind, name, connection.peer.host if self.keeps_hosts else "", by_token))

    def without_host(self, principal: Principal) -> Principal:
        """The same principal wherever it is."""
        if not principal.host:
            return principal
        return self._one(Principal(principal.type, principal.name, "", principal.by_token))

    def _one(self, principal: Principal) -> Principal:
        known = self._principals.get(principal)
        if known is None:
            if len(self._principals) >= PRINCIPALS_MAX:
                self._principals.clear()
            known = self._principals[principal] = principal
        return known

    # How peers log in (`ottla.gateways.kafka.login`).

    def login(self, connection: Connection) -> "Login | None":
        """What a new connection has to prove; None where nobody proves anything, and for this broker itself."""
        if (self.authentication is None and self.authenticator is None) or connection.principal.type == BROKER:
            return None
        listener_name = connection.listener_name
        listener = None if self.authentication is None else self.authentication.listeners.get(listener_name)
        if listener is None and self.authenticator is None:
            return None
        from ottla.gateways.kafka.login import Login  # only who logs in needs it

        return Login(listener)

    def mechanisms(self, login: "Login") -> tuple[str, ...]:
        """By which mechanisms a peer may prove who it is.

        A broker may at every listener: while brokers are moved to another listener, some know of the new one already.
        """
        of_users = () if login.listener is None else login.listener.mechanisms
        authenticator = self.authenticator
        if authenticator is None or login.is_again:
            return of_users
        return tuple(dict.fromkeys((*of_users, authenticator.mechanism)))

    async def sasl_server(self, login: "Login", mechanism: str, connection: Connection) -> "SaslServer":
        """The server of an exchange. By the mechanism of brokers, the first message says whether it is one."""
        authenticator, authentication = self.authenticator, self.authentication
        if authenticator is not None and mechanism == authenticator.mechanism and not login.is_again:
            if login.listener is None or authentication is None:
                login.is_peer = True
                return await authenticator.exchange()
            of_brokers = await authenticator.credentials()
            of_users = authentication.credential_of(mechanism)
            is_for_users = mechanism in login.listener.mechanisms

            def find(user: str, said: "Mapping[str, str]") -> "ScramCredential | Vouched | AnyOf":
                login.is_peer = not is_for_users or authenticator.is_introduction(said)
                return (of_brokers if login.is_peer else of_users)(user, said)

            return authentication.scram_server(mechanism, find)
        assert authentication is not None
        assert login.listener is not None
        return authentication.server(login.listener, mechanism, connection.complain)

    @property
    def failure_delay_ms(self) -> int:
        """How long who could not prove who it is waits for the answer."""
        return 0 if self.authentication is None else self.authentication.failure_delay_ms


class KafkaConnection(OrderedHandler):
    """One client's connection: decodes its requests and runs their handlers.

    An API that is a task holds back the requests behind it, so that a client which sends a change and a look at it in
    one go sees the change. Produce, Fetch and the group APIs hold nothing back.
    """

    __slots__ = (
        "client_instance_id",
        "gateway",
        "has_bare_messages",
        "has_finished",
        "has_share_sessions",
        "login",
        "must_log_in",
        "principal",
        "software",
        "waiting_fetches",
        "who",
    )

    def __init__(self, gateway: KafkaGateway, connection: Connection) -> None:
        super().__init__(connection)
        self.gateway = gateway
        self.principal = gateway.principal(USER, ANONYMOUS.name, connection) if gateway.keeps_hosts else ANONYMOUS
        """Who the client is, as far as it has proved it."""
        self.who = gateway.without_host(self.principal)
        """The same wherever it is: for what is done for many connections at once where addresses do not matter."""
        self.login = login = gateway.login(connection)
        """How it proves who it is; None where nobody does."""
        self.must_log_in = login is not None and login.listener is not None
        """Whether it may do nothing until it has."""
        if login is not None and login.listener is not None:
            connection.receiver.limit_frames(login.listener.receive_bytes_max, "sasl.server.max.receive.size")
            login.session_timer = gateway.broker.timer.schedule(LOGIN_MS, self._on_login_late)
        self.has_bare_messages = False
        """Whether what comes next is no request but a message of the exchange by which it logs in (KIP-43)."""
        self.software: tuple[str, str] | None = None
        """What the client calls itself and its version (KIP-511); None while it has not said."""
        self.client_instance_id: UUID | None = None
        """The client instance whose metrics come by this connection; None while there are none (KIP-714)."""
        self.has_finished = False
        """Whether the client sends nothing more: no fetch of it waits, also one that was held back until then."""
        self.has_share_sessions = False
        """Whether members of share groups fetch by this connection: their sessions end with it."""
        self.waiting_fetches: set[DelayedOperation] = set()
        """Fetches that wait for records; they end with the connection."""

    def is_shown(self, principal: Principal) -> None:
        """The client has shown a certificate, which says who it is unless it logs in."""
        if not self.must_log_in:
            self.principal = self.gateway.principal(principal.type, principal.name, self.connection)
            self.who = self.gateway.without_host(self.principal)

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        """A whole request has arrived. Raises InvalidInputError when it cannot be one."""
        if self.pending_requests is not None:
            self.hold_back(frame, buffer, slot)
            return
        if self.has_bare_messages:
            from ottla.gateways.kafka.bare_messages import answer_bare  # clients before Kafka 1.0

            answer_bare(self, frame, slot)
            return
        request = decode_request(frame)
        if self.must_log_in:
            self._require_login(request.api_key)
        if self.waiting_fetches and request.api_key not in WAIT_BEHIND_FETCHES:
            self._answer_fetches()  # or the answer to this request would wait for them
        gateway, version = self.gateway, request.api_version
        apis = gateway.apis
        route = apis.routes.get((request.api_key, version)) or apis.route(request.api_key, version)
        if type(request) is not RequestHeader:
            quotas = gateway.quotas
            if (
                route is not None
                and route.handle_single is not None
                and (quotas is None or not quotas.binds(self.principal, request.client_id))
            ):
                route.handle_single(self, request, buffer, slot)
                return
            request = decode_request_header(frame)
        header = request
        if route is None:
            self._refuse(header, slot)
        elif route.is_async:
            self.run_task(
                (frame, buffer, slot),
                partial(self._run_route, route, header, frame, buffer, slot),
                gateway.task_gate,
                gateway.broker.tasks,
                starts_eagerly=route.starts_eagerly,
                after_responses=route.after_responses,
            )
        elif gateway.quotas is not None and gateway.quotas.binds(self.principal, header.client_id):
            serve_charged(gateway.quotas, self, route, header, frame, buffer, slot)
        else:
            ctx = RequestContext(self, slot, version, header.correlation_id, header.client_id, buffer)
            response = route.handle(ctx, route.decode(frame, header.body_offset))
            if response is not None:
                ctx.respond(response)

    def _require_login(self, api_key: int) -> None:
        """Raises InvalidInputError for what is not served to who has not logged in, or has to again."""
        login = self.login
        assert login is not None
        if login.step is login.step.DONE:
            is_served, when = api_key == ApiKey.SASL_HANDSHAKE, "after the end of its session"
        else:
            is_served, when = login.allows(api_key), "before the client has logged in"
        if not is_served:
            name = ApiKey(api_key).name if api_key in _KNOWN_KEYS else f"API key {api_key}"
            raise InvalidInputError(f"a request of {name} {when}")

    def logged_in(self, server: "SaslServer") -> int:
        """It has proved who it is: that is its principal from now on. Returns for how many milliseconds, 0 for good.

        Raises SaslError.
        """
        login, gateway, user = self.login, self.gateway, server.user
        assert login is not None
        assert user is not None
        if login.is_peer:
            assert gateway.authenticator is not None
            broker_id = int(user)
            gateway.authenticator.require_registered(broker_id)
            principal = broker_principal(broker_id)
            retransmit_soon(self.connection.fd)
        else:
            principal = gateway.principal(USER, user, self.connection, by_token=server.by_token)
        login.succeed(principal)
        self.principal = principal
        self.who = gateway.without_host(principal)
        self.must_log_in = False
        self.connection.receiver.limit_frames(None)
        limits_ms = [login.listener.reauth_ms] if not login.is_peer and login.listener is not None else []
        limits_ms = [each for each in limits_ms if each]
        if server.expires_ms is not None:
            limits_ms.append(max(server.expires_ms - gateway.broker.clock.now_ms(), 0))
        if login.session_timer is not None:
            login.session_timer.cancel()
            login.session_timer = None
        login.has_session = bool(limits_ms)
        if not limits_ms:
            return 0
        lifetime_ms = min(limits_ms)
        login.session_timer = gateway.broker.timer.schedule(min(lifetime_ms, SESSION_MS_MAX), self._end_session)
        return lifetime_ms

    def _on_login_late(self) -> None:
        self.connection.close(f"it did not log in within {LOGIN_MS} ms")

    def _end_session(self) -> None:
        """It has to log in again before it asks for anything else."""
        self.must_log_in = True

    def on_end_of_input(self) -> None:
        """The client sends nothing more: it gets what there is, and those who are gone hold nothing."""
        self.has_finished = True
        self._answer_fetches()

    def _answer_fetches(self) -> None:
        """Those that wait for records get what there is."""
        for operation in tuple(self.waiting_fetches):
            operation.force_complete()

    def on_close(self) -> None:
        """The connection is gone; requests held back are dropped, and those that wait for records."""
        self.drop_held_back()
        if self.login is not None:
            self.login.close()
        for operation in tuple(self.waiting_fetches):
            operation.cancel()
        self.waiting_fetches.clear()
        if self.has_share_sessions:
            self.gateway.broker.share_fetches.end_of(self)
        if self.client_instance_id is not None:
            self.gateway.broker.client_metrics().forget(self.client_instance_id)
        if self.principal.type == BROKER and self.gateway.on_broker_left is not None:
            self.gateway.on_broker_left(int(self.principal.name))

    async def _run_route(
        self, route: Route, header: RequestHeader, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot
    ) -> None:
        """Handle a request whose handler waits."""
        quotas, forwarding = self.gateway.quotas, self.gateway.forwarding
        if (
            forwarding is not None
            and route.is_decided_by_controller
            and (route.is_local is None or not route.is_local(route.decode(frame, header.body_offset)))
            and await forwarding.send_on(self, route, header, frame, slot)
        ):
            return
        if quotas is not None and quotas.binds(self.principal, header.client_id):
            await serve_task_charged(quotas, self, route, header, frame, buffer, slot)
            return
        request = route.decode(frame, header.body_offset)
        ctx = RequestContext(self, slot, header.api_version, header.correlation_id, header.client_id, buffer)
        response = await route.handle(ctx, request)
        if response is not None:
            ctx.respond(response)

    def fail(self, error: Exception, slot: ResponseSlot) -> None:
        """A request could not be handled to its end: say why in the log, and close the connection behind the answers to
        those before it.
        """
        if isinstance(error, InvalidInputError):
            self.connection.fail(str(error), slot)
        else:
            self.break_off(error, slot)

    def break_off(self, error: Exception, slot: ResponseSlot) -> None:
        """As `fail`, whatever the error is: not the peer's bytes are wrong but our answer."""
        _log.error("a request of %s failed; its connection is closed", self.connection.peer, exc_info=error)
        self.connection.fail("a request failed inside the broker", slot)

    def _refuse(self, header: RequestHeader, slot: ResponseSlot) -> None:
        """ApiVersions of an unknown version is answered in version 0, so that the client can try again (KIP-511)."""
        api = self.gateway.apis.find(header.api_key)
        if api is None:
            raise InvalidInputError(f"a request of API key {header.api_key}, which this broker does not serve")
        if api.key is not ApiKey.API_VERSIONS:
            raise InvalidInputError(
                f"a request of {api.key.name} version {header.api_version}; "
                f"this broker serves {api.min_version} to {api.max_version}"
            )
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=tuple(entry for entry in self.gateway.served_versions if entry.api_key == ApiKey.API_VERSIONS),
        )
        slot.send((encode_response(header.correlation_id, response, 0),))


def _served(rows: Iterable[Row]) -> tuple[ServedVersions, ...]:
    return tuple(
        ServedVersions(
            api_key=row.key,
            min_version=row.min_version if row.advertised_min_version is None else row.advertised_min_version,
            max_version=row.max_version,
        )
        for row in rows
    )
