"""Whom this broker believes to be another broker of its cluster: the server's side of `authentication`."""

from collections.abc import Callable, Mapping

from ottla.peers.cluster_secret import (
    CLUSTER,
    MECHANISM,
    NONCE_BYTES,
    SALT_BYTES,
    BrokerIdentity,
    ClusterCredential,
    nonce,
)
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.security.scram import ScramError
from ottla.security.scram_server import CredentialOf, ScramServer


class PeerAuthenticator:
    """Belongs to the event loop. A broker may prove itself at every listener, as it may have been told of another one
    for brokers before this one is.
    """

    def __init__(
        self,
        identity: Callable[[], BrokerIdentity],
        rng: Rng,
        tasks: Tasks,
        is_registered: Callable[[int], bool],
        failure_delay_ms: int = 0,
    ) -> None:
        """`identity` is who this broker is, once its cluster's secret is known. `is_registered` says whether the
        cluster has a broker of this id, as far as this broker knows.
        """
        self._identity = identity
        self._is_registered = is_registered
        self._rng = rng
        self._tasks = tasks
        self._credential: ClusterCredential | None = None
        self.failure_delay_ms = failure_delay_ms
        """How long who could not prove the secret waits for the answer."""
        self.mechanism = MECHANISM.name
        """How they prove who they are."""

    async def exchange(self) -> ScramServer:
        """The server of one exchange; its `user` is the number of the broker that has proved the secret."""
        return ScramServer(MECHANISM, await self.credentials(), nonce(self._rng.token_bytes(NONCE_BYTES)))

    @staticmethod
    def is_introduction(said: Mapping[str, str]) -> bool:
        """Whether a first message is that of a broker, by what it says beside its name."""
        return CLUSTER in said

    async def credentials(self) -> CredentialOf:
        """What to check brokers against."""
        if self._credential is None:
            salt = self._rng.token_bytes(SALT_BYTES)
            credential = await self._tasks.in_thread(ClusterCredential, self._identity(), salt)
            if self._credential is None:  # nobody else was faster
                self._credential = credential
        return self._credential.of

    def require_registered(self, broker_id: int) -> None:
        """Raises ScramError for an id that no broker of the cluster has.

        A broker that has just registered may be unknown here for a moment: it connects again.
        """
        if not self._is_registered(broker_id):
            raise ScramError(f"no broker {broker_id} is registered in this cluster")
