"""A metadata store in memory: another engine behind the same interface, with sessions of any number of brokers."""

from collections.abc import Callable, Sequence

from ottla.metadata.store.interface import (
    NO_BROKER,
    Controllership,
    FencedError,
    LiveBroker,
    Session,
    SessionExpiredError,
    StaleOffsetError,
    StoredRecords,
)


class MemoryStore:
    """Outlives the brokers that open and close it."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self._cluster_id = ""
        self._sessions: dict[int, LiveBroker] = {}
        self._broker_epoch = self._controller_epoch = 0
        self._elected = Session(NO_BROKER, -1)
        self._secret: bytes | None = None
        self._mine: Session | None = None

    async def open(self, new_cluster_id: str) -> str:
        self._cluster_id = self._cluster_id or new_cluster_id
        return self._cluster_id

    async def cluster_secret(self, new_secret: bytes) -> bytes:
        self._secret = self._secret or new_secret
        return self._secret

    async def register_broker(self, broker_id: int, registration: bytes, *, takes_over: bytes | None = None) -> Session:
        self._broker_epoch += 1
        self._sessions[broker_id] = LiveBroker(broker_id, self._broker_epoch, registration)
        self._mine = Session(broker_id, self._broker_epoch)
        return self._mine

    async def live_brokers(self) -> list[LiveBroker]:
        return sorted(self._sessions.values(), key=lambda live: live.broker_id)

    async def controller(self) -> Controllership:
        return Controllership(self._elected.broker_id, self._controller_epoch, self._lives(self._elected))

    async def elect(self, session: Session, *, seen_epoch: int) -> int:
        if not self._lives(session):
            raise SessionExpiredError("the session has ended")
        if seen_epoch != self._controller_epoch:
            raise FencedError("there was another election")
        self._elected = session
        self._controller_epoch += 1
        return self._controller_epoch

    async def resign(self, *, controller_epoch: int) -> None:
        if controller_epoch != self._controller_epoch:
            raise FencedError("another broker is the controller")
        self._elected = Session(self._elected.broker_id, -1)

    def _lives(self, session: Session) -> bool:
        live = self._sessions.get(session.broker_id)
        return live is not None and live.broker_epoch == session.broker_epoch

    async def append(self, records: Sequence[bytes], *, controller_epoch: int, expected_end_offset: int) -> int:
        if controller_epoch != self._controller_epoch:
            raise FencedError("another broker is the controller")
        if expected_end_offset != len(self.log):
            raise StaleOffsetError("the log has grown")
        self.log += records
        return len(self.log)

    async def read(self, from_offset: int) -> StoredRecords:
        start = max(from_offset, 0)
        return StoredRecords(None, tuple(self.log[start:]), start, len(self.log))

    async def probe(self) -> int:
        return len(self.log)

    async def write_snapshot(self, snapshot: Sequence[bytes], *, controller_epoch: int, end_offset: int) -> None:
        """The log is kept whole."""

    def watch(self, callback: Callable[[int], None]) -> None:
        """Nobody is told."""

    def watch_brokers(self, callback: Callable[[], None]) -> None:
        """Nobody is told."""

    def watch_controller(self, callback: Callable[[], None]) -> None:
        """Nobody is told."""

    def watch_session(self, callback: Callable[[], None]) -> None:
        """Sessions end by `close` alone."""

    async def close(self) -> None:
        if self._mine is not None:
            self._sessions.pop(self._mine.broker_id, None)
            self._mine = None
