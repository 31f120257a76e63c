"""The cluster as one client is told about it: who is there, and at which address."""

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, allowed_operations, require
from ottla.broker.config import BrokerConfig
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.metadata.store.probe import StoreProbe
from ottla.model.principal import Principal

if TYPE_CHECKING:
    from ottla.network.connection import Connection


class Node(Struct, frozen=True):
    """A broker and the address a client is to use for it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


class Quorum(Struct, frozen=True):
    """Who decides about the metadata: the controller, its epoch, and the offset of the next record."""

    leader_id: int
    leader_epoch: int
    end_offset: int


class ClusterView:
    """Belongs to the event loop; `current_image` gives the image this broker has reached."""

    __slots__ = ("_advertised", "_authorizer", "_current_image", "_store", "departed", "lingering", "node_id")

    def __init__(
        self,
        config: BrokerConfig,
        current_image: Callable[[], MetadataImage],
        authorizer: Authorizer = ALLOW_ALL,
        store: StoreProbe | None = None,
    ) -> None:
        self.node_id = config.node_id
        """The number of this broker."""
        self.departed: frozenset[int] = frozenset()
        """Brokers whose process is gone, though nobody has decided yet who leads what they led; this one while it is
        fenced and its metadata is too old to say so."""
        self.lingering: frozenset[int] = frozenset()
        """Brokers that died a moment ago; clients are told of them for a while, as where to ask."""
        self._advertised = config.advertised_listeners
        self._current_image = current_image
        self._authorizer = authorizer
        self._store = store

    @property
    def current_ms(self) -> int:
        """The time at which the image of this broker was last known to be the newest; -1 when that is unknown."""
        return -1 if self._store is None else self._store.current_ms

    async def store_trouble(self) -> str | None:
        """Why the metadata store cannot be asked; None when it answers."""
        return None if self._store is None else await self._store.trouble()

    def operations(self, principal: Principal) -> tuple[Operation, ...]:
        """What the principal may do to the cluster."""
        return allowed_operations(self._authorizer, principal, ResourceType.CLUSTER)

    @property
    def cluster_id(self) -> str:
        """The id the cluster got at its first start."""
        return self._current_image().cluster_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic that has an id; None when there is none."""
        topic = self._current_image().topic_by_id(topic_id)
        return None if topic is None else topic.name

    @property
    def controller_id(self) -> int:
        """The broker that decides, -1 when there is none."""
        return self._current_image().controller_id

    def require_describer(self, principal: Principal) -> None:
        """Raises ApiError CLUSTER_AUTHORIZATION_FAILED for who may not describe the cluster."""
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)

    def require_idempotent_producer(self, principal: Principal) -> None:
        """Raises ApiError CLUSTER_AUTHORIZATION_FAILED for who may have no producer id: who may neither write
        idempotently to the cluster nor write to any topic (KIP-679).
        """
        if not self._authorizer.allows_on_any(principal, Operation.WRITE, ResourceType.TOPIC):
            require(self._authorizer, principal, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

    def quorum(self, principal: Principal) -> Quorum:
        """Who leads the metadata, and how far its log goes. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
        self.require_describer(principal)
        image = self._current_image()
        return Quorum(image.controller_id, image.controller_epoch, image.end_offset)

    def require_alterer(self, principal: Principal) -> None:
        """Raises ApiError CLUSTER_AUTHORIZATION_FAILED for who may not change the cluster."""
        require(self._authorizer, principal, Operation.ALTER, ResourceType.CLUSTER)

    def nodes(self, connection: "Connection", *, with_fenced: bool = False) -> tuple[Node, ...]:
        """The brokers that serve, or all of them, by their numbers, with addresses that the client of `connection` can
        use.

        Each is told at its listener of the name by which the client came; one that has no such listener is not told.
        Where that advertises nothing and all brokers are of one host, the host is the one by which the client came:
        whoever got through to `127.0.0.1` or to a name in a container's network gets through to it again.
        """
        image = self._current_image()
        brokers = image.brokers if with_fenced else image.live_brokers()
        nodes = (self._node(brokers[broker_id], connection) for broker_id in sorted(brokers))
        return tuple(node for node in nodes if node is not None)

    def nodes_to_ask(self, connection: "Connection") -> tuple[Node, ...]:
        """Where a client finds the cluster: the brokers that serve, and those that died a moment ago; while none does,
        all of them.

        Brokers that were all started anew serve once a controller has heard them. A client that is told of none
        meanwhile may forget those it knew and ask nobody ever again (librdkafka, confluentinc/librdkafka#5301).

        This broker leaves itself out while its metadata is too old to name the leaders: librdkafka asks a broker that
        it is connected to, again and again, until the answers leave that broker out.
        """
        serving = self.nodes(connection)
        if self.node_id in self.departed and len(serving) > 1:
            return tuple(node for node in serving if node.node_id != self.node_id)
        if serving and not self.lingering:
            return serving
        every = self.nodes(connection, with_fenced=True)
        if not serving:
            return every
        return tuple(node for node in every if not node.is_fenced or node.node_id in self.lingering)

    def node(self, node_id: int, connection: "Connection") -> Node | None:
        """A broker that serves, or None when it is not there."""
        broker = self._current_image().brokers.get(node_id)
        if broker is None or broker.fenced or (node_id == self.node_id and node_id in self.departed):
            return None
        return self._node(broker, connection)

    def _node(self, broker: BrokerImage, connection: "Connection") -> Node | None:
        local = connection.local
        advertised = self._advertised.get(connection.listener_name) if self._advertised else None
        if broker.broker_id == self.node_id:
            host, port = (advertised.host, advertised.port) if advertised is not None else (local.host, local.port)
        elif not broker.endpoints:  # registered by an older release
            host, port = broker.host or local.host, broker.port
        else:
            endpoint = broker.endpoints.get(connection.listener_name)
            if endpoint is None:
                return None
            host, port = endpoint
            if broker.host is None and advertised is None and _is_loopback(host):
                host = local.host
        return Node(broker.broker_id, host, port, broker.rack, broker.fenced)


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("::1", "localhost")
