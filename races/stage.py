"""What all who take part in a round share: the broker's address, the history, chance, and the topics there are."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from races.check_exchanges import PATIENCE_S
from races.history import Append, Exchange, History, Life, Seen
from races.kafka_errors import name_of

LIVING = ("lives-0", "lives-1", "lives-2", "lives-3")
"""Deleted and made again all the time, each by an owner of its own."""
KEPT = ("keeps-0", "keeps-1")
"""Stay for a round and keep every record."""
TRIMMED = ("trimmed-0", "trimmed-1")
"""Lose their oldest records to retention; settings of theirs change."""
WILD = ("wild-0", "wild-1")
"""Made and deleted by anybody: of their lives nothing is known."""
QUIET = "quiet-0"
"""Stays, and nobody writes to it: a session that reads it has something to wait for."""
NEVER = ("never-was",)
"""Asked for, and never there."""


class Stage:
    """One round. Belongs to the event loop; `history`, `now` and `next_*` may be used from any thread."""

    patience_s = PATIENCE_S

    def __init__(self, port: int, seed: int, round_number: int) -> None:
        self.port = port
        self.rng = Random(f"{seed}/{round_number}")
        self.history = History()
        self.round_number = round_number
        self.operations: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.is_stopping = False
        self.lives: dict[str, Life] = {}
        """The life each name has now, of those whose lives are known."""
        self.past: list[Life] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.crashes: list[BaseException] = []
        self._names = count()
        self._values = count()
        self._life_numbers = count()

    @staticmethod
    def now() -> float:
        """Seconds on the clock of the history."""
        return time.monotonic()

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.port}"

    def name(self, what: str) -> str:
        """A name that nothing else has in the whole run."""
        return f"{what}-r{self.round_number}-{next(self._names)}"

    def next_value(self) -> int:
        """A number that is handed out once."""
        return next(self._values)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run beside everything else; what crashes ends the run."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashes.append(error)

    def count(self, exchange: Exchange) -> None:
        """An answer came."""
        self.operations[exchange.api] += 1
        for code in exchange.errors:
            if code:
                self.errors[f"{exchange.api} {name_of(code)}"] += 1

    def new_life(self, topic: str, partition_count: int, *, takes_records_away: bool = False) -> Life:
        """A topic is about to be asked for."""
        life = Life(topic, next(self._life_numbers), partition_count, self.now(), takes_records_away=takes_records_away)
        self.history.lives.append(life)
        return life

    def topic_id(self, topic: str, rng: Random) -> UUID | None:
        """An id to ask for a topic by: its own mostly, that of an earlier life, or nobody's."""
        life = self.lives.get(topic)
        chance = rng.random()
        if chance < 0.1:
            earlier = [each.topic_id for each in self.past if each.topic == topic and each.topic_id is not None]
            if earlier:
                return rng.choice(earlier)
        return None if life is None else life.topic_id

    def partition_of(self, topic: str, rng: Random) -> int:
        """One of its partitions; now and then one it has not."""
        life = self.lives.get(topic)
        count = 2 if life is None else life.partition_count
        return rng.randrange(count + 1) if rng.random() < 0.05 else rng.randrange(count)

    def send(self, topic: str, partition: int, producer: str, number: int, acks: int = -1) -> Append:
        """A record is about to be given to a library."""
        append = Append(
            topic, partition, self.now(), producer=producer, first_number=number, acks=acks, is_retried=True
        )
        self.history.appends.append(append)
        return append


def answered(seen: Seen, exchange: Exchange, error: int = 0) -> None:
    """An answer says this of what was asked."""
    seen.answered_at, seen.error = exchange.answered_at, error
