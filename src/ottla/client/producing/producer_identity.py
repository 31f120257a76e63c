"""The id by which brokers know a producer's batches again (KIP-98), and its epochs (KIP-360)."""

from collections.abc import Callable

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.producing.producer_batch import NO_IDENTITY, Identity
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class ProducerIdentity:
    """Whether a producer needs an identity before it may send, and what it has.

    ```
      wanted ---- renew() ----> current (id, epoch)
         ^                          |
         +------- lose() -----------+    a number was given up, or a broker lost the producer's state
    ```
    """

    __slots__ = ("_cluster", "current", "wanted")

    def __init__(self, cluster: Cluster, *, wanted: bool) -> None:
        self._cluster = cluster
        self.current: Identity = NO_IDENTITY
        self.wanted = wanted

    @property
    def is_transactional(self) -> bool:
        """Whether a number that was given up ends the transaction instead of the epoch."""
        return False

    def lose(self) -> None:
        """Batches sent with what is current would be refused: get the next epoch first."""
        self.wanted = True

    async def renew(self) -> None:
        """Ask for an id, or for the next epoch of the one there is. One attempt; nothing may be in flight meanwhile.

        A producer whose id the broker does not want any more gets a new one. Raises ClientError; a BrokerError that is
        not retriable says that there will be none.
        """
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS,
            producer_id=self.current.producer_id,
            producer_epoch=self.current.epoch,
        )
        response = await self._cluster.ask_any(request, InitProducerIdResponse)
        if not response.error_code:
            self.current = Identity(response.producer_id, response.producer_epoch)
            self.wanted = False
            return
        error = broker_error(response.error_code, "asking for a producer id")
        if error.retriable or self.current == NO_IDENTITY:
            raise error
        self.current = NO_IDENTITY
        await self.renew()


class TransactionalIdentity(ProducerIdentity):
    """The identity of a producer with transactions: its coordinator gives it, never a broker it happens to ask."""

    def __init__(self, cluster: Cluster, on_lost: Callable[[], None]) -> None:
        super().__init__(cluster, wanted=False)
        self._on_lost = on_lost

    @property
    def is_transactional(self) -> bool:
        """Whether a number that was given up ends the transaction instead of the epoch."""
        return True

    def lose(self) -> None:
        """A number was given up, or the broker lost track: the transaction cannot be committed any more."""
        self._on_lost()
