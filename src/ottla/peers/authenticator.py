"""Whom this broker believes to be another broker of its cluster: the server's side of `authentication`."""

from ottla.peers.cluster_secret import MECHANISM, NONCE_BYTES, SALT_BYTES, BrokerIdentity, ClusterCredential, nonce
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.security.scram_server import ScramServer


class PeerAuthenticator:
    """Belongs to the event loop. Only who comes by the listener of the brokers is asked to prove anything."""

    def __init__(self, identity: BrokerIdentity, listener_name: str, rng: Rng, tasks: Tasks) -> None:
        self._identity = identity
        self._rng = rng
        self._tasks = tasks
        self._credential: ClusterCredential | None = None
        self.listener_name = listener_name
        """The listener by which brokers speak to each other."""
        self.mechanism = MECHANISM.name
        """How they prove who they are."""

    async def exchange(self) -> ScramServer:
        """The server of one exchange; its `user` is the number of the broker that has proved the secret."""
        if self._credential is None:
            salt = self._rng.token_bytes(SALT_BYTES)
            credential = await self._tasks.in_thread(ClusterCredential, self._identity, salt)
            if self._credential is None:  # nobody else was faster
                self._credential = credential
        return ScramServer(MECHANISM, self._credential.of, nonce(self._rng.token_bytes(NONCE_BYTES)))
