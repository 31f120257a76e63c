"""A ZooKeeper client for one event loop, over kazoo.

kazoo has threads of its own. Nothing of them touches the loop but through `call_soon_threadsafe`: answers, watches and
the state of the session arrive as calls on the loop, in the order in which kazoo saw them.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    CancelledError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    NotReadOnlyCallError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    ZookeeperStoppedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, CREATOR_ALL_ACL, make_digest_acl

from ottla.metadata.store.interface import StoreError
from ottla.metadata.store.zookeeper_security import NO_SECURITY, ZooKeeperSecurity
from ottla.metadata.store.zookeeper_sockets import ZooKeeperSockets
from ottla.runtime.clock import SystemClock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)
kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
kazoo_logger.setLevel(logging.ERROR)

RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
"""It tries for ever: whether the session outlived the search, the servers say."""

SILENCE: Final = 1 / 3
"""The part of a session's time after which a connection that was lost counts as silence. kazoo notices within the other
two thirds that nobody answers any more: together it is the time after which the servers may end the session."""

CONNECT: Final = 1 / 3
"""The part of a session's time in which all servers of the list can be tried: one of a host that is gone says nothing,
and the session is to outlive that."""

_CONNECTION_ERRORS: Final = (
    CancelledError,
    ConnectionDropped,
    ConnectionLoss,
    NotReadOnlyCallError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    ZookeeperStoppedError,
)

_OF_CERTIFICATES: Final = "x509"

Watch = Callable[[], None]


class NotConnectedError(StoreError):
    """No server could be asked, or none answered in time; of a change nobody knows whether it was made."""


class Operation:
    """One step of a transaction: the name and the arguments of a method of kazoo's transactions."""

    __slots__ = ("args", "kind", "kwargs")

    def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
        self.kind = kind
        self.args = args
        self.kwargs = kwargs


class Refusal(Exception):  # noqa: N818
    """A transaction was refused, and nothing of it done: which step, and why."""

    def __init__(self, step: int, reason: KazooException) -> None:
        super().__init__(f"step {step}: {reason!r}")
        self.step = step
        self.reason = reason


class ZooKeeperClient:
    """A session with an ensemble. Paths are below `root`. Belongs to the event loop.

    Raises kazoo's exceptions for what the servers refuse, and NotConnectedError.
    """

    def __init__(
        self,
        hosts: str,
        root: str,
        session_timeout_ms: int,
        tasks: Tasks,
        *,
        timer: Timer | None = None,
        security: ZooKeeperSecurity = NO_SECURITY,
    ) -> None:
        """Raises InvalidSettingError when the keys of `security` cannot be used. BLOCKING: it reads their files."""
        self._root = root
        self._acls: list[ACL] | None = None
        if security.credentials is not None:
            user, _, password = security.credentials.partition(":")
            self._acls = [make_digest_acl(user, password, all=True)]
        elif security.sets_acl:
            self._acls = CREATOR_ALL_ACL
        self._tasks = tasks
        self._timeout_s = session_timeout_ms / 1000
        self._sockets = ZooKeeperSockets(self._timeout_s * CONNECT / len(hosts.split(",")), security.tls)
        self._client = KazooClient(
            hosts=hosts,
            timeout=self._timeout_s,
            handler=self._sockets,
            connection_retry=RECONNECT,
            command_retry=RECONNECT,
            logger=kazoo_logger,
            default_acl=self._acls,
            auth_data=None if security.credentials is None else [("digest", security.credentials)],
        )
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._timer = timer or Timer(SystemClock(), self._loop.call_later)
        self._silence: TimerTask | None = None
        self._is_silent = False
        self._waiting: set[asyncio.Future[None]] = set()
        self.on_lost: Callable[[], None] = lambda: None
        """The session has ended, and with it all watches and ephemeral nodes; another begins by itself."""
        self.on_silence: Callable[[], None] = lambda: None
        """Nobody has answered for as long as a session lasts: the servers may have ended it by now."""
        self.on_connected: Callable[[], None] = lambda: None
        """There is a connection again: all watches are gone, whether or not it is another session."""
        self._client.add_listener(self._on_state)

    @property
    def session_id(self) -> int:
        """The number of the session, as ephemeral nodes name their owner."""
        client_id = self._client.client_id
        return int(client_id[0]) if client_id else 0

    async def connect(self, timeout_s: float) -> None:
        """Begin the session. Raises NotConnectedError when no server takes it in time."""
        await self._tasks.in_thread(self._client.start_async)
        try:
            async with asyncio.timeout(timeout_s):
                await self._connected.wait()
        except TimeoutError:
            why = f": {self._sockets.failure}" if self._sockets.failure else ""
            raise NotConnectedError(f"no ZooKeeper server was reached in {timeout_s:g} s{why}") from None

    async def wait_until_connected(self) -> None:
        """Wait for a connection. Raises NotConnectedError once there has been none for as long as a session lasts."""
        if self._connected.is_set():
            return
        if self._is_silent:
            raise self._silent()
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    async def close(self) -> None:
        """End the session, when there is a connection to say so."""
        self._client.remove_listener(self._on_state)
        self._timer.close()
        with suppress(KazooException, KazooTimeoutError, OSError):
            await self._tasks.in_thread(self._client.stop)
        with suppress(KazooException, OSError):
            await self._tasks.in_thread(self._client.close)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Any]:
        """The data and the status of a node. With `watch`, it is called at most once, when the node changed."""
        data, status = await self._ask("get_async", self._root + path, watch=self._on_loop(watch))
        return data or b"", status

    async def exists(self, path: str, watch: Watch | None = None) -> Any:
        """The status of a node, None when there is none. With `watch`, it is called when that changed."""
        return await self._ask("exists_async", self._root + path, watch=self._on_loop(watch))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of the nodes below a node. With `watch`, it is called when there are others."""
        names: list[str] = await self._ask("get_children_async", self._root + path, watch=self._on_loop(watch))
        return names

    async def create(self, path: str, data: bytes) -> None:
        """Make a node."""
        await self._ask("create_async", self._root + path, data)

    async def is_exposed(self, path: str) -> bool:
        """Whether a node can be opened by others than those that this process creates nodes for; never where that is
        everybody.
        """
        if self._acls is None:
            return False
        acls, _ = await self._ask("get_acls_async", self._root + path)
        if self._acls is CREATOR_ALL_ACL:  # servers put the subject of the certificate in its place
            return any(each.id.scheme != _OF_CERTIFICATES for each in acls)
        return any(each not in self._acls for each in acls)

    async def ensure_root(self) -> None:
        """Make the node below which all others are."""
        if self._root:
            await self._ask("ensure_path_async", self._root)

    async def commit(self, *operations: Operation) -> None:
        """Do all steps or none. Raises Refusal, and NotConnectedError when it is not known whether they were done."""
        transaction = self._client.transaction()
        for operation in operations:
            path, *rest = operation.args
            getattr(transaction, operation.kind)(self._root + path, *rest, **operation.kwargs)
        results = await self._wait(transaction.commit_async)
        for step, result in enumerate(results):
            if isinstance(result, KazooException) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise Refusal(step, result)

    async def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return await self._wait(lambda: getattr(self._client, method)(*args, **kwargs))

    async def _wait(self, begin: Callable[[], Any]) -> Any:
        if not self._connected.is_set():
            raise NotConnectedError("there is no connection to ZooKeeper")
        future: asyncio.Future[Any] = self._loop.create_future()
        begin().rawlink(lambda result: self._call_on_loop(_settle, future, result))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError:
            raise NotConnectedError(f"ZooKeeper has not answered in {self._timeout_s:g} s") from None
        except _CONNECTION_ERRORS as error:
            raise NotConnectedError(f"the connection to ZooKeeper was lost: {error!r}") from error

    def _on_loop(self, watch: Watch | None) -> Callable[[Any], None] | None:
        """A watch for kazoo's thread; equal ones of a node are one, so that asking twice does not tell twice."""
        return None if watch is None else _LoopWatch(self, watch)

    # What follows is called in threads of kazoo's.

    def _on_state(self, state: str) -> None:
        self._call_on_loop(self._changed, state)

    def _call_on_loop(self, function: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
            self._loop.call_soon_threadsafe(function, *args)

    # On the loop again.

    def _changed(self, state: str) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if state == KazooState.CONNECTED:
            logger.info("connected to ZooKeeper")
            self._is_silent = False
            self._connected.set()
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)
            self.on_connected()
            return
        self._connected.clear()
        if state == KazooState.LOST:
            logger.warning("the ZooKeeper session has expired")
            self.on_lost()
        else:
            logger.warning("lost the connection to ZooKeeper: the metadata cannot change until it is restored")
            self._silence = self._timer.schedule(int(self._timeout_s * 1000 * SILENCE), self._on_silence)

    def _on_silence(self) -> None:
        self._is_silent = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(self._silent())
        self.on_silence()

    def _silent(self) -> NotConnectedError:
        return NotConnectedError(f"no ZooKeeper server has answered for {self._timeout_s:g} s")


class _LoopWatch:
    """Calls a watch on the loop. Equal when the watch is, because kazoo keeps watches of a node in a set."""

    __slots__ = ("_client", "_watch")

    def __init__(self, client: ZooKeeperClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def __call__(self, _event: object) -> None:
        self._client._call_on_loop(self._watch)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LoopWatch) and self._watch == other._watch

    def __hash__(self) -> int:
        return hash(self._watch)


def _settle(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)
