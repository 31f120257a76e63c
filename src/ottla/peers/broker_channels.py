"""Connections from this broker to the others, made when they are first used.

    request(broker 2, lane) --> channel (2, lane) --> connection: connect, versions, proof of the secret, versions again
                                    |
       the image changes: broker 2 is gone, or has another epoch or address --> closed; what waits fails

A channel connects when somebody wants to send. Requests of one channel are answered in order, so those that may wait
long at the other side have lanes of their own.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NewType, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ottla.client.address import Address
from ottla.client.errors import ClientError
from ottla.client.io.retry import Deadline
from ottla.client.io.unreachable import was_not_believed
from ottla.client.options import ClientOptions
from ottla.client.tls import TlsSource
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.model.security_protocol import SecurityProtocol
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.broker_channel import BrokerChannel
from ottla.peers.errors import BrokerNotKnownError, NotProvenError
from ottla.peers.peer_connection import PeerConnection, PeerIo
from ottla.protocol.message import ApiMessage
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

SAME_HOST: Final = "127.0.0.1"
"""Where a broker is that registered no host: on the host of all the others, or it would have said which."""

R = TypeVar("R", bound=ApiMessage)

Lane = NewType("Lane", str)
GENERAL: Final = Lane("general")
"""What is answered soon."""
HEARTBEAT: Final = Lane("heartbeat")
"""What must not wait behind anything."""
FORWARD: Final = Lane("forward")
"""What clients asked of the controller; it may take as long as they are willing to wait."""
CONTROLLER: Final = Lane("controller")
"""What this broker asks of the controller in its own name."""
PROBE: Final = Lane("probe")
"""Whether a broker can be reached."""
STORE: Final = Lane("store")
"""Whether a broker reaches the metadata store, which takes it a while to find out."""
SHARE_STATE: Final = Lane("share-state")
"""What is asked while a request of another broker is answered, and is itself answered by asking nobody. On a lane with
such requests two brokers could wait for each other: each for an answer behind one that waits for the other.
"""
_OF_THE_CONTROLLER: Final = (HEARTBEAT, FORWARD, CONTROLLER)

CHECKS_MAX: Final = 10
"""How often a broker whose connection ended is looked for while the answer is neither yes nor no: a process that dies
takes connections for a moment more, and ends them."""


def fetch_lane(number: int) -> Lane:
    """The lane of one replica fetcher: its requests wait for records."""
    return Lane(f"fetch-{number}")


CONNECT_TIMEOUT_MS: Final = 5_000
HANDSHAKE_TIMEOUT_MS: Final = 5_000
IN_FLIGHT_MAX: Final = 256
"""Unanswered requests of one channel; a further one waits its turn."""


class _Peer(Struct, frozen=True):
    """Another broker as the image has it."""

    broker_id: int
    broker_epoch: int
    address: Address | None


class BrokerChannels:
    """Belongs to the event loop; its methods may be called concurrently."""

    def __init__(
        self,
        broker_id: int,
        listener_name: str,
        io: PeerIo,
        *,
        clock: Clock,
        rng: Rng,
        timer: Timer,
        tasks: Tasks,
        authentication: BrokerAuthentication,
        on_unreachable: Callable[[int, int], None] | None = None,
        tls: TlsSource | None = None,
    ) -> None:
        """`listener_name` is the listener by which brokers speak to each other, on all of them; `authentication` proves
        to them who this one is.

        `on_unreachable` is called with a broker's id and epoch when a connection with it has ended and a new one was
        refused: nobody listens there any more. None where that is no news. `tls` is how that listener speaks TLS, where
        it does.
        """
        self.broker_id = broker_id
        """This broker."""
        self._authentication = authentication
        self._listener_name = listener_name
        self._tls = tls
        self._io = io
        self._clock = clock
        self._rng = rng
        self._timer = timer
        self._tasks = tasks
        self._peers: dict[int, _Peer] = {}
        self._brokers: Mapping[int, BrokerImage] | None = None
        self._controller_id = -1
        self._channels: dict[tuple[int, Lane], BrokerChannel] = {}
        self._checked: set[int] = set()
        self._unreachable: dict[int, int] = {}  # broker id -> the level at which that was logged
        self._is_closed = False
        self.on_unreachable = on_unreachable

    def on_image(self, image: MetadataImage, _delta: object = None) -> None:
        """The image has changed: close what leads to brokers that are gone, moved or were started anew.

        What was asked of a controller is not waited for when another one has taken over: the first may hang. Nor is
        anything that was asked of a broker which is fenced now, or by this one when it is: somebody did not hear it,
        and over connections that were cut answers come late or never.
        """
        if image.controller_id != self._controller_id:
            for lane in _OF_THE_CONTROLLER:
                channel = self._channels.pop((self._controller_id, lane), None)
                if channel is not None:
                    channel.close()
            self._controller_id = image.controller_id
        if image.brokers is self._brokers:
            return
        fenced = _newly_fenced(self._brokers or {}, image.brokers)
        for key in tuple(self._channels):
            if key[1] != HEARTBEAT and not fenced.isdisjoint((key[0], self.broker_id)):
                self._channels.pop(key).close()
        self._brokers = image.brokers
        peers = {
            broker_id: _Peer(
                broker_id, broker.broker_epoch, _address_between_brokers(image.brokers[broker_id], self._listener_name)
            )
            for broker_id, broker in image.brokers.items()
            if broker_id != self.broker_id
        }
        for key in [key for key in self._channels if peers.get(key[0]) != self._peers.get(key[0])]:
            self._channels.pop(key).close()
        self._peers = peers

    async def request(
        self, broker_id: int, message: ApiMessage, response: type[R], *, timeout_ms: int, lane: Lane = GENERAL
    ) -> R:
        """Send a request to another broker and return its answer, whose error codes are not looked at.

        `timeout_ms` counts from now: it is for making a connection, where there is none, and for the answer. Raises
        BrokerUnreachableError (BrokerNotKnownError), ConnectionLostError, RequestTimedOutError, UnsupportedApiError,
        ProtocolViolationError, NotProvenError; all but the first may come after the other side has acted.
        """
        deadline = Deadline(self._clock, timeout_ms)
        connection = await self._channel(broker_id, lane).connection(deadline)
        return await connection.request(message, response, timeout_ms=max(deadline.left_ms, 1))

    async def connect_to(self, broker_id: int, options: ClientOptions) -> PeerConnection:
        """A new connection for somebody's own use, to whom it belongs; its lane is no other's. The limits are those of
        the options.

        Raises BrokerUnreachableError (BrokerNotKnownError), NotProvenError and what `request` raises.
        """
        peer = self._peers.get(broker_id)
        if peer is None:
            raise BrokerNotKnownError(f"broker {broker_id} is not in the cluster")
        return await self._connected(peer, options)

    def check(self, broker_id: int) -> None:
        """A connection of that broker's has ended: find out whether it still listens, if that is of interest here."""
        if self.on_unreachable is None or broker_id in self._checked or broker_id not in self._peers or self._is_closed:
            return
        self._checked.add(broker_id)
        self._tasks.spawn(self._check(self._peers[broker_id]), f"looking for broker {broker_id}")

    async def _check(self, peer: _Peer) -> None:
        try:
            for _ in range(CHECKS_MAX):
                if self._peers.get(peer.broker_id) != peer or await self._is_found(peer):
                    return
        except ConnectionRefusedError:
            if self.on_unreachable is not None and self._peers.get(peer.broker_id) == peer:
                self.on_unreachable(peer.broker_id, peer.broker_epoch)
        finally:
            self._checked.discard(peer.broker_id)

    async def _is_found(self, peer: _Peer) -> bool:
        """Whether it takes a connection. Raises ConnectionRefusedError when nobody listens there any more."""
        try:
            await self._channel(peer.broker_id, GENERAL).connection(Deadline(self._clock, CONNECT_TIMEOUT_MS))
        except ClientError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise error.__cause__ from None
            logger.debug("broker %d: %s", peer.broker_id, error)
            return False
        return True

    def close(self) -> None:
        """End all connections; no others are made."""
        self._is_closed = True
        self._peers.clear()
        while self._channels:
            self._channels.popitem()[1].close()

    def _channel(self, broker_id: int, lane: Lane) -> BrokerChannel:
        channel = self._channels.get((broker_id, lane))
        if channel is None:
            peer = self._peers.get(broker_id)
            if peer is None:
                raise BrokerNotKnownError(f"broker {broker_id} is not in the cluster")
            channel = self._channels[broker_id, lane] = BrokerChannel(
                f"broker {broker_id}",
                partial(self._connect, peer),
                partial(self.check, broker_id),
                timer=self._timer,
                rng=self._rng,
                tasks=self._tasks,
            )
        return channel

    async def _connect(self, peer: _Peer) -> PeerConnection:
        try:
            connection = await self._connected(peer)
        except ClientError as error:
            stays = isinstance(error, NotProvenError) or was_not_believed(error)
            level = logging.WARNING if stays or self.should_answer(peer.broker_id) else logging.INFO
            if level > self._unreachable.get(peer.broker_id, logging.NOTSET):
                self._unreachable[peer.broker_id] = level
                logger.log(level, "cannot connect to broker %d, retrying: %s", peer.broker_id, error)
            raise
        if self._unreachable.pop(peer.broker_id, None) is not None:
            logger.info("connected to broker %d again at %s", peer.broker_id, connection.address)
        return connection

    def should_answer(self, broker_id: int) -> bool:
        """Whether a broker should take connections of this one: neither has said that it stops, or is fenced."""
        brokers = self._brokers or {}
        both = [brokers[each] for each in (broker_id, self.broker_id) if each in brokers]
        return not self._is_closed and all(each.is_active for each in both)

    async def _connected(self, peer: _Peer, limits: ClientOptions | None = None) -> PeerConnection:
        if peer.address is None:
            raise BrokerNotKnownError(f"broker {peer.broker_id} has no listener {self._listener_name}")
        limits = limits or ClientOptions(
            (peer.address,),
            client_id=f"broker-{self.broker_id}",
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            handshake_timeout_ms=HANDSHAKE_TIMEOUT_MS,
            in_flight_requests_max=IN_FLIGHT_MAX,
        )
        options = replace(
            limits,
            bootstrap=(peer.address,),
            security_protocol=SecurityProtocol.PLAINTEXT if self._tls is None else SecurityProtocol.SSL,
            tls=self._tls,
            sasl=None,
        )
        connection = await self._io.connect(peer.address, options)
        try:
            await self._authentication.prove(connection, peer.broker_id, HANDSHAKE_TIMEOUT_MS)
            await connection.agree_on_versions(HANDSHAKE_TIMEOUT_MS)
        except BaseException:
            connection.close()
            raise
        return connection


def _newly_fenced(before: Mapping[int, BrokerImage], after: Mapping[int, BrokerImage]) -> set[int]:
    return {
        broker_id
        for broker_id, broker in after.items()
        if broker.fenced and broker_id in before and not before[broker_id].fenced
    }


def _address_between_brokers(broker: BrokerImage, listener_name: str) -> Address | None:
    """The address of a broker's listener of that name; None when it has none."""
    if not broker.endpoints:
        return Address(broker.host or SAME_HOST, broker.port)
    endpoint = broker.endpoints.get(listener_name)
    return None if endpoint is None else Address(endpoint[0] or SAME_HOST, endpoint[1])
