"""NSQ publishers and the consumers of a channel, who connect to brokers that lookup names and to any other, at work
while these fail.

A FIN is answered by nobody. It is final once the CLS behind it is answered; so most consumers stay for a second or two,
end with CLS, and subscribe anew; some stay through a fault. A delivery is dated by the subscription it came with.
"""

import select
import time
from collections.abc import Callable
from random import Random
from threading import Lock

from chaos.queue_chapter import Progress
from ottla.client.errors import ClientError
from ottla.gateways.nsq.message_id import parse_message_id
from ottla.simulation.history import Outcome
from ottla.simulation.share_history import Delivery, Place, Settlement, ShareHistory
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster
from tests.system.nsq_client import Message, NsqClient
from tests.system.test_lookupd import LookupdProcess
from tests.system.test_nsq import address
from workload.worker import Worker

TOPIC, CHANNEL = "clicks", "archive"
CONSUMERS = 3
PUBLISHERS = 2
READY = 10
ATTEMPTS_MAX = (1 << 16) - 1
MESSAGE_TIMEOUT_MS = 3_000
LIFE_S = (0.3, 2.0)
"""How long a consumer stays before it ends with CLS."""
LONG_LIFE_S = (5.0, 25.0)
"""How long some stay, so that a fault comes meanwhile: one in ten."""
LONG_LIVES = 0.1
ANYWHERE = 0.5
"""How many connect to any broker that runs, in sync or not, whatever lookup says."""
ANSWER_S = 15.0
"""After so long without an answer a client gives up its connection."""
PAUSE_S = 0.02
LOOK_S = 0.1
REQUEUED = 0.05
REQUEUED_MS = (0, 0, 150)
TOUCHED = 0.05
STOPPED = 0.02
"""How often a consumer wants nothing for a moment (RDY 0)."""
RESPONSE, ERROR = 0, 1
UNKNOWN = b"it may come again"
"""How an error ends where what was said may be stored or not."""


class GoneError(Exception):
    """A connection has ended, or does not answer."""


class Connection(NsqClient):
    """One that is waited for with an end."""

    def __init__(self, where: tuple[str, int]) -> None:
        try:
            super().__init__(where)
        except OSError as error:
            raise GoneError from error

    def say(self, line: bytes, body: bytes | None = None) -> None:
        """Raises GoneError."""
        try:
            self.send(line, body)
        except OSError as error:
            raise GoneError from error

    def next_frame(self, wait_s: float) -> tuple[int, bytes] | None:
        """None when none begins to arrive. Raises GoneError."""
        try:
            if not self._received and not select.select([self._socket], [], [], wait_s)[0]:
                return None
            return self.frame()
        except (OSError, EOFError) as error:
            raise GoneError from error

    def answer(self) -> tuple[int, bytes]:
        """The next frame that has to come. Raises GoneError."""
        found = self.next_frame(ANSWER_S)
        if found is None:
            raise GoneError
        return found


class Publisher(Worker):
    """PUB and MPUB, at whichever broker runs; what was answered with OK is acknowledged."""

    def __init__(self, name: str, brokers: Callable[[], list[BrokerProcess]], seed: int) -> None:
        super().__init__(name)
        self.acknowledged: set[str] = set()
        self.is_sending = True
        self._brokers = brokers
        self._rng = Random(seed)

    def run(self) -> None:
        """Until it is stopped."""
        number = 0
        while not self.is_stopping and self.is_sending:
            try:
                connection = Connection(address(self._rng.choice(self._brokers())))
                while not self.is_stopping and self.is_sending:
                    values = [f"{self.name}-{number + each}" for each in range(self._rng.choice((1, 1, 1, 5)))]
                    number += len(values)
                    connection.say(*command_of(values))
                    if connection.answer() != (RESPONSE, b"OK"):
                        break
                    self.acknowledged.update(values)
                    time.sleep(PAUSE_S)
                connection.close()
            except GoneError:
                time.sleep(LOOK_S)


class Consumer(Worker):
    """One after the other: each subscribes somewhere, reads for a while, and ends with CLS."""

    def __init__(
        self, name: str, cluster: Cluster, lookupd: LookupdProcess, history: ShareHistory, lock: Lock, seed: int
    ) -> None:
        super().__init__(name)
        self.counts = dict.fromkeys(("at the leader", "at another broker"), 0)
        """Messages that came."""
        self._cluster = cluster
        self._lookupd = lookupd
        self._history = history
        self._lock = lock
        self._rng = Random(seed)

    def run(self) -> None:
        """Until it is stopped."""
        life = 0
        while not self.is_stopping:
            where = self._place()
            if where is None:
                time.sleep(LOOK_S)
                continue
            life += 1
            self._live(f"{self.name}.{life}", where)

    def _place(self) -> tuple[str, int] | None:
        if self._rng.random() < ANYWHERE:
            return address(self._rng.choice(running(self._cluster)))
        _, found = self._lookupd.ask(f"/lookup?topic={TOPIC}")
        producers = found.get("producers", ())
        if not producers:
            return None
        producer = self._rng.choice(producers)
        return producer["broadcast_address"], producer["tcp_port"]

    def _leads(self, where: tuple[str, int]) -> bool:
        """Whether a broker leads the topic at the moment, as far as others know."""
        try:
            leader = self._cluster.brokers.get(self._cluster.partition(TOPIC).leader)
        except (ClientError, KeyError):
            return False
        return leader is not None and bool(leader.ready_line) and address(leader) == where

    def _live(self, member: str, where: tuple[str, int]) -> None:
        said = Said(member, self._history, self._lock)
        try:
            connection = Connection(where)
            connection.say(b"IDENTIFY", b'{"msg_timeout": %d}' % MESSAGE_TIMEOUT_MS)
            connection.answer()
            subscribed_s = time.monotonic()
            connection.say(f"SUB {TOPIC} {CHANNEL}".encode())
            if connection.answer() != (RESPONSE, b"OK"):
                raise GoneError
            at = "at the leader" if self._leads(where) else "at another broker"
            connection.say(b"RDY %d" % READY)
            life_s = self._rng.uniform(*(LONG_LIFE_S if self._rng.random() < LONG_LIVES else LIFE_S))
            until = time.monotonic() + life_s
            while time.monotonic() < until and not self.is_stopping:
                frame = connection.next_frame(LOOK_S)
                if frame is not None:
                    self.counts[at] += frame[0] not in (RESPONSE, ERROR)
                    self._take(connection, said, frame, subscribed_s)
                if self._rng.random() < STOPPED:
                    connection.say(b"RDY 0")
                    connection.say(b"RDY %d" % READY)
            connection.say(b"CLS")
            self._end(connection, said, subscribed_s)
            connection.close()
        except GoneError:
            time.sleep(LOOK_S)
        finally:
            said.over(Outcome.UNKNOWN)

    def _take(self, connection: Connection, said: "Said", frame: tuple[int, bytes], subscribed_s: float) -> None:
        if frame[0] == ERROR:
            said.refused(frame[1])
            return
        if frame[0] == RESPONSE:
            raise GoneError
        message = message_of(frame[1])
        said.came(message, subscribed_s)
        if self._rng.random() < TOUCHED:
            connection.say(b"TOUCH " + message.message_id)
        is_done = self._rng.random() > REQUEUED
        said.says(message, is_done=is_done)
        if is_done:
            connection.say(b"FIN " + message.message_id)
        else:
            connection.say(b"REQ %s %d" % (message.message_id, self._rng.choice(REQUEUED_MS)))

    def _end(self, connection: Connection, said: "Said", subscribed_s: float) -> None:
        """Until CLS is answered; what is pushed until then is given back when its time is over."""
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            kind, data = connection.answer()
            if (kind, data) == (RESPONSE, b"CLOSE_WAIT"):
                said.over(Outcome.OK)
                return
            if kind == ERROR:
                said.refused(data)
            elif kind != RESPONSE:
                said.came(message_of(data), subscribed_s)


class Said:
    """What one consumer saw and said, in a history that it shares with others."""

    def __init__(self, member: str, history: ShareHistory, lock: Lock) -> None:
        self._member = member
        self._history = history
        self._lock = lock
        self._said: dict[Place, tuple[bool, float]] = {}

    def came(self, message: Message, subscribed_s: float) -> None:
        """A message was pushed."""
        place = place_of(message.message_id)
        delivery = Delivery(
            self._member, place, message.body.decode(), message.attempts, subscribed_s, time.monotonic()
        )
        with self._lock:
            self._history.deliveries.append(delivery)

    def says(self, message: Message, *, is_done: bool) -> None:
        """FIN or REQ is about to be sent. One for the same message before is over: nobody knows how."""
        place = place_of(message.message_id)
        self._settle(place, Outcome.UNKNOWN)
        self._said[place] = is_done, time.monotonic()

    def refused(self, error: bytes) -> None:
        """An error frame: `E_FIN_FAILED FIN 0000000000000001 failed ID not in flight`. Some do not know for sure."""
        words = error.split()
        if len(words) > 2 and words[0] in (b"E_FIN_FAILED", b"E_REQ_FAILED"):
            self._settle(place_of(words[2]), Outcome.UNKNOWN if error.endswith(UNKNOWN) else Outcome.FAIL)

    def over(self, outcome: Outcome) -> None:
        """All that is not refused ended so."""
        for place in list(self._said):
            self._settle(place, outcome)

    def _settle(self, place: Place, outcome: Outcome) -> None:
        is_done, sent_s = self._said.pop(place, (False, 0.0))
        if sent_s:
            settlement = Settlement(self._member, place, is_done, outcome, sent_s, time.monotonic())
            with self._lock:
                self._history.settlements.append(settlement)


class ChannelAtWork:
    """Publishers and consumers, each in a thread."""

    def __init__(self, cluster: Cluster, lookupd: LookupdProcess, seed: int) -> None:
        rng, lock = Random(seed), Lock()
        self.history = ShareHistory(ATTEMPTS_MAX)
        self._progress = Progress(self.history)
        self._publishers = [
            Publisher(f"publisher-{number}", lambda: running(cluster), rng.randrange(1 << 30))
            for number in range(PUBLISHERS)
        ]
        self._consumers = [
            Consumer(f"consumer-{number}", cluster, lookupd, self.history, lock, rng.randrange(1 << 30))
            for number in range(CONSUMERS)
        ]

    def start(self) -> None:
        """Begin."""
        for each in (*self._consumers, *self._publishers):
            each.start()

    @property
    def acknowledged(self) -> set[str]:
        """What was answered with OK."""
        return set().union(*(each.acknowledged.copy() for each in self._publishers))

    @property
    def counts(self) -> dict[str, int]:
        """What was seen of the consumers."""
        places = self._consumers[0].counts
        return {f"messages {at}": sum(each.counts[at] for each in self._consumers) for at in places}

    @property
    def is_sending(self) -> bool:
        """Whether the publishers go on."""
        return any(each.is_sending for each in self._publishers)

    @is_sending.setter
    def is_sending(self, value: bool) -> None:
        for each in self._publishers:
            each.is_sending = value

    @property
    def done(self) -> set[str]:
        """What some consumer has finished, as far as it knows."""
        return self._progress.look()

    def require_sound(self) -> None:
        """Raise what a thread died of."""
        for each in (*self._consumers, *self._publishers):
            each.require_sound()

    def stop(self) -> None:
        """All of them."""
        for each in (*self._publishers, *self._consumers):
            each.give_up()
        for each in (*self._publishers, *self._consumers):
            each.stop()


def running(cluster: Cluster) -> list[BrokerProcess]:
    """The brokers that have said where they are and were not ended since."""
    found = [each for each in cluster.brokers.values() if each.is_running and each.ready_line]
    return found or list(cluster.brokers.values())


def command_of(values: list[str]) -> tuple[bytes, bytes]:
    """PUB of one, MPUB of several."""
    bodies = [value.encode() for value in values]
    if len(bodies) == 1:
        return f"PUB {TOPIC}".encode(), bodies[0]
    return f"MPUB {TOPIC}".encode(), mpub_body(bodies)


def mpub_body(bodies: list[bytes]) -> bytes:
    """A count, and each body with its length."""
    return len(bodies).to_bytes(4, "big") + b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def message_of(data: bytes) -> Message:
    """The message that a frame has."""
    attempts = int.from_bytes(data[8:10], "big")
    return Message(int.from_bytes(data[:8], "big", signed=True), attempts, data[10:26], data[26:])


def place_of(message_id: bytes) -> Place:
    """Where the message of an id is. Raises ValueError for what is none of Ottla's."""
    found = parse_message_id(message_id)
    if found is None:
        raise ValueError(f"{message_id!r} is no message id")
    return (TOPIC, found[0]), found[1]
