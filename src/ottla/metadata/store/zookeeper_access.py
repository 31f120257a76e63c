"""Asking a ZooKeeper ensemble: until there is an outcome, and with the store's errors for what servers refuse."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError

from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.zookeeper_client import NotConnectedError, Refusal, ZooKeeperClient

T = TypeVar("T")

ATTEMPTS_MAX: Final = 100
"""A transaction that is refused so often because others were faster is not going to be made."""


class ZooKeeperAccess:
    """The connection that the parts of a store share. Belongs to the event loop."""

    def __init__(self, hosts: str, root: str, session_timeout_ms: int) -> None:
        """`hosts` as in `a:2181,b:2181`; `root` is "" or a path without a slash at its end."""
        self.hosts = hosts
        self.root = root
        self.session_timeout_ms = session_timeout_ms
        self.opened: ZooKeeperClient | None = None
        """The client while the store is open."""
        self._forget: list[Callable[[], None]] = []

    @property
    def where(self) -> str:
        """What people know the nodes by."""
        return f"{self.hosts}{self.root}"

    @property
    def client(self) -> ZooKeeperClient:
        """The client. Raises StoreError when the store is not open."""
        if self.opened is None:
            raise StoreError(f"the store in ZooKeeper ({self.hosts}) is not open")
        return self.opened

    def before_repeating(self, forget: Callable[[], None]) -> None:
        """Have versions of nodes that this process knows forgotten before anything is asked again."""
        self._forget.append(forget)

    async def repeated(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make an attempt until it has an outcome: not while there is no connection, nor when others were faster.

        An attempt sees by itself whether the one before it, whose answer was lost, was made. Raises NotConnectedError
        when there is no outcome after the time that a session lasts, otherwise as `guarded`.
        """
        return await self.guarded(self._within_session(attempt))

    async def guarded(self, asking: Awaitable[T]) -> T:
        """Ask once; what the servers refuse for reasons that are none of ours is raised as StoreError."""
        try:
            return await asking
        except (KazooException, Refusal) as error:
            reason = error.reason if isinstance(error, Refusal) else error
            if isinstance(reason, NoAuthError):
                raise StoreError(
                    f"{self.where}: ZooKeeper does not let this broker read or write there: correct "
                    "metadata.zookeeper.credentials, zookeeper.ssl.keystore.location, or the ACLs of the nodes"
                ) from error
            raise StoreError(f"{self.where}: {reason!r}") from error

    async def _within_session(self, attempt: Callable[[], Awaitable[T]]) -> T:
        timeout_s = self.session_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._attempts(attempt)
        except TimeoutError:
            raise NotConnectedError(f"no ZooKeeper server could be asked in {timeout_s:g} s") from None

    async def _attempts(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(ATTEMPTS_MAX):
            await self.client.wait_until_connected()
            try:
                return await attempt()
            except NotConnectedError:
                self._forget_all()
            except Refusal as refusal:
                if not isinstance(refusal.reason, BadVersionError | NoNodeError | NodeExistsError):
                    raise
                self._forget_all()
            except NoNodeError:
                pass
        raise StoreError(f"{self.where}: other processes change it all the time")

    def _forget_all(self) -> None:
        for forget in self._forget:
            forget()
